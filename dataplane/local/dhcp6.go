// SPDX-License-Identifier: Apache-2.0

package local

import (
	"bytes"
	"encoding/binary"

	"passt/dataplane/wire"
)

const infinite = 0xffffffff // lifetime, seconds

// dhcp6On tells whether there is an address to hand out; in local mode the guest's own link-local one stands in its place.
func (s *Local) dhcp6On() bool {
	f := &s.env.Fwd.V6
	return s.c.DHCP6 && f.On && !f.Our.IsZero() && !f.Guest.IsZero() && !f.Guest.IsLinkLocal()
}

// buildDHCP6 makes our DUID (type 3, link-layer address: the same after each start, RFC 8415 s.11.4) and the options that are
// the same in every answer.
func (s *Local) buildDHCP6(search []string) {
	copy(s.duid[:], []byte{0, 3, 0, 1})
	copy(s.duid[4:], s.c.OurMAC[:])
	w := wire.DHCP6Writer{B: make([]byte, wire.DHCP6Max)}
	if s.c.SendDNS && len(s.c.DNS6) > 0 {
		var v []byte
		for _, a := range s.c.DNS6 {
			v = append(v, a[:]...)
		}
		w.Option(wire.DHCP6OptDNS, v)
	}
	var name [wire.MaxNameWire]byte
	var v []byte
	for _, e := range search {
		if n := wire.PutName(name[:], e); len(v)+n <= searchMost {
			v = append(v, name[:n]...)
		}
	}
	if len(v) > 0 {
		w.Option(wire.DHCP6OptSearch, v)
	}
	s.tail6 = w.B[:w.N:w.N]
	n := wire.PutName(name[:], s.c.FQDN)
	s.fqdn6 = append([]byte{0}, name[:n]...)
}

// searchMost bounds option 24, so that the rest of an answer has room beside it: identifiers, one address, servers, FQDN.
const searchMost = wire.DHCP6Max - wire.DHCP6Head - (4 + 10) - (4 + 12 + 28) - (4 + wire.MaxDUID) - (4 + 48) - 4 - (4 + 1 + wire.MaxNameWire) - 128

// DHCP6 answers a client on port 547 (spec services 5).
func (s *Local) DHCP6(p *wire.Packet) {
	if !s.dhcp6On() || len(p.L4) < wire.UDPSize {
		return
	}
	d, drop := wire.ParseDHCP6(p.L4[wire.UDPSize:])
	if drop != wire.DropNone {
		s.env.Drops.Add(drop)
		return
	}
	if !p.Dst.IsMulticast() || !p.Src.IsUnicast() || !s.valid6(d) {
		s.env.Drops.Add(wire.DropNotOurs)
		return
	}
	w := wire.DHCP6Writer{B: s.buf[head : head+wire.DHCP6Max]}
	granted := s.answer6(d, &w)
	s.sendUDP(&s.env.Fwd.V6.Our, &p.Src, wire.DHCP6ServerPort, wire.DHCP6ClientPort, w.N)
	if granted {
		s.env.Guest.Seen6 = s.env.Fwd.V6.Guest
	}
	if s.mayLog() {
		s.env.Log(levelInfo, "DHCPv6: answered "+kind6(d.Type()))
	}
}

// valid6 applies the table of spec services 5.4: which identifiers a message must and must not have.
func (s *Local) valid6(d wire.DHCP6) bool {
	client, server := d.Option(wire.DHCP6OptClientID), d.Option(wire.DHCP6OptServerID)
	ours := bytes.Equal(server, s.duid[:])
	switch d.Type() {
	case wire.DHCP6Solicit:
		return len(client) > 0 && server == nil
	case wire.DHCP6Confirm:
		return len(client) > 0 && server == nil && s.hasAddr(d)
	case wire.DHCP6Request, wire.DHCP6Renew, wire.DHCP6Release, wire.DHCP6Decline:
		return len(client) > 0 && ours
	case wire.DHCP6Rebind:
		return len(client) > 0 && (server == nil || ours) // RFC 8415 s.16.9 wants none
	case wire.DHCP6InfoReq:
		ia := d.Option(wire.DHCP6OptIANA) != nil || d.Option(wire.DHCP6OptIATA) != nil || d.Option(wire.DHCP6OptIAPD) != nil
		return (server == nil || ours) && !ia
	}
	return false
}

// answer6 writes the answer; true when it grants the address.
func (s *Local) answer6(d wire.DHCP6, w *wire.DHCP6Writer) (granted bool) {
	kind := uint8(wire.DHCP6Reply)
	rapid := d.Type() == wire.DHCP6Solicit && d.Option(wire.DHCP6OptRapid) != nil
	if d.Type() == wire.DHCP6Solicit && !rapid {
		kind = wire.DHCP6Advertise
	}
	w.Head(kind, d)
	w.Option(wire.DHCP6OptServerID, s.duid[:])
	client := d.Option(wire.DHCP6OptClientID)
	switch d.Type() {
	case wire.DHCP6Request, wire.DHCP6Renew, wire.DHCP6Confirm:
		if code, ia := s.foreign(d); ia != nil {
			at := w.Begin(code, ia)
			w.Status(wire.DHCP6NotOnLink, "address is not for this link")
			w.End(at)
			w.Option(wire.DHCP6OptClientID, client)
			if d.Type() == wire.DHCP6Confirm { // clients look for it outside the IA, RFC 8415 s.18.2.10.1
				w.Status(wire.DHCP6NotOnLink, "")
			}
			return false
		}
	case wire.DHCP6Release, wire.DHCP6Decline:
		w.Option(wire.DHCP6OptClientID, client)
		w.Status(wire.DHCP6Success, "")
		return false
	}
	granted = s.associations(d, w, wire.DHCP6Max-w.N-s.after(client))
	if client != nil {
		w.Option(wire.DHCP6OptClientID, client)
	}
	if rapid {
		w.Option(wire.DHCP6OptRapid, nil)
	}
	if d.Type() == wire.DHCP6Confirm {
		w.Status(wire.DHCP6Success, "")
	}
	w.Raw(s.tail6)
	s.putFQDN(d, w)
	return granted
}

