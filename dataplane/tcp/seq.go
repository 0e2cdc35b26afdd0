// SPDX-License-Identifier: Apache-2.0

package tcp

// Seq is a sequence number. It wraps: only numbers less than 2^31 apart have an order (RFC 9293 s.3.4).
type Seq uint32

// Less tells whether a comes before b.
func (a Seq) Less(b Seq) bool { return int32(a-b) < 0 }

// Leq tells whether a comes before b or is b.
func (a Seq) Leq(b Seq) bool { return int32(a-b) <= 0 }

// Add gives the number n bytes on.
func (a Seq) Add(n int) Seq { return a + Seq(n) }

// From gives the bytes from b to a, where b.Leq(a).
func (a Seq) From(b Seq) uint32 { return uint32(a - b) }
