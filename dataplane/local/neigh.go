// SPDX-License-Identifier: Apache-2.0

package local

import (
	"encoding/binary"
	"math/bits"

	"passt/dataplane/wire"
	"passt/internal/sys"
)

// The table has twice the slots of its entries, so that probes stay short and always end at a free slot.
const (
	neighMax   = 512
	neighSlots = 1024
)

// neighbour is a host's neighbour; a zero MAC marks a free slot.
type neighbour struct {
	addr wire.Addr
	mac  wire.MAC
}

// neighbours is an open-addressing table, linear probing, deletion by shifting back. Hosts of the LAN choose the keys, so the
// hash has a secret.
type neighbours struct {
	slots []neighbour
	n     int
	seed  uint64
}

func (t *neighbours) init(seed uint64) {
	t.slots = sys.AllocOf[neighbour](neighSlots)
	t.seed = seed
}

func (t *neighbours) home(a *wire.Addr) int {
	hi, lo := bits.Mul64(binary.BigEndian.Uint64(a[0:])^t.seed, 0x9e3779b97f4a7c15)
	hi, lo = bits.Mul64(binary.BigEndian.Uint64(a[8:])^hi^lo^t.seed>>32, 0xd6e8feb86659fd93)
	return int((hi ^ lo) % neighSlots)
}

// find gives the slot of a, or the free slot where it would go and false.
func (t *neighbours) find(a *wire.Addr) (int, bool) {
	for i := t.home(a); ; i = (i + 1) % neighSlots {
		switch {
		case t.slots[i].mac.IsZero():
			return i, false
		case t.slots[i].addr == *a:
			return i, true
		}
	}
}

// remove empties slot i and moves later entries of its run into the gap.
func (t *neighbours) remove(i int) {
	t.n--
	for k := (i + 1) % neighSlots; !t.slots[k].mac.IsZero(); k = (k + 1) % neighSlots {
		// An entry may move to the gap unless its home lies behind the gap (cyclically in (i, k]).
		if h := t.home(&t.slots[k].addr); (k-h+neighSlots)%neighSlots >= (k-i+neighSlots)%neighSlots {
			t.slots[i] = t.slots[k]
			i = k
		}
	}
	t.slots[i] = neighbour{}
}

// blocked tells whether a is an address of ours towards the guest, whoever has it on the host's side.
func (s *Local) blocked(a *wire.Addr) bool {
	f := s.env.Fwd.Of(a)
	return !a.IsZero() && (*a == f.MapLoop || *a == f.MapGuest)
}

// MACFor gives the Ethernet address that the guest sees for a: the host neighbour's, else the gateway's, else ours
// (spec addressing 11).
func (s *Local) MACFor(a *wire.Addr) wire.MAC {
	for _, k := range [2]*wire.Addr{a, &s.env.Fwd.Of(a).Gateway} {
		if s.blocked(k) {
			break
		}
		if i, ok := s.neigh.find(k); ok {
			return s.neigh.slots[i].mac
		}
	}
	return s.c.OurMAC
}

// SetNeigh notes the Ethernet address of a host's neighbour, zero when it is gone, and tells the guest of a new one. A full table
// takes only gateways.
func (s *Local) SetNeigh(a wire.Addr, m wire.MAC) {
	i, known := s.neigh.find(&a)
	if m.IsZero() {
		if known {
			s.neigh.remove(i)
		}
		return
	}
	f := s.env.Fwd.Of(&a)
	if !a.IsUnicast() || a.IsLoopback() || m[0]&1 != 0 || s.blocked(&a) || a == f.Guest || s.isSeen(&a) {
		return
	}
	if known && s.neigh.slots[i].mac == m {
		return
	}
	if !known {
		if s.neigh.n >= neighMax+2 || s.neigh.n >= neighMax && a != f.Gateway {
			return
		}
		s.neigh.n++
	}
	s.neigh.slots[i] = neighbour{a, m}
	if m != s.c.OurMAC && f.On && s.linkReady() {
		s.announce(&a, &m)
	}
}

// isSeen tells whether the guest uses a itself.
func (s *Local) isSeen(a *wire.Addr) bool {
	g := &s.env.Guest
	return *a == g.Seen4 || *a == g.Seen6 || *a == g.SeenL
}

// announce corrects the guest's cache: gratuitous ARP (RFC 5227 s.3) or unsolicited advertisement (RFC 4861 s.7.2.6).
func (s *Local) announce(a *wire.Addr, m *wire.MAC) {
	if a.Is4() {
		s.sendARP(&wire.ARPMessage{Op: wire.ARPRequest, SenderMAC: *m, SenderIP: *a, TargetIP: *a}, &wire.Broadcast)
		return
	}
	if s.ndpOn() {
		s.advertise(a, m, &wire.AllNodes, wire.NARouter|wire.NAOverride)
	}
}
