// SPDX-License-Identifier: Apache-2.0

package wire

import "testing"

func TestParseTCPOptions_Table(t *testing.T) {
	for _, c := range []struct {
		name string
		b    []byte
		want TCPOptions
	}{
		{"none", nil, TCPOptions{}},
		{"Linux SYN", []byte{2, 4, 0x05, 0xb4, 4, 2, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0, 1, 3, 3, 7}, TCPOptions{1460, 7, true, true}},
		{"MSS without value", []byte{2, 2, 1, 1}, TCPOptions{}}, // spec tcp check 35
		{"MSS cut", []byte{1, 2, 4, 5}, TCPOptions{}},
		{"MSS 0", []byte{2, 4, 0, 0}, TCPOptions{HasMSS: true}},
		{"length 0", []byte{9, 0, 2, 4, 1, 1}, TCPOptions{}},
		{"length 1", []byte{9, 1, 2, 4, 1, 1}, TCPOptions{}},
		{"end before MSS", []byte{0, 2, 4, 1}, TCPOptions{}},
		{"kind alone at the end", []byte{1, 1, 1, 3}, TCPOptions{}},
		{"shift 15 is 14", []byte{3, 3, 15, 0}, TCPOptions{Shift: 14, HasShift: true}},
		{"shift of wrong length", []byte{3, 4, 1, 1}, TCPOptions{}},
		{"twice", []byte{2, 4, 0, 100, 2, 4, 0, 200}, TCPOptions{MSS: 200, HasMSS: true}},
	} {
		if got := ParseTCPOptions(c.b); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// Cut at each byte: the answer is that of the whole options that are left.
func TestParseTCPOptions_Truncated_KeepsWholeOnes(t *testing.T) {
	b := []byte{1, 2, 4, 0x05, 0xb4, 3, 3, 7}
	for n := range len(b) + 1 {
		want := TCPOptions{}
		if n >= 5 {
			want.MSS, want.HasMSS = 1460, true
		}
		if n >= 8 {
			want.Shift, want.HasShift = 7, true
		}
		if got := ParseTCPOptions(b[:n:n]); got != want {
			t.Errorf("%d bytes: %+v, want %+v", n, got, want)
		}
	}
}

func FuzzOptions(f *testing.F) {
	f.Add([]byte{2, 4, 0x05, 0xb4, 1, 3, 3, 7})
	f.Add([]byte{9, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		o := ParseTCPOptions(b)
		if o.Shift > 14 || o.Shift != 0 && !o.HasShift {
			t.Fatalf("%+v", o)
		}
		if got := ParseTCPOptions(append([]byte{1}, b...)); got != o {
			t.Fatalf("a NOP in front changes %+v to %+v", o, got)
		}
		var out [8]byte
		n := PutTCPOptions(out[:], &o)
		o.HasMSS = true
		if got := ParseTCPOptions(out[:n]); got != o {
			t.Fatalf("round trip of %+v gives %+v", o, got)
		}
	})
}
