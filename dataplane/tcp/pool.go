// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"math/bits"

	"passt/internal/sys"
)

// The pending buffer: what sockets did not take, in chunks shared by all connections.
const (
	chunkSize = 32 << 10
	numChunks = 2048 // 64 MiB
	noChunk   = 0xffffffff
	keepChunk = 64   // chunks whose pages stay when nothing is pending: 2 MiB
	restMs    = 1000 // least time between two releases of pages
)

// pending is one connection's queue of bytes: chunks linked from head to tail.
type pending struct {
	head, tail uint32
	off, end   uint32 // first byte in head, end of data in tail
	bytes      uint32
}

// pool hands out the lowest free chunk, so that what was ever touched stays small.
type pool struct {
	mem    []byte
	next   []uint32
	free   [numChunks / 64]uint64
	used   int
	high   int   // chunks below it may have pages
	rested int64 // ms of the last release
}

func (p *pool) init() {
	p.mem = sys.Alloc(numChunks * chunkSize)
	p.next = sys.AllocOf[uint32](numChunks)
	for k := range p.free {
		p.free[k] = ^uint64(0)
	}
}

// low tells that less than a quarter is left.
func (p *pool) low() bool { return p.used > numChunks*3/4 }

func (p *pool) chunk(k uint32) []byte { return p.mem[int(k)*chunkSize : int(k+1)*chunkSize] }

func (p *pool) take() uint32 {
	for w, m := range p.free {
		if m != 0 {
			k := w*64 + bits.TrailingZeros64(m)
			p.free[w] = m & (m - 1)
			p.next[k] = noChunk
			p.used++
			p.high = max(p.high, k+1)
			return uint32(k)
		}
	}
	return noChunk
}

func (p *pool) give(k uint32) {
	p.free[k/64] |= 1 << (k % 64)
	p.used--
}

// add appends b and tells how much of it found room.
func (p *pool) add(q *pending, b []byte) int {
	n := 0
	for len(b) > 0 {
		if q.tail == noChunk || q.end == chunkSize {
			k := p.take()
			if k == noChunk {
				return n
			}
			if q.tail == noChunk {
				q.head, q.off = k, 0
			} else {
				p.next[q.tail] = k
			}
			q.tail, q.end = k, 0
		}
		m := copy(p.chunk(q.tail)[q.end:], b)
		q.end += uint32(m)
		q.bytes += uint32(m)
		b = b[m:]
		n += m
	}
	return n
}

// vectors describes the queue's first bytes.
func (p *pool) vectors(q *pending, v []sys.Iovec) int {
	n := 0
	for k := q.head; k != noChunk && n < len(v); k = p.next[k] {
		from, to := uint32(0), uint32(chunkSize)
		if k == q.head {
			from = q.off
		}
		if k == q.tail {
			to = q.end
		}
		v[n].Set(p.chunk(k)[from:to])
		n++
	}
	return n
}

// drop removes the first n bytes, n ≤ q.bytes.
func (p *pool) drop(q *pending, n int) {
	q.bytes -= uint32(n)
	for q.head != noChunk {
		to := uint32(chunkSize)
		if q.head == q.tail {
			to = q.end
		}
		m := min(uint32(n), to-q.off)
		q.off += m
		n -= int(m)
		if q.off < to {
			return
		}
		k := q.head
		q.head, q.off = p.next[k], 0
		p.give(k)
		if q.head == noChunk {
			q.tail, q.end = noChunk, 0
		}
	}
}

// clear frees the whole queue.
func (p *pool) clear(q *pending) {
	for q.head != noChunk {
		k := q.head
		q.head = p.next[k]
		p.give(k)
	}
	*q = pending{head: noChunk, tail: noChunk}
}

// rest gives pages back once nothing is pending any more, not more often than restMs: a bulk connection empties and fills its
// queue all the time.
func (p *pool) rest(nowMs int64) {
	if p.used > 0 || p.high <= keepChunk || nowMs-p.rested < restMs {
		return
	}
	sys.Release(p.mem[keepChunk*chunkSize : p.high*chunkSize])
	p.high = keepChunk
	p.rested = nowMs
}
