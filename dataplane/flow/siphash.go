// SPDX-License-Identifier: Apache-2.0

package flow

import (
	"encoding/binary"
	"math/bits"
)

func sipKey(k [16]byte) [2]uint64 {
	return [2]uint64{binary.LittleEndian.Uint64(k[:8]), binary.LittleEndian.Uint64(k[8:])}
}

// Hash is SipHash-2-4 (Aumasson, Bernstein 2012) of a side, keyed by the table's secret: a guest cannot choose tuples that
// collide, and the value seeds initial sequence numbers (RFC 6528), which need a pseudo-random function.
func (t *Table) Hash(proto uint8, s *Side) uint64 {
	le := binary.LittleEndian
	v := sipState{t.key[0] ^ 0x736f6d6570736575, t.key[1] ^ 0x646f72616e646f6d, t.key[0] ^ 0x6c7967656e657261, t.key[1] ^ 0x7465646279746573}
	v.word(le.Uint64(s.Our[0:]))
	v.word(le.Uint64(s.Our[8:]))
	v.word(le.Uint64(s.Ep[0:]))
	v.word(le.Uint64(s.Ep[8:]))
	// Last word: ports, protocol, interface, and the length 38 in the top byte.
	v.word(uint64(s.OurPort) | uint64(s.EpPort)<<16 | uint64(proto)<<32 | uint64(s.Pif)<<40 | 38<<56)
	v[2] ^= 0xff
	for range 4 {
		v.round()
	}
	return v[0] ^ v[1] ^ v[2] ^ v[3]
}

type sipState [4]uint64

func (v *sipState) word(m uint64) {
	v[3] ^= m
	v.round()
	v.round()
	v[0] ^= m
}

func (v *sipState) round() {
	v[0] += v[1]
	v[1] = bits.RotateLeft64(v[1], 13)
	v[1] ^= v[0]
	v[0] = bits.RotateLeft64(v[0], 32)
	v[2] += v[3]
	v[3] = bits.RotateLeft64(v[3], 16)
	v[3] ^= v[2]
	v[0] += v[3]
	v[3] = bits.RotateLeft64(v[3], 21)
	v[3] ^= v[0]
	v[2] += v[1]
	v[1] = bits.RotateLeft64(v[1], 17)
	v[1] ^= v[2]
	v[2] = bits.RotateLeft64(v[2], 32)
}