// after gives the bytes that follow the associations at most: client, rapid commit, status, servers, search list, FQDN.
func (s *Local) after(client []byte) int {
	n := 4 + len(client) + 4 + 6 + len(s.tail6)
	if len(s.fqdn6) > 1 {
		n += 4 + len(s.fqdn6)
	}
	return n
}

// associations answers each IA of d within most bytes: the first IA_NA gets the address, others the status that there is none.
func (s *Local) associations(d wire.DHCP6, w *wire.DHCP6Writer, most int) (granted bool) {
	const addrOpt = 28 // the larger of what an IA gets
	end := w.N + most
	a := &s.env.Fwd.V6.Guest
	for at := wire.DHCP6Head; ; {
		code, v, next := d.Next(at)
		if next == 0 {
			return granted
		}
		at = next
		size := wire.IAHead(code)
		if size == 0 || w.N+4+size+addrOpt > end {
			continue
		}
		var h [12]byte
		copy(h[:4], v)
		give := code == wire.DHCP6OptIANA && !granted
		if give {
			binary.BigEndian.PutUint64(h[4:], 1<<64-1) // T1 and T2: never
		}
		ia := w.Begin(code, h[:size])
		switch {
		case give:
			w.Addr(a, infinite)
			granted = true
			if d.Type() == wire.DHCP6Rebind {
				s.withdraw(v[size:], w, end)
			}
		case code == wire.DHCP6OptIAPD:
			w.Status(wire.DHCP6NoPrefixAvail, "")
		default:
			w.Status(wire.DHCP6NoAddrsAvail, "")
		}
		w.End(ia)
	}
}

// withdraw ends the other addresses of a client that rebinds: lifetime 0 (RFC 8415 s.18.3.5).
func (s *Local) withdraw(ia []byte, w *wire.DHCP6Writer, end int) {
	for at := 0; ; {
		code, v, next := wire.DHCP6(ia).Next(at)
		if next == 0 {
			return
		}
		at = next
		if code != wire.DHCP6OptIAAddr || len(v) < 24 || w.N+28 > end {
			continue
		}
		if x := wire.Addr6From(v); x != s.env.Fwd.V6.Guest {
			w.Addr(&x, 0)
		}
	}
}

// foreign finds an IA_NA or IA_TA that holds an address other than the guest's: its code and its fixed part.
func (s *Local) foreign(d wire.DHCP6) (uint16, []byte) {
	for at := wire.DHCP6Head; ; {
		code, v, next := d.Next(at)
		if next == 0 {
			return 0, nil
		}
		at = next
		size := wire.IAHead(code)
		if size == 0 || code == wire.DHCP6OptIAPD {
			continue
		}
		for i := size; ; {
			c, x, n := wire.DHCP6(v).Next(i)
			if n == 0 {
				break
			}
			i = n
			if c == wire.DHCP6OptIAAddr && len(x) >= 24 && wire.Addr6From(x) != s.env.Fwd.V6.Guest {
				return code, v[:size]
			}
		}
	}
}

// hasAddr tells whether some IA of d holds an address.
func (s *Local) hasAddr(d wire.DHCP6) bool {
	for at := wire.DHCP6Head; ; {
		code, v, next := d.Next(at)
		if next == 0 {
			return false
		}
		at = next
		size := wire.IAHead(code)
		if size == 0 || code == wire.DHCP6OptIAPD {
			continue
		}
		if wire.DHCP6(v).HasIn(size, wire.DHCP6OptIAAddr) {
			return true
		}
	}
}

// putFQDN tells the client its name: flags 0, or O when the client asked us to update the zone (RFC 4704 s.6).
func (s *Local) putFQDN(d wire.DHCP6, w *wire.DHCP6Writer) {
	if len(s.fqdn6) < 2 {
		return
	}
	s.fqdn6[0] = 0
	if v := d.Option(wire.DHCP6OptFQDN); len(v) > 0 && v[0]&1 != 0 {
		s.fqdn6[0] = 2
	}
	w.Option(wire.DHCP6OptFQDN, s.fqdn6)
}

func kind6(kind uint8) string {
	switch kind {
	case wire.DHCP6Solicit:
		return "solicit"
	case wire.DHCP6Request:
		return "request"
	case wire.DHCP6Confirm:
		return "confirm"
	case wire.DHCP6Renew:
		return "renew"
	case wire.DHCP6Rebind:
		return "rebind"
	case wire.DHCP6Release:
		return "release"
	case wire.DHCP6Decline:
		return "decline"
	}
	return "information-request"
}
