// SPDX-License-Identifier: Apache-2.0

package wire

// MaxNameWire is the longest name in wire form, bytes, final zero included (RFC 1035 s.2.3.4).
const MaxNameWire = 255

// PutName writes a domain name in wire form (RFC 1035 s.3.1, no compression) with its final zero. One trailing dot is the
// same name.
//
//	in:     b, room; name as text
//	out:    bytes written; 0 when the name is empty, malformed (empty label, label above 63 bytes, blank or control
//	        character), too long, or does not fit b
func PutName(b []byte, name string) int {
	if n := len(name); n > 0 && name[n-1] == '.' {
		name = name[:n-1]
	}
	n := len(name) + 2 // a length byte in front of each label takes the place of the dots, one more, and the zero
	if len(name) == 0 || n > MaxNameWire || n > len(b) {
		return 0
	}
	label := 0 // where the current label's length byte is
	for i := range len(name) {
		c := name[i]
		if c == '.' {
			if !endLabel(b, label, i+1) {
				return 0
			}
			label = i + 1
			continue
		}
		if c <= ' ' || c == 0x7f {
			return 0
		}
		b[i+1] = c
	}
	if !endLabel(b, label, n-1) {
		return 0
	}
	b[n-1] = 0
	return n
}

// endLabel sets the length byte of the label that began at from and ended before to.
func endLabel(b []byte, from, to int) bool {
	l := to - from - 1
	if l < 1 || l > 63 {
		return false
	}
	b[from] = byte(l)
	return true
}
