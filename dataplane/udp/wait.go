// SPDX-License-Identifier: Apache-2.0

package udp

import (
	"passt/dataplane/wire"
	"passt/internal/sys"
)

// Bounds of what waits for sockets that are being made (40 to 60 µs each): a burst of 64 KiB frames fits.
const (
	waitChunks = 4096 // 2 MiB in all
	waitFlow   = 256 << 10
	chunkData  = 496
)

// chunk is a piece of a waiting datagram, 512 bytes. Links are index + 1; 0: none.
type chunk struct {
	next  uint32
	total uint32 // bytes of the datagram, in its first chunk
	gso   uint16
	ttl   uint8
	_     [5]byte
	data  [chunkData]byte
}

// waitQueue keeps datagrams of flows whose socket is on its way, in order.
type waitQueue struct {
	chunks []chunk
	free   uint32 // list of used and returned chunks
	fresh  uint32 // chunks never used so far: their pages stay untouched
	left   int
}

func (q *waitQueue) init() {
	q.chunks = sys.AllocOf[chunk](waitChunks)
	q.left = waitChunks
}

// release gives the memory back to the kernel if nothing waits.
func (q *waitQueue) release() {
	if q.left == waitChunks && q.fresh > 0 {
		q.free, q.fresh = 0, 0
		sys.ReleaseOf(q.chunks)
	}
}

func chunksFor(n int) int { return max(1, (n+chunkData-1)/chunkData) }

func (q *waitQueue) take() uint32 {
	q.left--
	if q.free != 0 {
		c := q.free
		q.free = q.chunks[c-1].next
		return c
	}
	q.fresh++
	return q.fresh
}

// push appends one datagram (or GSO aggregate); DropPendingFull when there is no room.
func (q *waitQueue) push(s *state, b []byte, gso uint16, ttl uint8) wire.Drop {
	n := chunksFor(len(b))
	if n > q.left || int(s.waitBytes)+len(b) > waitFlow {
		return wire.DropPendingFull
	}
	s.waitBytes += uint32(len(b))
	total := uint32(len(b))
	for range n {
		c := q.take()
		k := &q.chunks[c-1]
		k.next, k.total, k.gso, k.ttl = 0, total, gso, ttl
		b = b[copy(k.data[:], b):]
		if s.tail == 0 {
			s.head = c
		} else {
			q.chunks[s.tail-1].next = c
		}
		s.tail = c
	}
	return wire.DropNone
}

// pop takes the first datagram out into buf (slotSize bytes); false when nothing waits.
func (q *waitQueue) pop(s *state, buf []byte) (b []byte, gso uint16, ttl uint8, ok bool) {
	if s.head == 0 {
		return nil, 0, 0, false
	}
	first := &q.chunks[s.head-1]
	total := int(first.total)
	gso, ttl = first.gso, first.ttl
	for at := 0; ; at += chunkData {
		c := s.head
		k := &q.chunks[c-1]
		copy(buf[at:total], k.data[:])
		s.head = k.next
		k.next, q.free = q.free, c
		q.left++
		if at+chunkData >= total {
			break
		}
	}
	if s.head == 0 {
		s.tail = 0
	}
	s.waitBytes -= uint32(total)
	return buf[:total], gso, ttl, true
}

// drop frees all that waits for a flow and tells how many datagrams that were.
func (q *waitQueue) drop(s *state) int {
	n := 0
	for s.head != 0 {
		for left := chunksFor(int(q.chunks[s.head-1].total)); left > 0; left-- {
			c := s.head
			k := &q.chunks[c-1]
			s.head = k.next
			k.next, q.free = q.free, c
			q.left++
		}
		n++
	}
	s.tail, s.waitBytes = 0, 0
	return n
}
