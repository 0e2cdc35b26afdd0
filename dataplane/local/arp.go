// SPDX-License-Identifier: Apache-2.0

package local

import "passt/dataplane/wire"

// ARP answers requests for every address but the guest's own: the whole world is behind us (spec services 2).
//
// A probe (sender 0.0.0.0, RFC 5227) asks whether an address is in use. It is answered only when we know a holder, else a guest
// could not take any address of its own choice.
func (s *Local) ARP(p *wire.Packet) {
	a, d := wire.ParseARP(p.L4)
	if d != wire.DropNone {
		s.env.Drops.Add(d)
		return
	}
	target, sender := a.TargetIP(), a.SenderIP()
	switch {
	case !s.env.Fwd.V4.On, a.Op() != wire.ARPRequest,
		target == s.env.Fwd.V4.Guest,
		target == sender && !a.FromNobody(),
		a.FromNobody() && !s.held(&target):
		s.env.Drops.Add(wire.DropARP)
		return
	}
	m := wire.ARPMessage{Op: wire.ARPReply, SenderMAC: s.MACFor(&target), SenderIP: target, TargetMAC: a.SenderMAC(), TargetIP: sender}
	to := p.SrcMAC()
	n := m.Put(s.buf)
	s.send(&to, &s.c.OurMAC, wire.EtherARP, s.buf[:n])
}

// sendARP sends a request by broadcast; the Ethernet source is the sender it names.
func (s *Local) sendARP(m *wire.ARPMessage, to *wire.MAC) {
	n := m.Put(s.buf)
	s.send(to, &m.SenderMAC, wire.EtherARP, s.buf[:n])
}

// held tells whether somebody on our side has the IPv4 address a: a mapping, the gateway or a neighbour of the host.
func (s *Local) held(a *wire.Addr) bool {
	f := &s.env.Fwd.V4
	if *a == f.Gateway || *a == f.Our || *a == f.DNSMatch || s.blocked(a) {
		return true
	}
	_, ok := s.neigh.find(a)
	return ok
}
