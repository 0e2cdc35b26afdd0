// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"math/rand"
	"net/netip"
	"testing"
)

func addrOf(t *testing.T, s string) Addr {
	t.Helper()
	if s == "" {
		return Addr{}
	}
	a, err := netip.ParseAddr(s)
	if err != nil {
		t.Fatal(err)
	}
	return FromNetip(a)
}

func TestAddr_Classes_AsTable(t *testing.T) {
	for _, c := range []struct {
		addr                                         string
		four, unspec, loop, multi, broad, uni, local bool
	}{
		{"", false, true, false, false, false, false, false},
		{"0.0.0.0", true, true, false, false, false, false, false},
		{"0.0.0.1", true, false, false, false, false, true, false},
		{"127.0.0.1", true, false, true, false, false, true, false},
		{"127.255.255.254", true, false, true, false, false, true, false},
		{"126.255.255.255", true, false, false, false, false, true, false},
		{"128.0.0.1", true, false, false, false, false, true, false},
		{"169.254.2.1", true, false, false, false, false, true, true},
		{"169.253.0.1", true, false, false, false, false, true, false},
		{"169.255.0.1", true, false, false, false, false, true, false},
		{"192.0.2.1", true, false, false, false, false, true, false},
		{"223.255.255.255", true, false, false, false, false, true, false},
		{"224.0.0.251", true, false, false, true, false, false, false},
		{"239.255.255.255", true, false, false, true, false, false, false},
		{"240.0.0.1", true, false, false, false, false, true, false},
		{"255.255.255.255", true, false, false, false, true, false, false},
		{"255.255.255.254", true, false, false, false, false, true, false},
		{"::1", false, false, true, false, false, true, false},
		{"::2", false, false, false, false, false, true, false},
		{"::7f00:1", false, false, false, false, false, true, false},
		{"2001:db8::1", false, false, false, false, false, true, false},
		{"fe80::1", false, false, false, false, false, true, true},
		{"febf::1", false, false, false, false, false, true, true},
		{"fec0::1", false, false, false, false, false, true, false},
		{"fe7f::1", false, false, false, false, false, true, false},
		{"ff02::fb", false, false, false, true, false, false, false},
		{"ff0e::1", false, false, false, true, false, false, false},
		{"64:ff9b::7f00:1", false, false, false, false, false, true, false},
	} {
		a := addrOf(t, c.addr)
		got := [...]bool{a.Is4(), a.IsUnspecified(), a.IsLoopback(), a.IsMulticast(), a.IsBroadcast(), a.IsUnicast(), a.IsLinkLocal()}
		want := [...]bool{c.four, c.unspec, c.loop, c.multi, c.broad, c.uni, c.local}
		if got != want {
			t.Errorf("%q: %v, want %v (IPv4, unspecified, loopback, multicast, broadcast, unicast, link-local)", c.addr, got, want)
		}
		if c.addr != "" && a.String() != c.addr {
			t.Errorf("%q prints as %q", c.addr, a.String())
		}
		if c.addr != "" && c.addr != "::" && FromNetip(a.Netip()) != a {
			t.Errorf("%q does not survive", c.addr)
		}
	}
	if (Addr{}).String() != "" || (Addr{}).Netip().IsValid() || FromNetip(netip.Addr{}) != (Addr{}) {
		t.Error("unset address")
	}
	if FromNetip(netip.MustParseAddr("fe80::1%eth0")) != addrOf(t, "fe80::1") {
		t.Error("zone kept")
	}
}

func TestAddrInPrefix_RandomPrefixes_AsNetip(t *testing.T) {
	r := rand.New(rand.NewSource(3))
	for range 20000 {
		var a, b Addr
		r.Read(a[:])
		most := 128
		if r.Intn(2) == 0 {
			a, most = Addr4From(a[:]), 32
		} else if a.Is4() {
			continue
		}
		b = a
		if k := r.Intn(most + 1); k < most {
			bit := 128 - most + k
			b[bit/8] ^= 0x80 >> (bit % 8)
		}
		bits := r.Intn(most + 1)
		want := netip.PrefixFrom(b.Netip(), bits).Contains(a.Netip())
		if !a.Netip().IsValid() || !b.Netip().IsValid() {
			continue
		}
		if got := a.InPrefix(&b, bits); got != want {
			t.Fatalf("%v in %v/%d: %v", a, b, bits, got)
		}
	}
	four, six := testA4, testA6
	if four.InPrefix(&six, 0) || six.InPrefix(&four, 0) {
		t.Error("families mixed")
	}
}

