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

// discover builds a client's BOOTP message with the given options and an end marker.
func discover(options ...byte) []byte {
	b := make([]byte, 240, 300)
	b[0], b[1], b[2] = 1, 1, 6
	copy(b[4:], "\x12\x34\x56\x78")
	copy(b[28:], guestMAC[:])
	binary.BigEndian.PutUint32(b[236:], 0x63825363)
	return append(append(b, options...), 255)
}

func (r *rig) dhcp4(m []byte) {
	r.s.DHCP4(r.fromGuest("0.0.0.0", "255.255.255.255", 17, udp(68, 67, m)))
}

// reply is a server's message as a client reads it.
type reply struct {
	frame
	boot  []byte
	order []byte
	opts  map[byte][]byte
}

func (r *rig) readReply() reply {
	r.t.Helper()
	f := r.one()
	be := binary.BigEndian
	x := reply{frame: f, boot: f.l4[8:], opts: map[byte][]byte{}}
	if f.proto != 17 || be.Uint16(f.l4) != 67 || be.Uint16(f.l4[2:]) != 68 || int(be.Uint16(f.l4[4:])) != len(f.l4) || be.Uint16(f.l4[6:]) == 0 {
		r.t.Fatalf("UDP header % x", f.l4[:8])
	}
	if f.src != ourMAC || f.dst != guestMAC || len(f.raw) < 342 || len(f.raw) > 14+576 {
		r.t.Errorf("%v to %v, %d bytes", f.src, f.dst, len(f.raw))
	}
	b := x.boot
	if b[0] != 2 || b[1] != 1 || b[2] != 6 || b[3] != 0 || string(b[4:8]) != "\x12\x34\x56\x78" || b[8] != 0 || b[9] != 0 || be.Uint32(b[20:]) != 0 ||
		wire.MAC(b[28:34]) != guestMAC || !bytes.Equal(b[34:236], make([]byte, 202)) || be.Uint32(b[236:]) != 0x63825363 {
		r.t.Errorf("fixed part % x", b[:240])
	}
	for i := 240; ; {
		if i >= len(b) {
			r.t.Fatal("no end marker")
		}
		if b[i] == 255 {
			if !bytes.Equal(b[i+1:], make([]byte, len(b)-i-1)) {
				r.t.Error("junk behind the end marker")
			}
			return x
		}
		n := int(b[i+1])
		if _, twice := x.opts[b[i]]; twice || i+2+n > len(b) {
			r.t.Fatalf("option %d twice or cut", b[i])
		}
		x.order = append(x.order, b[i])
		x.opts[b[i]] = b[i+2 : i+2+n]
		i += 2 + n
	}
}

func TestDHCP4_Discover_OfferInOrderAsked(t *testing.T) {
	r := newRig(t, nil)
	r.dhcp4(discover(53, 1, 1, 55, 8, 1, 3, 6, 15, 26, 119, 121, 12))
	x := r.readReply()
	if !bytes.Equal(x.order, []byte{53, 1, 3, 6, 26, 119, 51, 54}) || x.from != "198.51.100.1" || x.to != "198.51.100.10" || string(x.boot[16:20]) != "\xc6\x33\x64\x0a" {
		t.Errorf("%+v", x)
	}
	for code, want := range map[byte]string{53: "\x02", 1: "\xff\xff\xff\x00", 3: "\xc6\x33\x64\x01", 6: "\xc6\x33\x64\x35", 26: "\xff\xf0", 51: "\xff\xff\xff\xff", 54: "\xc6\x33\x64\x01"} {
		if string(x.opts[code]) != want {
			t.Errorf("option %d: % x", code, x.opts[code])
		}
	}
	if !slices.Equal(names(t, x.opts[119]), []string{"example.com"}) {
		t.Errorf("% x", x.opts[119])
	}
	if len(r.logs) != 1 || !strings.Contains(r.logs[0], "52:54:00:12:34:56") {
		t.Errorf("%q", r.logs)
	}
}

func TestDHCP4_BroadcastFlag_ToEverybody(t *testing.T) {
	r := newRig(t, nil)
	m := discover(53, 1, 1, 55, 2, 53, 3)
	m[10] = 0x80
	r.dhcp4(m)
	if x := r.readReply(); x.to != "255.255.255.255" || !bytes.HasPrefix(x.order, []byte{53, 3, 1}) || x.boot[10] != 0x80 {
		t.Errorf("%+v", x)
	}
	for _, o := range [][]byte{{53, 1, 1}, {53, 1, 1, 55, 2, 3, 53}, {53, 1, 1, 55, 1, 6, 55, 1, 3}} {
		r.dhcp4(discover(o...))
		if x := r.readReply(); x.order[0] != 53 || len(x.order) != 8 {
			t.Errorf("% d: % d", o, x.order)
		}
	}
}

