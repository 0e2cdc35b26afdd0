// SPDX-License-Identifier: Apache-2.0

package local

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"passt/dataplane/fwd"
	"passt/dataplane/wire"
)

func solicit(target string) []byte {
	a := ip(target)
	return append(append(make([]byte, 0, 24), 135, 0, 0, 0, 0, 0, 0, 0), a[:]...)
}

var routerSolicit = []byte{133, 0, 0, 0, 0, 0, 0, 0}

// ra is a router advertisement as a host reads it; options in order of appearance.
type ra struct {
	flags    byte
	lifetime uint16
	codes    []byte
	prefix   []byte
	mac      wire.MAC
	mtu      uint32
	servers  int
	search   []string
}

func (r *rig) readRA(f frame) (x ra) {
	r.t.Helper()
	be := binary.BigEndian
	m := f.l4
	if f.src != ourMAC || f.from != "fe80::1" || m[0] != 134 || m[1] != 0 || m[4] != 255 || be.Uint64(m[8:]) != 0 {
		r.t.Fatalf("% x", m)
	}
	x.flags, x.lifetime = m[5], be.Uint16(m[6:])
	for o := m[16:]; len(o) > 0; {
		n := int(o[1]) * 8
		if n == 0 || n > len(o) {
			r.t.Fatalf("option of length %d in % x: a host discards the whole message", n, m)
		}
		x.codes = append(x.codes, o[0])
		switch o[0] {
		case 1:
			x.mac = wire.MAC(o[2:8])
		case 3:
			x.prefix = o[:32]
		case 5:
			x.mtu = be.Uint32(o[4:])
		case 25:
			x.servers = (n - 8) / 16
		case 31:
			x.search = names(r.t, o[8:n])
			if be.Uint32(o[4:]) != infinite {
				r.t.Error("search list ends")
			}
		}
		o = o[n:]
	}
	return x
}

func TestNDP_RouterSolicitation_FullAdvertisement(t *testing.T) {
	r := newRig(t, nil)
	if !r.s.NDP(r.fromGuest("fe80::5054:ff:fe12:3456", "ff02::2", 58, routerSolicit)) {
		t.Fatal("not consumed")
	}
	f := r.one()
	x := r.readRA(f)
	want := append([]byte{3, 4, 64, 0xc0, 255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 0}, 0x20, 1, 0xd, 0xb8, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	if f.to != "fe80::5054:ff:fe12:3456" || f.dst != guestMAC || x.flags != 0x80 || x.lifetime != 65535 || !bytes.Equal(x.codes, []byte{3, 1, 5, 25, 31}) ||
		!bytes.Equal(x.prefix, want) || x.mac != ourMAC || x.mtu != 65520 || x.servers != 1 || !slices.Equal(x.search, []string{"example.com"}) {
		t.Errorf("%+v", x)
	}
	r.s.NDP(r.fromGuest("::", "ff02::2", 58, routerSolicit))
	if f := r.one(); f.to != "ff02::1" || f.dst != (wire.MAC{0x33, 0x33, 0, 0, 0, 1}) {
		t.Errorf("%+v", f)
	}
}

func TestNDP_AdvertisementVariants_OptionsFollowConfig(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Config, *fwd.Config)
		codes  []byte
		flags  byte
	}{
		{"no MTU", func(c *Config, _ *fwd.Config) { c.MTU = 0 }, []byte{3, 1, 25, 31}, 0x80},
		{"MTU below the least of IPv6", func(c *Config, _ *fwd.Config) { c.MTU = 1279 }, []byte{3, 1, 25, 31}, 0x80},
		{"no DHCPv6", func(c *Config, _ *fwd.Config) { c.DHCP6 = false }, []byte{3, 1, 5, 25, 31}, 0},
		{"no resolver, search list still there", func(c *Config, _ *fwd.Config) { c.DNS6 = nil }, []byte{3, 1, 5, 31}, 0x80},
		{"resolvers suppressed", func(c *Config, _ *fwd.Config) { c.SendDNS = false }, []byte{3, 1, 5, 31}, 0x80},
		{"search suppressed", func(c *Config, _ *fwd.Config) { c.SendSearch = false }, []byte{3, 1, 5, 25}, 0x80},
		{"local mode", func(_ *Config, f *fwd.Config) { f.V6.Local, f.V6.Guest = true, gll }, []byte{1, 5, 25, 31}, 0},
		{"no address yet", func(_ *Config, f *fwd.Config) { f.V6.Local, f.V6.Guest = true, wire.Addr{} }, []byte{1, 5, 25, 31}, 0},
	} {
		r := newRig(t, c.change)
		r.s.NDP(r.fromGuest("fe80::5054:ff:fe12:3456", "ff02::2", 58, routerSolicit))
		if x := r.readRA(r.one()); !bytes.Equal(x.codes, c.codes) || x.flags != c.flags {
			t.Errorf("%s: %+v", c.name, x)
		}
	}
}

