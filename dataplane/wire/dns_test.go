// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"strings"
	"testing"
)

// readName is the decoder of names for tests: text, bytes used; -1 when malformed.
func readName(b []byte) (string, int) {
	var labels []string
	for i := 0; i < len(b); {
		l := int(b[i])
		if l == 0 {
			return strings.Join(labels, "."), i + 1
		}
		if l > 63 || i+1+l > len(b) {
			return "", -1
		}
		labels = append(labels, string(b[i+1:i+1+l]))
		i += 1 + l
	}
	return "", -1
}

func TestPutName_GoodAndBad_WireFormOrNothing(t *testing.T) {
	l63 := strings.Repeat("a", 63)
	long := strings.Join([]string{l63, l63, l63, strings.Repeat("b", 61)}, ".") // 253 characters
	for _, c := range []struct {
		in, out string
	}{
		{"example.com", "\x07example\x03com\x00"}, {"example.com.", "\x07example\x03com\x00"}, {"a", "\x01a\x00"}, {"a.", "\x01a\x00"},
		{"", ""}, {".", ""}, {"..", ""}, {"a..", ""}, {"a..b", ""}, {".a", ""}, {"a b", ""}, {"a\x00b", ""}, {"a\x7f", ""},
		{l63, "\x3f" + l63 + "\x00"}, {l63 + "a", ""}, {"x." + l63 + "a", ""}, {long + "b", ""}, {"a." + long, ""},
	} {
		var b [MaxNameWire]byte
		if n := PutName(b[:], c.in); string(b[:n]) != c.out {
			t.Errorf("%q: %q", c.in, b[:n])
		}
		if n := len(c.out); n > 0 && PutName(b[:n-1], c.in) != 0 {
			t.Errorf("%q: fits %d bytes", c.in, n-1)
		}
	}
	var b [300]byte
	if n := PutName(b[:], long); n != 255 {
		t.Errorf("longest: %d", n)
	}
}

func FuzzPutName(f *testing.F) {
	for _, s := range []string{"example.com", "a.b.", "..", "x..y", strings.Repeat("a.", 130)} {
		f.Add(s, 64)
	}
	f.Fuzz(func(t *testing.T, s string, room int) {
		b := make([]byte, min(max(room, 0), 300)+1)
		b[len(b)-1] = 0xaa
		n := PutName(b[:len(b)-1], s)
		if n == 0 {
			return
		}
		if got, k := readName(b[:n]); k != n || got != strings.TrimSuffix(s, ".") || n > MaxNameWire || b[len(b)-1] != 0xaa {
			t.Errorf("%q: %q, %d of %d", s, got, k, n)
		}
	})
}
