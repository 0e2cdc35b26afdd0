// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"testing"
)

func arpSample() []byte {
	b := make([]byte, ARPSize)
	(&ARPMessage{ARPRequest, MAC{2, 0, 0, 0, 0, 2}, MAC{}, Addr4(192, 0, 2, 2), Addr4(192, 0, 2, 1)}).Put(b)
	return b
}

func TestParseARP_EachTruncation_Drops(t *testing.T) {
	b := arpSample()
	for n := range b {
		if _, d := ParseARP(b[:n]); d != DropARP {
			t.Errorf("%d bytes: %v", n, d)
		}
	}
	a, d := ParseARP(append(b, make([]byte, 18)...))
	if d != DropNone || len(a) != ARPSize || a.Op() != ARPRequest || a.SenderIP() != Addr4(192, 0, 2, 2) || a.TargetIP() != Addr4(192, 0, 2, 1) ||
		a.SenderMAC() != (MAC{2, 0, 0, 0, 0, 2}) || !a.TargetMAC().IsZero() || a.FromNobody() {
		t.Errorf("%v % x", d, a)
	}
	want := []byte{0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 2, 192, 0, 2, 2, 0, 0, 0, 0, 0, 0, 192, 0, 2, 1}
	if !bytes.Equal(a, want) {
		t.Errorf("% x", a)
	}
	for i := range 6 { // another hardware type, protocol or length
		c := bytes.Clone(b)
		c[i] ^= 1
		if _, d := ParseARP(c); d != DropARP {
			t.Errorf("byte %d changed: %v", i, d)
		}
	}
}

func FuzzParseARP(f *testing.F) {
	f.Add(arpSample())
	f.Fuzz(func(t *testing.T, b []byte) {
		a, d := ParseARP(b)
		if d != DropNone {
			return
		}
		var o [ARPSize]byte
		m := ARPMessage{a.Op(), a.SenderMAC(), a.TargetMAC(), a.SenderIP(), a.TargetIP()}
		m.Put(o[:])
		if !bytes.Equal(o[:], a) {
			t.Errorf("% x became % x", a, o)
		}
	})
}