func TestNDP_SearchLists_DecodeAndStayWithinMTU(t *testing.T) {
	long := strings.Repeat(strings.Repeat("x", 60)+".", 4) // 244 characters
	for _, c := range []struct{ in, out []string }{
		{[]string{"example.com", "corp.example.net."}, []string{"example.com", "corp.example.net"}},
		{[]string{"example.com corp.example.net."}, []string{"example.com", "corp.example.net"}},
		{[]string{"abc.de"}, []string{"abc.de"}}, {[]string{"example.abcdef"}, []string{"example.abcdef"}},
		{[]string{"abc.de", "example.abcdef"}, []string{"abc.de", "example.abcdef"}},
		{[]string{"", ".", "a..b"}, nil},
		{[]string{long + "a", long + "b", long + "c", long + "d", long + "e", long + "f"}, []string{long + "a", long + "b", long + "c", long + "d"}},
	} {
		r := newRig(t, func(c2 *Config, _ *fwd.Config) { c2.Search = c.in })
		r.s.NDP(r.fromGuest("fe80::5054:ff:fe12:3456", "ff02::2", 58, routerSolicit))
		if x := r.readRA(r.one()); !slices.Equal(x.search, c.out) {
			t.Errorf("%v: %v", c.in, x.search)
		}
	}
}

func TestNDP_NeighbourSolicitation_AnsweredForAllButOwn(t *testing.T) {
	for _, c := range []struct {
		name, src, target string
		answer            bool
	}{
		{"gateway", "fe80::5054:ff:fe12:3456", "fe80::1", true},
		{"far away", "2001:db8:9::10", "2001:db8:77::1", true},
		{"duplicate detection", "::", "2001:db8:9::77", false},
		{"assigned address", "fe80::5054:ff:fe12:3456", "2001:db8:9::10", false},
		{"seen address", "fe80::5054:ff:fe12:3456", "2001:db8:9::99", false},
		{"own link-local", "2001:db8:9::10", "fe80::5054:ff:fe12:3456", false},
		{"group", "2001:db8:9::10", "ff02::5", false},
	} {
		r := newRig(t, nil)
		r.env.Guest.Seen6 = ip("2001:db8:9::99")
		if !r.s.NDP(r.fromGuest(c.src, "ff02::1:ff00:1", 58, solicit(c.target))) {
			t.Errorf("%s: not consumed", c.name)
		}
		if !c.answer {
			r.none(c.name)
			continue
		}
		f := r.one()
		target := ip(c.target)
		if f.to != c.src || f.from != "fe80::1" || f.dst != guestMAC || f.src != ourMAC || len(f.raw) != 86 ||
			binary.BigEndian.Uint32(f.l4[4:]) != 0xe0000000 || f.l4[0] != 136 || !bytes.Equal(f.l4[8:24], target[:]) || string(f.l4[24:]) != "\x02\x01"+string(ourMAC[:]) {
			t.Errorf("%s: %+v", c.name, f)
		}
	}
	r := newRig(t, nil)
	r.s.SetNeigh(ip("2001:db8:9::44"), mac44)
	r.take()
	r.s.NDP(r.fromGuest("2001:db8:9::10", "ff02::1:ff00:44", 58, solicit("2001:db8:9::44")))
	if got := wire.MAC(r.one().l4[26:32]); got != mac44 {
		t.Errorf("%v", got)
	}
}

