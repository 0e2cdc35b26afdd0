// SPDX-License-Identifier: Apache-2.0

package local

import "passt/dataplane/wire"

// reply4 is what a request gets.
type reply4 struct {
	kind  uint8 // message type, 0: BOOTP reply
	yours wire.Addr
	to    wire.Addr // destination
	omit  [4]uint8  // option codes that are not sent
	only  bool      // nothing but type and server
}

var (
	broadcast4 = wire.Addr4(255, 255, 255, 255)
	none4      = wire.Addr4(0, 0, 0, 0)
)

// DHCP4 answers a client on port 67, whatever the addresses of its packet (spec services 3). There is one lease, for ever.
func (s *Local) DHCP4(p *wire.Packet) {
	f := &s.env.Fwd.V4
	if !s.c.DHCP4 || !f.On || f.Our.IsUnspecified() || f.Guest.IsUnspecified() || len(p.L4) < wire.UDPSize {
		return
	}
	d, drop := wire.ParseDHCP4(p.L4[wire.UDPSize:])
	if drop != wire.DropNone {
		s.env.Drops.Add(drop)
		return
	}
	var r reply4
	if !s.decide4(d, &r) {
		s.env.Drops.Add(wire.DropNotOurs)
		return
	}
	use := uint32(1)<<s.opts4.n - 1
	for i := range s.opts4.n {
		c := s.opts4.list[i].code
		if r.only && c != wire.DHCP4OptType && c != wire.DHCP4OptServer {
			use &^= 1 << i
		}
		for _, o := range r.omit {
			if c == o {
				use &^= 1 << i
			}
		}
	}
	m := s.buf[head : head+wire.DHCP4Max]
	d.PutReply(m, &r.yours)
	if r.kind == wire.DHCP4Nak {
		clear(m[12:16]) // ciaddr, RFC 2131 table 3
	}
	n := wire.DHCP4Head
	n += s.opts4.write(m[n:n+wire.DHCP4Options], d, r.kind, use)
	n = wire.PutDHCP4End(m, n)
	s.sendUDP(&f.Our, &r.to, wire.DHCP4ServerPort, wire.DHCP4ClientPort, n)
	if s.mayLog() {
		s.env.Log(levelInfo, "DHCP: "+kind4(r.kind)+" "+r.yours.String()+" to "+d.MAC().String())
	}
}

// decide4 chooses the answer; false: none (spec services 3.3, 3.10).
func (s *Local) decide4(d wire.DHCP4, r *reply4) bool {
	f := &s.env.Fwd.V4
	r.yours, r.to = f.Guest, f.Guest
	if d.Broadcast() {
		r.to = broadcast4
	}
	r.omit[0] = wire.DHCP4OptRapid
	switch d.Type() {
	case 0:
		if d.Option(wire.DHCP4OptType) != nil {
			return false
		}
		// RFC 1534 s.2: what belongs to DHCP alone does not go to a BOOTP client.
		r.omit = [4]uint8{wire.DHCP4OptRapid, wire.DHCP4OptType, wire.DHCP4OptLease, wire.DHCP4OptServer}
	case wire.DHCP4Discover:
		r.kind = wire.DHCP4Offer
		if d.Option(wire.DHCP4OptRapid) != nil {
			r.kind, r.omit[0] = wire.DHCP4Ack, 0
		}
	case wire.DHCP4Request:
		if id := d.AddrOption(wire.DHCP4OptServer); !id.IsZero() && id != f.Our {
			return false // the client chose another server
		}
		r.kind = wire.DHCP4Ack
		want, client := d.AddrOption(wire.DHCP4OptRequested), d.Client()
		if !want.IsUnspecified() && want != f.Guest || client != none4 && client != f.Guest {
			*r = reply4{kind: wire.DHCP4Nak, yours: none4, to: broadcast4, only: true}
		}
	case wire.DHCP4Inform:
		r.kind, r.yours = wire.DHCP4Ack, none4
		r.omit[1] = wire.DHCP4OptLease
		if r.to = d.Client(); !r.to.IsUnicast() || r.to.IsLoopback() {
			r.to = broadcast4
		}
	default:
		return false
	}
	return true
}

func kind4(kind uint8) string {
	switch kind {
	case wire.DHCP4Offer:
		return "offer of"
	case wire.DHCP4Ack:
		return "ack of"
	case wire.DHCP4Nak:
		return "nak of"
	}
	return "BOOTP reply with"
}
