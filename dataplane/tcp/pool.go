// SPDX-License-Identifier: Apache-2.0

package tcp

import "passt/internal/sys"

// The pending buffer: what sockets did not take, in chunks shared by all connections.
const (
	chunkSize = 32 << 10
	numChunks = 2048 // 64 MiB
	noChunk   = 0xffffffff
)

// pending is one connection's queue of bytes: chunks linked from head to tail.
type pending struct {
	head, tail uint32
	off, end   uint32 // first byte in head, end of data in tail
	bytes      uint32
}

type pool struct {
	mem   []byte
	next  []uint32
	first uint32 // free list
	used  int
	dirty bool
}

func (p *pool) init() {
	p.mem = sys.Alloc(numChunks * chunkSize)
	p.next = sys.AllocOf[uint32](numChunks)
	for k := range p.next {
		p.next[k] = uint32(k + 1)
	}
	p.next[numChunks-1] = noChunk
}

func (p *pool) chunk(k uint32) []byte { return p.mem[int(k)*chunkSize : int(k+1)*chunkSize] }

// add appends b and tells how much of it found room.
func (p *pool) add(q *pending, b []byte) int {
	n := 0
	for len(b) > 0 {
		if q.tail == noChunk || q.end == chunkSize {
			k := p.first
			if k == noChunk {
				return n
			}
			p.first, p.next[k] = p.next[k], noChunk
			p.used++
			p.dirty = true
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

// drop removes the first n bytes.
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
		if n == 0 {
			return
		}
	}
}

func (p *pool) give(k uint32) {
	p.next[k] = p.first
	p.first = k
	p.used--
}

func (p *pool) free(q *pending) {
	for q.head != noChunk {
		k := q.head
		q.head = p.next[k]
		p.give(k)
	}
	*q = pending{head: noChunk, tail: noChunk}
}

// rest gives the pages back when nothing is pending any more.
func (p *pool) rest() {
	if p.dirty && p.used == 0 {
		p.dirty = false
		sys.Release(p.mem)
	}
}