func TestDHCP4_MessageTypes_AnswerEach(t *testing.T) {
	renew := func(o []byte, addr string) []byte { copy(o[12:], addr); return o }
	const ours, other = "\xc6\x33\x64\x0a", "\x0a\x00\x00\x09"
	for _, c := range []struct {
		name string
		m    []byte
		kind int // 0: no answer, -1: without type
		addr string
	}{
		{"rapid commit", discover(53, 1, 1, 80, 0), 5, ours},
		{"selecting", discover(53, 1, 3, 54, 4, 198, 51, 100, 1, 50, 4, 198, 51, 100, 10), 5, ours},
		{"selecting another server", discover(53, 1, 3, 54, 4, 198, 51, 100, 2, 50, 4, 198, 51, 100, 10), 0, ""},
		{"selecting another address", discover(53, 1, 3, 54, 4, 198, 51, 100, 1, 50, 4, 10, 0, 0, 9), 6, "\x00\x00\x00\x00"},
		{"init-reboot", discover(53, 1, 3, 50, 4, 198, 51, 100, 10), 5, ours},
		{"init-reboot elsewhere", discover(53, 1, 3, 50, 4, 10, 0, 0, 9), 6, "\x00\x00\x00\x00"},
		{"renew", renew(discover(53, 1, 3), ours), 5, ours},
		{"renew elsewhere", renew(discover(53, 1, 3), other), 6, "\x00\x00\x00\x00"},
		{"bare request", discover(53, 1, 3), 5, ours},
		{"BOOTP", discover(), -1, ours},
		{"inform", renew(discover(53, 1, 8), ours), 5, "\x00\x00\x00\x00"},
		{"decline", discover(53, 1, 4), 0, ""},
		{"release", discover(53, 1, 7), 0, ""},
		{"offer", discover(53, 1, 2), 0, ""},
		{"type of two bytes", discover(53, 2, 1, 1), 0, ""},
	} {
		r := newRig(t, nil)
		r.dhcp4(c.m)
		if c.kind == 0 {
			r.none(c.name)
			continue
		}
		x := r.readReply()
		kind := -1
		if v := x.opts[53]; len(v) == 1 {
			kind = int(v[0])
		}
		_, lease := x.opts[51]
		_, rapid := x.opts[80]
		if kind != c.kind || string(x.boot[16:20]) != c.addr || lease != (kind == 5 && c.name != "inform") || rapid != (c.name == "rapid commit") {
			t.Errorf("%s: type %d % d yiaddr % x", c.name, kind, x.order, x.boot[16:20])
		}
		ciaddr := string(c.m[12:16])
		if kind == 6 {
			ciaddr = "\x00\x00\x00\x00"
			if !bytes.Equal(x.order, []byte{53, 54}) || x.to != "255.255.255.255" {
				t.Errorf("%s: % d to %s", c.name, x.order, x.to)
			}
		}
		if string(x.boot[12:16]) != ciaddr {
			t.Errorf("%s: ciaddr % x", c.name, x.boot[12:16])
		}
	}
	r := newRig(t, nil)
	r.s.DHCP4(r.fromGuest("198.51.100.10", "8.8.8.8", 17, udp(68, 67, discover(53, 1, 1))))
	if x := r.readReply(); x.opts[53][0] != 2 {
		t.Error("discover to another address")
	}
}

