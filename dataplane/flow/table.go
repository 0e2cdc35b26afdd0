// SPDX-License-Identifier: Apache-2.0

package flow

import (
	"math/bits"

	"passt/dataplane/fwd"
	"passt/dataplane/wire"
	"passt/internal/sys"
)

// Index names a row; NoFlow means none.
type Index uint32

// NoFlow is the absent flow.
const NoFlow Index = 0xffffffff

// MaxFlows is the table's size: the C program's 2^17 - 1.
const MaxFlows = 1<<17 - 1

// GenMask bounds a generation: 24 bits of a poll tag.
const GenMask = 1<<24 - 1

// Kind says whose flow a row is.
type Kind uint8

const (
	KindFree   Kind = iota
	KindTCP         // guest link and one socket
	KindSplice      // two stream sockets
	KindUDP         // guest link and socket, or two sockets
	KindPing
	KindEnded // closed, freed at the end of the turn
)

// Side is one end of a flow as the table's key sees it: our address is the one that this process uses on that
// interface, the endpoint is the other party. Side 0 began the flow.
type Side struct {
	Our, Ep         wire.Addr
	OurPort, EpPort uint16
	Pif             fwd.Pif
}

// Row is the common head of a flow, 160 bytes. Protocols keep their own parallel arrays by the same index.
type Row struct {
	Side   [2]Side
	FD     [2]sys.FD // socket of each side; NoFD: none
	Gen    uint32    // 24 bits, changes when the flow ends
	Kind   Kind
	Proto  uint8
	Rule   uint16 // index of the forwarding rule of side 0, or NoRule
	MAC    wire.MAC
	inHash [2]bool
	again  bool

	// Timer wheel: the slot's list, and when.
	tnext, tprev Index
	tslot        uint16 // 1 + slot, 0: not armed
	deadline     int64  // ms, when the timer is due; may lie behind the slot's time (moved lazily)

	hash  [2]uint32
	queue Index // next in Env's list of ended flows
}

// NoRule marks a flow that did not come in by a forwarding rule.
const NoRule = 0xffff

// Table holds all flows of one loop.
type Table struct {
	Rows []Row
	used int
	size int
	// Free rows as a bitmap of three levels, 1 = free: the lowest free index is found in three steps.
	free0 []uint64
	free1 []uint64
	free2 uint64
	// Open addressing, linear probing, deletion by shifting back: value is hash<<32 | 1 + index*2 + side; 0 is empty.
	buckets []uint64
	mask    uint32
	key     [2]uint64
}

// NewTable makes a table of n rows, 1 ≤ n ≤ MaxFlows; key seeds the hash (16 random bytes).
func NewTable(n int, key [16]byte) *Table {
	n = max(1, min(n, MaxFlows))
	t := &Table{Rows: sys.AllocOf[Row](n), size: n}
	words := (n + 63) / 64
	t.free0 = sys.AllocOf[uint64](words)
	t.free1 = make([]uint64, (words+63)/64)
	for i := range n {
		t.free0[i/64] |= 1 << (i % 64)
	}
	for i := range words {
		t.free1[i/64] |= 1 << (i % 64)
	}
	t.free2 = 1<<len(t.free1) - 1
	// Both sides of all flows at a load of at most one half.
	t.buckets = sys.AllocOf[uint64](1 << bits.Len(uint(4*n-1)))
	t.mask = uint32(len(t.buckets) - 1)
	t.key = sipKey(key)
	return t
}

// Used gives the number of rows in use.
func (t *Table) Used() int { return t.used }

// Cap gives the number of rows.
func (t *Table) Cap() int { return t.size }

// Alloc takes the lowest free row; NoFlow when the table is full. The row is reset except for its generation.
func (t *Table) Alloc(k Kind) Index {
	if t.free2 == 0 {
		return NoFlow
	}
	a := bits.TrailingZeros64(t.free2)
	b := a*64 + bits.TrailingZeros64(t.free1[a])
	i := b*64 + bits.TrailingZeros64(t.free0[b])
	if t.free0[b] &^= 1 << (i % 64); t.free0[b] == 0 {
		if t.free1[a] &^= 1 << (b % 64); t.free1[a] == 0 {
			t.free2 &^= 1 << a
		}
	}
	t.used++
	r := &t.Rows[i]
	*r = Row{Gen: r.Gen, Kind: k, FD: [2]sys.FD{sys.NoFD, sys.NoFD}, Rule: NoRule, queue: NoFlow}
	return Index(i)
}

// release gives a row back; it must be out of the hash and the wheel.
func (t *Table) release(i Index) {
	t.Rows[i].Kind = KindFree
	b := int(i) / 64
	t.free0[b] |= 1 << (i % 64)
	t.free1[b/64] |= 1 << (b % 64)
	t.free2 |= 1 << (b / 64)
	t.used--
}

// Live gives the row of index and generation; nil when it is free, ended or another flow by now.
func (t *Table) Live(i Index, gen uint32) *Row {
	if int(i) >= t.size {
		return nil
	}
	r := &t.Rows[i]
	if r.Kind == KindFree || r.Kind == KindEnded || r.Gen != gen {
		return nil
	}
	return r
}

// Insert puts one side into the hash.
func (t *Table) Insert(i Index, side int) {
	r := &t.Rows[i]
	s := &r.Side[side]
	h := uint32(t.Hash(r.Proto, s))
	r.hash[side], r.inHash[side] = h, true
	v := uint64(h)<<32 | uint64(i)<<1 | uint64(side) + 1
	b := h & t.mask
	for t.buckets[b] != 0 {
		b = (b + 1) & t.mask
	}
	t.buckets[b] = v
}

// Remove takes one side out of the hash; nothing happens when it is not there.
func (t *Table) Remove(i Index, side int) {
	r := &t.Rows[i]
	if !r.inHash[side] {
		return
	}
	r.inHash[side] = false
	h := r.hash[side]
	v := uint64(h)<<32 | uint64(i)<<1 | uint64(side) + 1
	b := h & t.mask
	for t.buckets[b] != v {
		b = (b + 1) & t.mask
	}
	// Close the gap: move back each follower that may sit here.
	for hole := b; ; {
		b = (b + 1) & t.mask
		x := t.buckets[b]
		if x == 0 {
			t.buckets[hole] = 0
			return
		}
		home := uint32(x>>32) & t.mask
		if (b-home)&t.mask >= (b-hole)&t.mask {
			t.buckets[hole] = x
			hole = b
		}
	}
}

// Lookup finds a flow by one of its sides.
func (t *Table) Lookup(proto uint8, s *Side) (Index, int, bool) {
	h := uint32(t.Hash(proto, s))
	for b := h & t.mask; t.buckets[b] != 0; b = (b + 1) & t.mask {
		x := t.buckets[b]
		if uint32(x>>32) != h {
			continue
		}
		v := uint32(x) - 1
		i, side := Index(v>>1), int(v&1)
		r := &t.Rows[i]
		if r.Proto == proto && r.Side[side] == *s {
			return i, side, true
		}
	}
	return NoFlow, 0, false
}
