// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"testing"
)

func dhcp6Sample() ([]byte, map[int]bool) {
	w := DHCP6Writer{B: make([]byte, 256)}
	ends := map[int]bool{}
	w.Head(DHCP6Solicit, DHCP6{0, 1, 2, 3})
	ends[w.N] = true
	w.Option(DHCP6OptClientID, []byte("\x00\x03\x00\x01\x02\x00\x00\x00\x00\x02"))
	ends[w.N] = true
	at := w.Begin(DHCP6OptIANA, make([]byte, 12))
	w.Addr(&fragA6, 7)
	w.End(at)
	ends[w.N] = true
	at = w.Begin(DHCP6OptIATA, make([]byte, 4))
	w.Status(DHCP6NotOnLink, "no")
	w.End(at)
	ends[w.N] = true
	w.Option(DHCP6OptRapid, nil)
	ends[w.N] = true
	return w.B[:w.N], ends
}

func TestParseDHCP6_EachTruncation_OnlyWholeOptions(t *testing.T) {
	b, good := dhcp6Sample()
	for n := 0; n <= len(b); n++ {
		if _, d := ParseDHCP6(b[:n]); (d == DropNone) != good[n] {
			t.Errorf("%d bytes: %v", n, d)
		}
	}
	d, _ := ParseDHCP6(b)
	v := d.Option(DHCP6OptIANA)
	code, a, next := DHCP6(v).Next(12)
	if d.Type() != DHCP6Solicit || len(v) != 40 || code != DHCP6OptIAAddr || next != len(v) || Addr6From(a) != fragA6 || !bytes.Equal(a[16:], []byte{0, 0, 0, 7, 0, 0, 0, 7}) {
		t.Errorf("% x", v)
	}
	if !DHCP6(d.Option(DHCP6OptIATA)).HasIn(4, DHCP6OptStatus) || d.Option(DHCP6OptRapid) == nil || d.Option(DHCP6OptServerID) != nil {
		t.Errorf("% x", d)
	}
}

func TestParseDHCP6_Junk_Drops(t *testing.T) {
	long := append([]byte{1, 0, 0, 0, 0, 1, 0, MaxDUID + 1}, make([]byte, MaxDUID+1)...)
	for _, b := range [][]byte{
		{0, 1, 2, 3}, {12, 1, 2, 3}, {255, 1, 2, 3}, long,
		{1, 0, 0, 0, 0, 3, 0, 4, 0, 0, 0, 1},       // IA_NA without T1 and T2
		{1, 0, 0, 0, 0, 4, 0, 3, 0, 0, 0},          // IA_TA without IAID
		{1, 0, 0, 0, 0, 4, 0, 6, 0, 0, 0, 1, 0, 5}, // half an option within
	} {
		if _, d := ParseDHCP6(b); d != DropDHCP6 {
			t.Errorf("% x: %v", b, d)
		}
	}
	if _, d := ParseDHCP6(long[:len(long)-1]); d == DropNone {
		t.Error("cut identifier")
	}
}

func TestDHCP6Writer_NoRoom_LeavesOut(t *testing.T) {
	w := DHCP6Writer{B: make([]byte, 12)}
	if w.Option(1, make([]byte, 9)) || w.Raw(make([]byte, 13)) || w.Addr(&fragA6, 1) || w.Status(1, "1234567") || w.Begin(1, make([]byte, 9)) >= 0 || w.N != 0 {
		t.Error(w.N)
	}
	if !w.Option(1, make([]byte, 8)) || w.N != 12 {
		t.Error(w.N)
	}
}

func FuzzParseDHCP6(f *testing.F) {
	b, _ := dhcp6Sample()
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		d, drop := ParseDHCP6(b)
		if drop != DropNone {
			return
		}
		w := DHCP6Writer{B: make([]byte, len(b))}
		w.Head(d.Type(), d)
		for at := DHCP6Head; ; {
			code, v, next := d.Next(at)
			if next == 0 {
				break
			}
			if h := IAHead(code); h > 0 {
				x := w.Begin(code, v[:h])
				for i := h; ; {
					c, u, n := DHCP6(v).Next(i)
					if n == 0 {
						break
					}
					w.Option(c, u)
					i = n
				}
				w.End(x)
			} else {
				w.Option(code, v)
			}
			at = next
		}
		if !bytes.Equal(w.B[:w.N], b) {
			t.Errorf("% x became % x", b, w.B[:w.N])
		}
	})
}
