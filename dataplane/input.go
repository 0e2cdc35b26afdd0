// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"passt/dataplane/link"
	"passt/dataplane/wire"
	"passt/internal/sys"
)

// batchesPerTurn bounds what one turn reads from the link, so that sockets and timers are served in between.
const batchesPerTurn = 8

// LinkEvent reads frames from the guest until the link is drained or the turn's budget is used up.
// An error other than "nothing there" ends the link.
func (p *Plane) LinkEvent(events uint32) sys.Errno {
	if events&sys.PollOut != 0 {
		p.tcp.LinkReady()
	}
	for range batchesPerTurn {
		e := p.Env.Link.Recv(&p.batch)
		p.input(&p.batch)
		if e != 0 {
			if e == sys.EAGAIN {
				return 0
			}
			return e
		}
	}
	return 0
}

// input takes a batch apart and hands runs of packets of one flow to their protocol.
func (p *Plane) input(b *link.Batch) {
	start, n := 0, 0 // run of equal tuples: pkts[start:n]
	for i := range b.N {
		k := &p.pkts[n]
		switch d := k.Parse(b.Frames[i].Data, &b.Frames[i].Vnet); d {
		case wire.DropNone:
		case wire.DropFragment:
			if n > start {
				p.deliver(p.pkts[start:n])
				start = n
			}
			p.fragment(b.Frames[i].Data)
			continue
		default:
			p.Env.Drops.Add(d)
			continue
		}
		if !p.admit(k) {
			continue
		}
		if hasNoRun(k) {
			p.single(k)
			continue
		}
		if n > start && !sameFlow(&p.pkts[start], k) {
			p.deliver(p.pkts[start:n])
			start = n
		}
		n++
	}
	if n > start {
		p.deliver(p.pkts[start:n])
	}
}

// fragment adds a fragment to the reassembler; a completed datagram is handled at once, since it is valid only until the next.
func (p *Plane) fragment(frame []byte) {
	whole, ok, d := p.frags.Add(frame, p.Env.NowMs)
	if !ok {
		if d != wire.DropNone {
			p.Env.Drops.Add(d)
		}
		return
	}
	var v wire.Vnet
	k := &p.whole[0]
	if d := k.Parse(whole, &v); d != wire.DropNone {
		p.Env.Drops.Add(d)
		return
	}
	switch {
	case !p.admit(k):
	case hasNoRun(k):
		p.single(k)
	default:
		p.deliver(p.whole[:])
	}
}

// hasNoRun tells packets that are handled one by one: services, echo, everything that is neither TCP nor UDP.
func hasNoRun(k *wire.Packet) bool {
	return k.Proto != wire.ProtoTCP && (k.Proto != wire.ProtoUDP || k.DstPort == 67 || k.DstPort == 547)
}

func sameFlow(a, b *wire.Packet) bool {
	return a.SrcPort == b.SrcPort && a.DstPort == b.DstPort && a.Proto == b.Proto && a.Dst == b.Dst && a.Src == b.Src
}

func (p *Plane) deliver(run []wire.Packet) {
	if run[0].Proto == wire.ProtoTCP {
		if p.Env.Fwd.TCP {
			p.tcp.FromGuest(run)
		}
		return
	}
	if p.Env.Fwd.UDP {
		p.udp.FromGuest(run)
	}
}

// single handles what has no run: services and echo.
func (p *Plane) single(k *wire.Packet) {
	switch {
	case k.EtherType == wire.EtherARP:
		p.local.ARP(k)
	case k.Proto == wire.ProtoUDP && k.DstPort == 67 && k.EtherType == wire.EtherIP4:
		p.local.DHCP4(k)
	case k.Proto == wire.ProtoUDP && k.DstPort == 547 && k.EtherType == wire.EtherIP6:
		p.local.DHCP6(k)
	case k.Proto == wire.ProtoUDP:
		p.whole[0] = *k
		p.deliver(p.whole[:]) // port 67 over IPv6, 547 over IPv4: ordinary traffic, rare
	case k.Proto == wire.ProtoICMP && k.EtherType == wire.EtherIP4:
		p.icmp.FromGuest(k)
	case k.Proto == wire.ProtoICMPv6 && k.EtherType == wire.EtherIP6:
		if !p.local.NDP(k) {
			p.icmp.FromGuest(k)
		}
	default:
		p.Env.Drops.Add(wire.DropProto)
	}
}

// admit checks that the packet's family is on and learns the guest's addresses from it.
func (p *Plane) admit(k *wire.Packet) bool {
	e := p.Env
	on := e.Fwd.V6.On
	if k.EtherType != wire.EtherIP6 {
		on = e.Fwd.V4.On
	}
	if !on {
		e.Drops.Add(wire.DropFamilyOff)
		return false
	}
	e.Guest.MAC = wire.MAC(k.Eth[6:12])
	if k.EtherType != wire.EtherARP {
		p.learn(&k.Src)
	}
	return true
}

// learn notes the guest's own address, the destination of inbound traffic (spec addressing 8): of IPv4 only inside the
// assigned prefix, so that a guest that routes for others does not move it with each forwarded packet.
func (p *Plane) learn(a *wire.Addr) {
	e := p.Env
	switch {
	case !a.IsUnicast():
	case a.Is4():
		if f := &e.Fwd.V4; *a != e.Guest.Seen4 && !f.Pinned && (f.Guest.IsZero() || a.InPrefix(&f.Guest, int(f.Prefix))) {
			e.Guest.Seen4 = *a
		}
	case a.IsLinkLocal():
		e.Guest.SeenL = *a
		f := &e.Fwd.V6
		if e.Guest.Seen6.IsZero() && !f.Pinned {
			e.Guest.Seen6 = *a
		}
		if f.Guest.IsZero() {
			f.Guest = *a
		}
	default:
		if f := &e.Fwd.V6; *a != e.Guest.Seen6 && !f.Pinned && (f.Guest.IsZero() || f.Guest.IsLinkLocal() || a.InPrefix(&f.Guest, int(f.Prefix))) {
			e.Guest.Seen6 = *a
		}
	}
}