func TestNDP_SwitchesAndJunk_ConsumedWithoutAnswer(t *testing.T) {
	ns := solicit("2001:db8:9::1")
	for _, c := range []struct {
		name   string
		change func(*Config, *fwd.Config)
		ns     bool // solicitations are answered nevertheless
	}{
		{"--no-ra", func(c *Config, _ *fwd.Config) { c.RA = false }, true},
		{"--config-net", func(c *Config, _ *fwd.Config) { c.ConfigNet = true }, true},
		{"--no-ndp", func(c *Config, _ *fwd.Config) { c.NDP = false }, false},
		{"--no-icmp", func(_ *Config, f *fwd.Config) { f.ICMP = false }, false},
		{"-4", func(_ *Config, f *fwd.Config) { f.V6.On = false }, false},
	} {
		r := newRig(t, c.change)
		if !r.s.NDP(r.fromGuest("fe80::2", "ff02::2", 58, routerSolicit)) {
			t.Errorf("%s: not consumed", c.name)
		}
		r.none(c.name)
		if !r.s.NDP(r.fromGuest("fe80::2", "ff02::2", 58, ns)) || (len(r.take()) == 1) != c.ns {
			t.Errorf("%s: neighbour solicitation", c.name)
		}
		if at, ok := r.s.NextMs(); ok {
			t.Errorf("%s: unsolicited advertisement at %d", c.name, at)
		}
	}
	r := newRig(t, nil)
	p := r.fromGuest("fe80::2", "ff02::2", 58, ns)
	p.TTL = 64
	r.s.NDP(p)
	r.none("hop limit 64")
	p.TTL = 255
	for n := 1; n < len(ns); n++ {
		p.L4 = ns[:n]
		if !r.s.NDP(p) {
			t.Errorf("%d bytes: not consumed", n)
		}
	}
	p.L4 = append(append([]byte{}, ns...), 1, 0, 0, 0, 0, 0, 0, 0)
	r.s.NDP(p)
	r.s.NDP(r.fromGuest("fe80::2", "ff02::1", 58, append([]byte{136}, ns[1:]...)))
	r.s.NDP(r.fromGuest("fe80::2", "ff02::1", 58, append([]byte{134}, ns[1:16]...)))
	r.none("junk and advertisements")
	for _, kind := range []byte{128, 132, 137, 143} {
		if r.s.NDP(r.fromGuest("fe80::2", "ff02::16", 58, append([]byte{kind}, ns[1:]...))) {
			t.Errorf("type %d consumed", kind)
		}
	}
	p.L4 = nil
	if r.s.NDP(p) {
		t.Error("empty message consumed")
	}
}

func TestTick_LinkThere_ThreeSoonThenEveryFewMinutes(t *testing.T) {
	r := newRig(t, nil)
	r.env.Link = nil
	if _, ok := r.s.NextMs(); ok {
		t.Fatal("timer without link")
	}
	r.env.Link = r.link
	r.env.NowMs += 5000
	start := r.env.NowMs
	last, shortest, longest := start, int64(1e9), int64(0)
	for i := range 400 {
		at, ok := r.s.NextMs()
		if !ok || at <= r.env.NowMs {
			t.Fatal(at, ok)
		}
		r.env.NowMs = at - 1
		r.s.Tick()
		r.none("too early")
		r.env.NowMs = at
		r.s.Tick()
		if f := r.one(); f.to != "ff02::1" {
			t.Fatal(f.to)
		}
		if i == 2 && at-start > 16000 {
			t.Errorf("third one after %d ms", at-start)
		}
		if i > 2 {
			shortest, longest = min(shortest, at-last), max(longest, at-last)
		}
		last = at
	}
	if shortest < 200_000 || longest > 599_000 || longest-shortest < 350_000 {
		t.Errorf("intervals %d to %d ms", shortest, longest)
	}
}