func TestDHCP4_Configuration_DecidesOptions(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Config, *fwd.Config)
		want   map[byte]string // "-": absent
	}{
		{"gateway outside of the prefix", func(_ *Config, f *fwd.Config) { f.V4.Guest, f.V4.Prefix = ip("10.9.9.9"), 8 },
			map[byte]string{1: "\xff\x00\x00\x00", 121: "\x20\xc6\x33\x64\x01\x00\x00\x00\x00\x00\xc6\x33\x64\x01"}},
		{"host address of 32 bits", func(_ *Config, f *fwd.Config) { f.V4.Prefix = 32 }, map[byte]string{1: "\xff\xff\xff\xff", 121: "\x20\xc6\x33\x64\x01\x00\x00\x00\x00\x00\xc6\x33\x64\x01"}},
		{"no MTU", func(c *Config, _ *fwd.Config) { c.MTU = 0 }, map[byte]string{26: "-", 121: "-", 12: "-", 81: "-"}},
		{"names", func(c *Config, _ *fwd.Config) { c.Hostname, c.FQDN = "h", "h.example.org" }, map[byte]string{12: "h", 81: "\x04\xff\xff\x01h\x07example\x03org\x00"}},
		{"trailing dot", func(c *Config, _ *fwd.Config) { c.FQDN = "h.example.org." }, map[byte]string{12: "-", 81: "\x04\xff\xff\x01h\x07example\x03org\x00"}},
		{"FQDN too long", func(c *Config, _ *fwd.Config) { c.FQDN = strings.Repeat("abcde.", 41) + "abcde" }, map[byte]string{81: "-"}},
		{"no resolver", func(c *Config, _ *fwd.Config) { c.SendDNS, c.SendSearch = false, false }, map[byte]string{6: "-", 119: "-"}},
		{"three resolvers", func(c *Config, _ *fwd.Config) { c.DNS4 = []wire.Addr{g4, a4, g4} }, map[byte]string{6: "\xc6\x33\x64\x01\xc6\x33\x64\x0a\xc6\x33\x64\x01"}},
	} {
		r := newRig(t, c.change)
		r.dhcp4(discover(53, 1, 1))
		x := r.readReply()
		for code, want := range c.want {
			if got, ok := x.opts[code]; ok == (want == "-") || ok && string(got) != want {
				t.Errorf("%s: option %d: %q", c.name, code, got)
			}
		}
	}
}

func TestDHCP4_Off_Nothing(t *testing.T) {
	for _, c := range []func(*Config, *fwd.Config){
		func(c *Config, _ *fwd.Config) { c.DHCP4 = false },
		func(_ *Config, f *fwd.Config) { f.V4.On = false },
		func(_ *Config, f *fwd.Config) { f.V4.Gateway, f.V4.Our = wire.Addr{}, wire.Addr{} },
	} {
		r := newRig(t, c)
		r.dhcp4(discover(53, 1, 1))
		r.none("off")
	}
}

func TestDHCP4_SearchList_CompressedAndDecodable(t *testing.T) {
	long := strings.Repeat(strings.Repeat("x", 40)+".", 2) // 82 characters
	for _, c := range []struct {
		in, out []string
		size    int
	}{
		{[]string{"a.example.com", "b.example.com"}, []string{"a.example.com", "b.example.com"}, 15 + 4},
		{[]string{"a.example.com b.example.com"}, []string{"a.example.com", "b.example.com"}, 19},
		{[]string{"example.com", "corp.example.net."}, []string{"example.com", "corp.example.net"}, 13 + 18},
		{[]string{"example.com", "example.com."}, []string{"example.com", "example.com"}, 15},
		{[]string{"", ".", "a..b", "example.com"}, []string{"example.com"}, 13},
		{[]string{long + "a", long + "b", "x." + strings.Repeat("y", 60) + ".a", strings.Repeat("z", 63) + ".b", "c.d"},
			[]string{long + "a", long + "b", "x." + strings.Repeat("y", 60) + ".a", "c.d"}, 0},
	} {
		r := newRig(t, func(g *Config, _ *fwd.Config) { g.Search = c.in })
		r.dhcp4(discover(53, 1, 1, 55, 1, 119))
		v := r.readReply().opts[119]
		if len(v) > 255 || c.size > 0 && len(v) != c.size {
			t.Errorf("%v: %d bytes", c.in, len(v))
		}
		var got []string
		for at := 0; at < len(v); {
			var s string
			s, at = name(t, v, at)
			got = append(got, s)
		}
		if !slices.Equal(got, c.out) {
			t.Errorf("%v: %v", c.in, got)
		}
	}
}

