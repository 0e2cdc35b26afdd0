// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"math/bits"
)

// Limits of the reassembly of what the guest sends in fragments.
const (
	fragSlots = 32
	fragHead  = 160     // Ethernet, IP header and the extension headers before the fragment header
	fragMost  = 65536   // payload of one datagram
	fragBytes = 1 << 20 // payload kept in all
	fragMs    = 30000   // RFC 791 s.3.2, RFC 8200 s.4.5: 15 to 60 s
	fragUnits = 1 << 13 // units of 8 bytes in a datagram
	fragSize  = fragHead + fragMost

	ip6FragSize = 8
)

type fragKey struct {
	src, dst Addr
	id       uint32
	proto    uint8 // IPv4 only: in IPv6 the identification alone counts
}

type fragSlot struct {
	key   fragKey
	used  bool
	until int64 // ms
	got   int   // payload bytes so far
	total int   // payload bytes, -1: last fragment not seen
	head  int   // bytes of Ethernet and IP header, 0: first fragment not seen
	seen  [fragUnits / 64]uint64
}

// Reassembler puts IPv4 and IPv6 fragments together, within fixed memory. When it is full the oldest datagram gives way. Overlapping
// fragments end their datagram (RFC 5722).
type Reassembler struct {
	slots [fragSlots]fragSlot
	mem   []byte
	bytes int
}

// NewReassembler takes about 2 MiB of address space; pages are touched only when fragments come.
func NewReassembler() *Reassembler { return &Reassembler{mem: make([]byte, fragSlots*fragSize)} }

// fragment is one fragment taken apart.
type fragment struct {
	key  fragKey
	head []byte // Ethernet and IP headers up to the fragmentable part, without the fragment header
	next int    // IPv6: offset in head of the next-header field that named the fragment header
	nh   uint8  // IPv6: what to put there
	data []byte
	off  int
	more bool
}

// Add takes one frame for which Packet.Parse said DropFragment.
//
//	in:     frame from the Ethernet header on; nowMs, the turn's clock
//	out:    whole and true when this fragment completed its datagram: a frame for Packet.Parse, valid until the next Add only
//	        (hand it on before the next frame is looked at); false with DropNone: kept, more has to come
//	errors: drop other than DropNone when the fragment (or its datagram) was refused
//	cost:   one copy; a search through 32 slots
func (t *Reassembler) Add(frame []byte, nowMs int64) (whole []byte, ok bool, drop Drop) {
	var f fragment
	if d := f.parse(frame); d != DropNone {
		return nil, false, d
	}
	k := t.find(&f.key, nowMs)
	s := &t.slots[k]
	m := t.mem[k*fragSize : (k+1)*fragSize]
	end := f.off + len(f.data)
	switch {
	case s.total >= 0 && end > s.total, !f.more && (s.total >= 0 && s.total != end || s.beyond(end)),
		s.overlaps(f.off, len(f.data)):
		t.free(s)
		return nil, false, DropFragment
	}
	for t.bytes+len(f.data) > fragBytes {
		if !t.evict(s) {
			t.free(s)
			return nil, false, DropFragment
		}
	}
	s.mark(f.off, len(f.data))
	s.got += len(f.data)
	t.bytes += len(f.data)
	copy(m[fragHead+f.off:], f.data)
	if !f.more {
		s.total = end
	}
	if f.off == 0 {
		s.head = len(f.head)
		h := m[fragHead-s.head : fragHead]
		copy(h, f.head)
		if f.nh != 0 || f.next != 0 {
			h[f.next] = f.nh
		}
	}
	if s.total < 0 || s.got != s.total || s.head == 0 {
		return nil, false, DropNone
	}
	whole = m[fragHead-s.head : fragHead+s.total]
	t.free(s)
	if !finish(whole) {
		return nil, false, DropFragment
	}
	return whole, true, DropNone
}

// finish makes the IP header that of an unfragmented packet; false when the lengths do not fit a header.
func finish(b []byte) bool {
	be := binary.BigEndian
	ip := b[EthSize:]
	if ip[0]>>4 == 4 {
		if len(ip) > 65535 {
			return false
		}
		h := ip[:int(ip[0]&15)*4]
		be.PutUint16(h[2:], uint16(len(ip)))
		be.PutUint16(h[6:], 0)
		be.PutUint16(h[10:], 0)
		be.PutUint16(h[10:], ^Fold(Sum(h, 0)))
		return true
	}
	if len(ip)-IP6Size > 65535 {
		return false
	}
	be.PutUint16(ip[4:], uint16(len(ip)-IP6Size))
	return true
}

func (f *fragment) parse(b []byte) Drop {
	if len(b) < EthSize {
		return DropShort
	}
	ip := b[EthSize:]
	switch binary.BigEndian.Uint16(b[12:]) {
	case EtherIP4:
		return f.parse4(b, ip)
	case EtherIP6:
		return f.parse6(b, ip)
	}
	return DropEtherType
}

func (f *fragment) parse4(b, ip []byte) Drop {
	be := binary.BigEndian
	if len(ip) < IP4Size || ip[0]>>4 != 4 {
		return DropIPLength
	}
	hl, total := int(ip[0]&15)*4, int(be.Uint16(ip[2:]))
	if hl < IP4Size || total < hl || total > len(ip) {
		return DropIPLength
	}
	w := be.Uint16(ip[6:])
	if w&0x8000 != 0 {
		return DropFragment // reserved flag
	}
	f.key = fragKey{src: Addr4From(ip[12:]), dst: Addr4From(ip[16:]), id: uint32(be.Uint16(ip[4:])), proto: ip[9]}
	f.head, f.data = b[:EthSize+hl], ip[hl:total]
	f.off, f.more = int(w&0x1fff)*8, w&0x2000 != 0
	return f.check(65535 - hl)
}