func TestMAC_Printing_UsualForm(t *testing.T) {
	if s := (MAC{0x9a, 0x55, 0x0a, 0, 0xff, 1}).String(); s != "9a:55:0a:00:ff:01" {
		t.Error(s)
	}
	if m := (MAC{}); !m.IsZero() || Broadcast.IsZero() {
		t.Error("IsZero")
	}
}

func TestPutIP_RoundTrip_ParsesBack(t *testing.T) {
	r := rand.New(rand.NewSource(4))
	for range 500 {
		n := r.Intn(1400)
		l4 := make([]byte, n)
		for _, a := range [][2]*Addr{{&testA4, &testB4}, {&testA6, &testB6}} {
			b := frameOf(a[0], a[1], 200, l4)
			for i := range b[EthSize : EthSize+IPHeaderLen(a[0])] {
				b[EthSize+i] = 0xee // PutIP must write every byte
			}
			if got := PutIP(b[EthSize:], a[0], a[1], 200, n, 0xfffabcde); got != IPHeaderLen(a[0]) {
				t.Fatalf("length %d", got)
			}
			var p Packet
			if d := p.Parse(b, &Vnet{}); d != DropNone || p.Src != *a[0] || p.Dst != *a[1] || p.Proto != 200 || len(p.L4) != n || p.TTL != 255 {
				t.Fatalf("%v %+v", d, p)
			}
			ip := b[EthSize:]
			if a[0].Is4() {
				if slowSum(ip[:20], 0) != 0xffff || !bytes.Equal(ip[4:8], []byte{0, 0, 0x40, 0}) || ip[1] != 0 {
					t.Fatalf("%x", ip[:20])
				}
			} else if !bytes.Equal(ip[:4], []byte{0x60, 0x0a, 0xbc, 0xde}) {
				t.Fatalf("%x", ip[:40])
			}
		}
	}
}

func TestTCPViews_Segment_FieldsRight(t *testing.T) {
	h, d := ParseTCP(tcpSegment())
	if d != DropNone || h.SrcPort() != 40000 || h.DstPort() != 443 || h.Seq() != 1000 || h.Ack() != 0 || h.Flags() != SYN || h.Window() != 64240 ||
		h.HeaderLen() != 24 || !bytes.Equal(h.Options(), []byte{2, 4, 5, 0xb4}) || string(h.Payload()) != "hi" {
		t.Errorf("%v %+v", d, h)
	}
}

func TestVnet_RoundTrip_Same(t *testing.T) {
	v := Vnet{Flags: VnetNeedsCsum, GSOType: GSOTCP6 | GSOECN, HdrLen: 0x0102, GSOSize: 0x0304, CsumStart: 0x0506, CsumOffset: 0x0708}
	b := bytes.Repeat([]byte{0xee}, VnetSize+1)
	v.Put(b)
	if want := []byte{1, 0x84, 2, 1, 4, 3, 6, 5, 8, 7, 0, 0, 0xee}; !bytes.Equal(b, want) {
		t.Errorf("%x", b)
	}
	if got := ParseVnet(b); got != v {
		t.Errorf("%+v", got)
	}
	r := rand.New(rand.NewSource(5))
	for range 200 {
		r.Read(b[:10])
		w := make([]byte, VnetSize)
		got := ParseVnet(b)
		got.Put(w)
		if !bytes.Equal(w[:10], b[:10]) {
			t.Fatalf("%x became %x", b, w)
		}
	}
}

func TestDrop_Names_AllThere(t *testing.T) {
	seen := map[string]bool{}
	for d := Drop(0); d < numDrops; d++ {
		s := d.String()
		if s == "" || s == "?" || seen[s] {
			t.Errorf("drop %d: %q", d, s)
		}
		seen[s] = true
	}
	if Drop(250).String() != "?" {
		t.Error("name beyond the table")
	}
}
