// SPDX-License-Identifier: Apache-2.0

package local

import (
	"bytes"
	"testing"

	"passt/dataplane/fwd"
	"passt/dataplane/wire"
)

func TestSetNeigh_Learnt_AnnouncedOnceAndOnChange(t *testing.T) {
	r := newRig(t, nil)
	r.s.SetNeigh(ip("198.51.100.44"), mac44)
	f := r.one()
	want := "\xff\xff\xff\xff\xff\xff" + string(mac44[:]) + "\x08\x06\x00\x01\x08\x00\x06\x04\x00\x01" + string(mac44[:]) + "\xc6\x33\x64\x2c\x00\x00\x00\x00\x00\x00\xc6\x33\x64\x2c"
	if string(f.raw[:42]) != want {
		t.Errorf("% x", f.raw)
	}
	r.s.SetNeigh(ip("198.51.100.44"), mac44)
	r.none("known already")
	r.s.SetNeigh(ip("198.51.100.44"), wire.MAC{2, 0, 0, 0, 0, 0x45})
	r.one()
	r.s.SetNeigh(ip("198.51.100.44"), wire.MAC{})
	r.none("gone")

	n := ip("2001:db8:9::44")
	r.s.SetNeigh(n, mac44)
	f = r.one()
	if f.to != "ff02::1" || f.dst != (wire.MAC{0x33, 0x33, 0, 0, 0, 1}) || f.src != ourMAC || f.from != "fe80::1" || f.l4[0] != 136 || f.l4[4] != 0xa0 ||
		!bytes.Equal(f.l4[8:24], n[:]) || string(f.l4[24:]) != "\x02\x01"+string(mac44[:]) {
		t.Errorf("%+v", f)
	}
	r.s.SetNeigh(ip("198.51.100.46"), ourMAC)
	r.none("our own MAC")
}

func TestSetNeigh_LinkNotReady_LearntInSilence(t *testing.T) {
	for _, c := range []func(*Config, *fwd.Config){
		func(c *Config, _ *fwd.Config) { c.Pasta = true },
		func(_ *Config, f *fwd.Config) { f.V4.On = false },
	} {
		r := newRig(t, c)
		a := ip("198.51.100.44")
		r.s.SetNeigh(a, mac44)
		r.none("not ready")
		if r.s.MACFor(&a) != mac44 {
			t.Error("not learnt")
		}
	}
	r := newRig(t, func(c *Config, _ *fwd.Config) { c.Pasta, c.ConfigNet = true, true })
	r.s.SetNeigh(ip("198.51.100.44"), mac44)
	r.one()
	r.env.Link = nil
	r.s.SetNeigh(ip("198.51.100.45"), mac44)
	r.none("no link")
}

func TestSetNeigh_OddEntries_Ignored(t *testing.T) {
	r := newRig(t, func(_ *Config, f *fwd.Config) { f.V4.MapGuest = ip("192.0.2.5") })
	for _, s := range []string{"198.51.100.1", "192.0.2.5", "198.51.100.10", "2001:db8:9::10", "fe80::5054:ff:fe12:3456", "224.0.0.1", "127.0.0.1", "0.0.0.0", "ff02::1"} {
		a := ip(s)
		r.s.SetNeigh(a, mac44)
		r.none(s)
		if r.s.MACFor(&a) != ourMAC {
			t.Errorf("%s: learnt", s)
		}
	}
	r.s.SetNeigh(ip("198.51.100.44"), wire.Broadcast)
	r.none("group MAC")
}

// The table against a map, through many insertions and deletions.
func TestSetNeigh_ManyChanges_SameAsMap(t *testing.T) {
	r := newRig(t, func(_ *Config, f *fwd.Config) { f.V4.MapLoop, f.V4.Gateway = wire.Addr{}, ip("203.0.113.1") })
	r.link.mute = true
	want := map[wire.Addr]wire.MAC{}
	x := uint32(1)
	for range 40000 {
		x = x*1664525 + 1013904223
		k := x >> 8
		a := wire.Addr4(10, 0, byte(k>>8)&3, byte(k))
		m := wire.MAC{2, 0, 0, byte(x >> 24), byte(x >> 16), byte(x>>8) | 1}
		_, known := want[a]
		switch {
		case x>>28 < 8:
			r.s.SetNeigh(a, wire.MAC{})
			delete(want, a)
		case known || len(want) < neighMax:
			r.s.SetNeigh(a, m)
			want[a] = m
		default:
			r.s.SetNeigh(a, m) // full
		}
		if r.s.neigh.n != len(want) {
			t.Fatalf("%d entries instead of %d", r.s.neigh.n, len(want))
		}
	}
	for i := range 4 * 256 {
		a := wire.Addr4(10, 0, byte(i>>8), byte(i))
		m, ok := want[a]
		if !ok {
			m = ourMAC
		}
		if got := r.s.MACFor(&a); got != m {
			t.Fatalf("%v: %v instead of %v", a, got, m)
		}
	}
	for i := range 600 {
		r.s.SetNeigh(wire.Addr4(10, 1, byte(i>>8), byte(i)), mac44)
	}
	gw, other := ip("203.0.113.1"), ip("192.0.2.200")
	r.s.SetNeigh(gw, mac44)
	if r.s.neigh.n != neighMax+1 || r.s.MACFor(&other) != mac44 {
		t.Errorf("full table refuses the gateway: %d", r.s.neigh.n)
	}
}
