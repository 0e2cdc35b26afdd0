// SPDX-License-Identifier: Apache-2.0

package local

import "passt/dataplane/wire"

// Router advertisements: the interval is random between the two limits (RFC 4861 s.6.2.1 with a maximum of 600 s), the first ones
// follow fast, so that a guest whose solicitation was lost recovers.
const (
	raMinS      = 200
	raSpanS     = 400
	raInitial   = 3
	raFastMinMs = 1000
	raFastMs    = 4000  // span: three of them within 16 s (RFC 4861 s.10)
	raLifetimeS = 65535 // as default router
	raMax       = 1280  // bytes of the IP packet
	raFixed     = wire.RASize + wire.PrefixSize
)

// raTimer is the state of unsolicited advertisements.
type raTimer struct {
	at   int64 // ms, 0: not started
	sent int
	rng  uint64
}

// next gives a random number below n (xorshift64*).
func (t *raTimer) next(n uint64) int64 {
	t.rng ^= t.rng >> 12
	t.rng ^= t.rng << 25
	t.rng ^= t.rng >> 27
	return int64((t.rng * 0x2545f4914f6cdd1d >> 32) % n)
}

func (t *raTimer) arm(nowMs int64) {
	if t.sent < raInitial {
		t.at = nowMs + raFastMinMs + t.next(raFastMs+1)
		return
	}
	t.at = nowMs + 1000*(raMinS+t.next(raSpanS))
}

func (s *Local) ndpOn() bool { return s.c.NDP && s.env.Fwd.ICMP }

func (s *Local) raOn() bool {
	f := &s.env.Fwd.V6
	return s.ndpOn() && s.c.RA && !s.c.ConfigNet && f.On && !f.Our.IsZero()
}

// NextMs gives the time of the next unsolicited advertisement; false when there is none. The clock starts when the link is there.
func (s *Local) NextMs() (int64, bool) {
	if !s.raOn() || s.env.Link == nil {
		return 0, false
	}
	if s.ra.at == 0 {
		s.ra.arm(s.env.NowMs)
	}
	return s.ra.at, true
}

// Tick sends the advertisement that is due.
func (s *Local) Tick() {
	at, ok := s.NextMs()
	if !ok || at > s.env.NowMs {
		return
	}
	s.ra.sent = min(s.ra.sent+1, raInitial)
	s.ra.arm(s.env.NowMs)
	s.sendRA(&wire.AllNodes)
}

// NDP handles neighbour discovery (spec services 4); true when p was of its types.
func (s *Local) NDP(p *wire.Packet) bool {
	if len(p.L4) == 0 || !wire.IsNDP(p.L4[0]) {
		return false
	}
	if !s.ndpOn() || !s.env.Fwd.V6.On || s.env.Fwd.V6.Our.IsZero() {
		s.env.Drops.Add(wire.DropNDP)
		return true
	}
	n, d := wire.ParseNDP(p.L4)
	if d == wire.DropNone && p.TTL != 255 {
		d = wire.DropNDP // came through a router, RFC 4861 s.11.2
	}
	if d == wire.DropNone {
		switch n.Type() {
		case wire.NDPRouterSolicit:
			d = s.routerSolicit(p)
		case wire.NDPNeighbourSolicit:
			d = s.neighbourSolicit(p, n)
		}
	}
	if d != wire.DropNone {
		s.env.Drops.Add(d)
	}
	return true
}

// neighbourSolicit answers for every address but the guest's own; duplicate detection (source ::) never meets an owner.
func (s *Local) neighbourSolicit(p *wire.Packet, n wire.NDP) wire.Drop {
	target := n.Target()
	if !p.Src.IsUnicast() || target.IsMulticast() || target == s.env.Fwd.V6.Guest || s.isSeen(&target) {
		return wire.DropNDP
	}
	mac := s.MACFor(&target)
	s.advertise(&target, &mac, &p.Src, wire.NARouter|wire.NASolicited|wire.NAOverride)
	return wire.DropNone
}

// advertise sends a neighbour advertisement.
func (s *Local) advertise(target *wire.Addr, mac *wire.MAC, to *wire.Addr, flags uint8) {
	n := wire.PutNeigh(s.buf[wire.IP6Size:], wire.NDPNeighbourAdvert, flags, target, mac)
	s.sendICMP6(to, s.guestMAC(to), n)
}

func (s *Local) guestMAC(to *wire.Addr) *wire.MAC {
	if *to == wire.AllNodes {
		return &allNodesMAC
	}
	return &s.env.Guest.MAC
}

var allNodesMAC = wire.MulticastMAC(&wire.AllNodes)

func (s *Local) routerSolicit(p *wire.Packet) wire.Drop {
	if !s.raOn() || p.Src.IsMulticast() {
		return wire.DropNDP
	}
	to := p.Src
	if to.IsZero() {
		to = wire.AllNodes
	}
	s.sendRA(&to)
	return wire.DropNone
}

// sendRA sends a router advertisement (spec services 4.5). The prefix is left out when no global address is assigned: a
// link-local one would be ignored.
func (s *Local) sendRA(to *wire.Addr) {
	b := s.buf[wire.IP6Size:]
	a := &s.env.Fwd.V6.Guest
	flags := uint8(0)
	if s.dhcp6On() {
		flags = wire.RAManaged
	}
	n := wire.PutRA(b, flags, raLifetimeS)
	if !a.IsZero() && !a.IsLinkLocal() {
		n += wire.PutPrefix(b[n:], a)
	}
	n += copy(b[n:], s.raTail)
	s.sendICMP6(to, s.guestMAC(to), n)
}

// buildRA makes the options that are the same in every advertisement.
func (s *Local) buildRA(search []string) {
	b := make([]byte, raMax-wire.IP6Size-raFixed)
	n := wire.PutMACOpt(b, wire.NDPOptSourceMAC, &s.c.OurMAC)
	if s.c.MTU >= 1280 {
		n += wire.PutMTUOpt(b[n:], s.c.MTU)
	}
	if s.c.SendDNS {
		n += wire.PutRDNSS(b[n:], s.c.DNS6)
	}
	n += wire.PutDNSSL(b[n:], search)
	s.raTail = b[:n:n]
}
