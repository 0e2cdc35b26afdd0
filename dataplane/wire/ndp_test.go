// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"strings"
	"testing"
)

var ndpMAC = MAC{2, 0, 0, 0, 0, 1}

func raSample(mtu int, servers []Addr, names []string) []byte {
	b := make([]byte, 1240)
	n := PutRA(b, RAManaged, 65535)
	n += PutPrefix(b[n:], &fragA6)
	n += PutMACOpt(b[n:], NDPOptSourceMAC, &ndpMAC)
	n += PutMTUOpt(b[n:], mtu)
	n += PutRDNSS(b[n:], servers)
	n += PutDNSSL(b[n:], names)
	return b[:n]
}

func TestParseNDP_EachTruncation_DropsOrShorterOptions(t *testing.T) {
	ra := raSample(1500, []Addr{fragA6}, []string{"example.com"})
	ns := make([]byte, 32)
	PutNeigh(ns, NDPNeighbourSolicit, 0, &fragA6, &ndpMAC)
	rs := append(make([]byte, 8), 1, 1, 2, 0, 0, 0, 0, 1)
	rs[0] = NDPRouterSolicit
	for _, c := range []struct {
		b    []byte
		ends []int
	}{{ra, []int{16, 48, 56, 64, 88, len(ra)}}, {ns, []int{24, 32}}, {rs, []int{8, 16}}} {
		good := map[int]bool{}
		for _, e := range c.ends {
			good[e] = true
		}
		for n := 0; n <= len(c.b); n++ {
			if m, d := ParseNDP(c.b[:n]); (d == DropNone) != good[n] || d == DropNone && m.Type() != c.b[0] {
				t.Errorf("type %d, %d bytes: %v", c.b[0], n, d)
			}
		}
	}
	if n, _ := ParseNDP(ns); n.Target() != fragA6 {
		t.Errorf("%v", n.Target())
	}
}

func TestParseNDP_Junk_Drops(t *testing.T) {
	b := make([]byte, 32)
	PutNeigh(b, NDPNeighbourSolicit, 0, &fragA6, &ndpMAC)
	for _, c := range []struct {
		at int
		v  byte
	}{{25, 0}, {25, 2}, {1, 1}, {0, 137}, {0, 128}} {
		x := bytes.Clone(b)
		x[c.at] = c.v
		if _, d := ParseNDP(x); d != DropNDP {
			t.Errorf("%+v: %v", c, d)
		}
	}
}

// Encoded lists of 8, 16, 24 and 32 bytes: an option of length 0 behind them would void the whole advertisement.
func TestPutDNSSL_WholeMultiples_NoEmptyOption(t *testing.T) {
	for _, c := range []struct {
		names []string
		size  int
	}{
		{[]string{"abc.de"}, 16}, {[]string{"example.abcdef"}, 24}, {[]string{"abc.de", "example.abcdef"}, 32},
		{[]string{"example.com", "corp.example.net."}, 40}, {[]string{"a"}, 16}, {nil, 0}, {[]string{"", ".", "a b"}, 0},
	} {
		b := bytes.Repeat([]byte{0xaa}, 64)
		n := PutDNSSL(b, c.names)
		if n != c.size || b[n] != 0xaa || n > 0 && int(b[1])*8 != n {
			t.Errorf("%v: %d bytes, % x", c.names, n, b[:n])
		}
	}
}

func FuzzParseNDP(f *testing.F) {
	f.Add(raSample(1500, []Addr{fragA6}, []string{"example.com"}))
	f.Fuzz(func(t *testing.T, b []byte) {
		n, d := ParseNDP(b)
		if d != DropNone {
			return
		}
		if !IsNDP(n.Type()) || len(n) != len(b) || len(n)%8 != 0 {
			t.Errorf("% x", n)
		}
	})
}

// What is built always parses: no empty option, search list readable.
func FuzzPutRA(f *testing.F) {
	f.Add(1500, 1, "example.com corp.example.net.")
	f.Add(0, 3, "a  b..c "+strings.Repeat("x", 64))
	f.Fuzz(func(t *testing.T, mtu, servers int, list string) {
		names := strings.Split(list, " ")
		b := raSample(mtu, make([]Addr, min(max(servers, 0), 3)), names)
		if _, d := ParseNDP(b); d != DropNone {
			t.Fatalf("%v: % x", d, b)
		}
		for o := b[RASize:]; len(o) > 0; o = o[int(o[1])*8:] {
			if o[0] != NDPOptDNSSL {
				continue
			}
			count := 0
			for v := o[8 : int(o[1])*8]; len(v) > 0 && v[0] != 0; count++ {
				_, n := readName(v)
				if n < 0 {
					t.Fatalf("% x", o)
				}
				v = v[n:]
			}
			if count == 0 || count > len(names) {
				t.Errorf("%d names", count)
			}
		}
	})
}
