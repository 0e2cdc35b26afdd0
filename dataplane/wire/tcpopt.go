// SPDX-License-Identifier: Apache-2.0

package wire

import "encoding/binary"

// TCP option kinds (RFC 9293 s.3.1, RFC 7323 s.2).
const (
	optEnd      = 0
	optNop      = 1
	optMSS      = 2
	optScale    = 3
	maxTCPShift = 14 // RFC 7323 s.2.3: larger shifts count as 14
)

// TCPOptions is what a SYN tells about its sender.
type TCPOptions struct {
	MSS      uint16 // bytes of payload
	Shift    uint8  // window scale, 0..14
	HasMSS   bool
	HasShift bool
}

// ParseTCPOptions reads MSS and window scale; the last one of a kind counts.
//
//	in:     b, the options of a TCP header (TCP.Options)
//	out:    what was readable: an option that runs past b, or one with a length that its kind does not have, is skipped
//	source: RFC 9293 s.3.1, RFC 7323 s.2.2
//	cost:   no allocation, one pass
func ParseTCPOptions(b []byte) (o TCPOptions) {
	for len(b) > 0 && b[0] != optEnd {
		if b[0] == optNop {
			b = b[1:]
			continue
		}
		if len(b) < 2 || b[1] < 2 || int(b[1]) > len(b) {
			return o
		}
		switch {
		case b[0] == optMSS && b[1] == 4:
			o.MSS, o.HasMSS = binary.BigEndian.Uint16(b[2:]), true
		case b[0] == optScale && b[1] == 3:
			o.Shift, o.HasShift = min(b[2], maxTCPShift), true
		}
		b = b[b[1]:]
	}
	return o
}

// PutTCPOptions writes the options of a SYN to b and returns their length, a multiple of 4:
// MSS always, then NOP and window scale where HasShift.
func PutTCPOptions(b []byte, o *TCPOptions) int {
	b[0], b[1] = optMSS, 4
	binary.BigEndian.PutUint16(b[2:], o.MSS)
	if !o.HasShift {
		return 4
	}
	b[4], b[5], b[6], b[7] = optNop, optScale, 3, o.Shift
	return 8
}