// Long names never push out what a client needs, nor the reply above 576 bytes.
func TestDHCP4_LongNames_WithinLimitAndComplete(t *testing.T) {
	fqdn := strings.Repeat("abcde.", 41) + "abcd" // 250 characters
	for _, list := range [][]byte{{119, 81, 12, 6}, {81, 12, 119}, {12, 119, 81}, {12, 81, 119}, {}} {
		for n := range 254 {
			r := newRig(t, func(c *Config, f *fwd.Config) {
				f.V4.Prefix = 32
				c.DNS4 = []wire.Addr{g4, g4, g4}
				c.Hostname, c.FQDN = strings.Repeat("h", n), fqdn
				c.Search = []string{strings.Repeat("s", 60), strings.Repeat("t", 60), strings.Repeat("u", 60), strings.Repeat("v", 60)}
			})
			o := append([]byte{53, 1, 1, 80, 0, 55, byte(len(list))}, list...)
			if len(list) == 0 {
				o = o[:5]
			}
			r.dhcp4(discover(o...))
			x := r.readReply()
			for _, code := range []byte{53, 1, 3, 51, 54, 26, 6, 121, 80} {
				if _, ok := x.opts[code]; !ok {
					t.Fatalf("host name of %d: option %d missing", n, code)
				}
			}
			if h, ok := x.opts[12]; ok && len(h) != n {
				t.Errorf("host name cut to %d", len(h))
			}
		}
	}
}

func TestDHCP4_EachTruncation_NoPanicAndCounted(t *testing.T) {
	r := newRig(t, nil)
	m := discover(53, 1, 1, 55, 2, 1, 3)
	for n := range m {
		r.dhcp4(m[:n])
	}
	if d := r.env.Drops[wire.DropDHCP4]; d != 240+2+3 {
		t.Errorf("%d dropped", d)
	}
}

func TestDHCP4_Answering_NoAllocation(t *testing.T) {
	r := newRig(t, func(c *Config, _ *fwd.Config) { c.Hostname, c.FQDN = "h", "h.example.org" })
	r.link.mute = true
	p4 := r.fromGuest("0.0.0.0", "255.255.255.255", 17, udp(68, 67, discover(53, 1, 1, 55, 8, 1, 3, 6, 15, 26, 119, 121, 12)))
	p6 := r.fromGuest("fe80::2", "ff02::1:2", 17, udp(546, 547, solicit6()))
	rs := r.fromGuest("fe80::2", "ff02::2", 58, routerSolicit)
	arp := r.request(1, "198.51.100.10", "203.0.113.9")
	for range logMost {
		r.s.mayLog()
	}
	sent := r.link.sent
	if n := testing.AllocsPerRun(100, func() { r.s.DHCP4(p4); r.s.DHCP6(p6); r.s.NDP(rs); r.s.ARP(arp) }); n != 0 || r.link.sent != sent+4*101 {
		t.Errorf("%v allocations, %d frames", n, r.link.sent-sent)
	}
	if len(r.logs) != 0 {
		t.Errorf("%d lines", len(r.logs))
	}
}

func TestSend_LinkFullOrVectorsOnly_CountedOrSame(t *testing.T) {
	r := newRig(t, nil)
	r.dhcp4(discover(53, 1, 1))
	want := r.take()[0]
	r.link.noBuf = true
	r.dhcp4(discover(53, 1, 1))
	if got := r.take(); len(got) != 1 || !bytes.Equal(got[0], want) {
		t.Errorf("% x", got)
	}
	r.link.full = true
	r.dhcp4(discover(53, 1, 1))
	if r.env.Drops[wire.DropLinkFull] != 1 {
		t.Error("not counted")
	}
}

// Whatever the client sends: at most one reply, well-formed (readReply checks) and at most 576 bytes.
func FuzzDHCP4(f *testing.F) {
	f.Add(discover(53, 1, 1, 80, 0, 55, 4, 119, 81, 12, 6)[240:], uint8(3))
	f.Add([]byte{53, 1, 3, 0, 0, 0, 50, 255, 7}, uint8(1))
	var rigs [4]*rig // names that fit beside each other, and some that do not
	for i := range rigs {
		rigs[i] = newRig(f, func(c *Config, _ *fwd.Config) {
			c.Hostname, c.FQDN = strings.Repeat("h", 80*i), strings.Repeat("abcde.", 13*i)+"x"
			c.Search = []string{c.FQDN, "example.com"}
		})
	}
	f.Fuzz(func(t *testing.T, options []byte, names uint8) {
		r := rigs[names%4]
		r.t, r.logs = t, nil
		m := append(discover()[:240], options...)
		if len(m) > 60000 {
			return
		}
		r.dhcp4(m)
		if len(r.link.got) > 0 {
			x := r.readReply()
			if v, ok := x.opts[53]; ok && x.order[0] != 53 || ok && len(v) != 1 {
				t.Errorf("% d", x.order)
			}
		}
	})
}