func (f *fragment) parse6(b, ip []byte) Drop {
	be := binary.BigEndian
	if len(ip) < IP6Size || ip[0]>>4 != 6 {
		return DropIPLength
	}
	n := int(be.Uint16(ip[4:]))
	if n > len(ip)-IP6Size {
		return DropIPLength
	}
	next, at, nh := EthSize+6, EthSize+IP6Size, ip[6]
	b = b[:EthSize+IP6Size+n]
	for nh != 44 {
		switch nh {
		case 0, 43, 60, 135, 139, 140, 253, 254:
		default:
			return DropExtension
		}
		if len(b)-at < 8 {
			return DropExtension
		}
		l := 8 + int(b[at+1])*8
		if l > len(b)-at || at+l > fragHead {
			return DropExtension
		}
		next, nh, at = at, b[at], at+l
	}
	if len(b)-at < ip6FragSize {
		return DropExtension
	}
	h := b[at:]
	w := be.Uint16(h[2:])
	f.key = fragKey{src: Addr6From(ip[8:]), dst: Addr6From(ip[24:]), id: be.Uint32(h[4:])}
	f.head, f.next, f.nh, f.data = b[:at], next, h[0], h[ip6FragSize:]
	f.off, f.more = int(w&^7), w&1 != 0
	return f.check(65535 - (at - EthSize - IP6Size))
}

// check refuses what no sender makes: an empty piece, an inner piece that is no multiple of 8, an end beyond most bytes.
func (f *fragment) check(most int) Drop {
	if len(f.data) == 0 || f.more && len(f.data)%8 != 0 || f.off+len(f.data) > most {
		return DropFragment
	}
	return DropNone
}

// find gives the slot of a datagram, a free one, or the oldest after emptying it.
func (t *Reassembler) find(key *fragKey, nowMs int64) int {
	free, oldest := -1, 0
	for k := range t.slots {
		s := &t.slots[k]
		if s.used && s.until <= nowMs {
			t.free(s)
		}
		switch {
		case s.used && s.key == *key:
			return k
		case !s.used && free < 0:
			free = k
		case s.until < t.slots[oldest].until:
			oldest = k
		}
	}
	if free < 0 {
		free = oldest
		t.free(&t.slots[free])
	}
	s := &t.slots[free]
	*s = fragSlot{key: *key, used: true, until: nowMs + fragMs, total: -1}
	return free
}

// evict frees the oldest datagram but keep; false when there is no other.
func (t *Reassembler) evict(keep *fragSlot) bool {
	var old *fragSlot
	for k := range t.slots {
		if s := &t.slots[k]; s.used && s != keep && (old == nil || s.until < old.until) {
			old = s
		}
	}
	if old == nil {
		return false
	}
	t.free(old)
	return true
}

func (t *Reassembler) free(s *fragSlot) {
	if s.used {
		t.bytes -= s.got
	}
	s.used = false
}

// unitMask gives the bits of units from..to within word w.
func unitMask(w, from, to int) uint64 {
	m := ^uint64(0)
	if from > w*64 {
		m <<= from - w*64
	}
	if to < w*64+63 {
		m &= ^uint64(0) >> (w*64 + 63 - to)
	}
	return m
}

func (s *fragSlot) overlaps(off, n int) bool {
	from, to := off/8, (off+n-1)/8
	for w := from / 64; w <= to/64; w++ {
		if s.seen[w]&unitMask(w, from, to) != 0 {
			return true
		}
	}
	return false
}

func (s *fragSlot) mark(off, n int) {
	from, to := off/8, (off+n-1)/8
	for w := from / 64; w <= to/64; w++ {
		s.seen[w] |= unitMask(w, from, to)
	}
}

// beyond tells whether a piece at or behind end bytes is there already.
func (s *fragSlot) beyond(end int) bool {
	for w := len(s.seen) - 1; w >= 0; w-- {
		if s.seen[w] != 0 {
			return (w*64+bits.Len64(s.seen[w])-1)*8 >= end
		}
	}
	return false
}

// FragHeaderLen is the length of what PutFragIP writes for the family of a.
func FragHeaderLen(a *Addr) int {
	if a.Is4() {
		return IP4Size
	}
	return IP6Size + ip6FragSize
}

// Fragment names one piece of a datagram to the guest.
type Fragment struct {
	Src, Dst *Addr
	Proto    uint8
	ID       uint32
	Off      int // bytes, a multiple of 8
	Len      int // bytes
	More     bool
}

// PutFragIP writes the IP header (IPv6: with fragment header) of one piece and returns its length.
//
//	source: RFC 791 s.3.1, RFC 8200 s.4.5
func PutFragIP(b []byte, f *Fragment) int {
	be := binary.BigEndian
	if f.Src.Is4() {
		PutIP(b, f.Src, f.Dst, f.Proto, f.Len, 0)
		h := b[:IP4Size]
		be.PutUint16(h[4:], uint16(f.ID))
		w := uint16(f.Off / 8)
		if f.More {
			w |= 0x2000
		}
		be.PutUint16(h[6:], w)
		be.PutUint16(h[10:], 0)
		be.PutUint16(h[10:], ^Fold(Sum(h, 0)))
		return IP4Size
	}
	PutIP(b, f.Src, f.Dst, 44, f.Len+ip6FragSize, 0)
	h := b[IP6Size : IP6Size+ip6FragSize]
	h[0], h[1] = f.Proto, 0
	w := uint16(f.Off)
	if f.More {
		w |= 1
	}
	be.PutUint16(h[2:], w)
	be.PutUint32(h[4:], f.ID)
	return IP6Size + ip6FragSize
}
