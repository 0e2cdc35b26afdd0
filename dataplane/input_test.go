// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"encoding/binary"
	"strings"
	"testing"

	"passt/dataplane/flow"
	"passt/dataplane/fwd"
	"passt/dataplane/link"
	"passt/dataplane/wire"
)

func TestInput_MixedBatch_EachToItsOwner(t *testing.T) {
	u := func(port uint16) []byte { return udpTo(guest4, remote4, 4000, port, "x") }
	f1, f2 := pieces(udpTo(guest4, remote4, 4001, 1003, "a datagram in two pieces"), 16)
	for _, c := range []struct {
		name   string
		frames [][]byte
		want   string
		arps   int
	}{
		{"one run", [][]byte{u(1001), u(1001), u(1001)}, "2:1001", 0},
		{"two flows in turns", [][]byte{u(1001), u(1002), u(1001), u(1002)}, "2:1001 2:1002", 0},
		{"ARP between", [][]byte{u(1001), arpFor(gw4), u(1001), arpFor(gw4), u(1002)}, "2:1001 2:1002", 2},
		{"echo between", [][]byte{u(1001), pingTo(remote4), u(1001)}, "3:0 2:1001", 0},
		{"fragments between", [][]byte{u(1001), f1, u(1001), f2, u(1002)}, "2:1001 2:1003 2:1002", 0},
		{"junk between", [][]byte{u(1001), {1, 2, 3}, u(1001), make([]byte, 60), u(1002)}, "2:1001 2:1002", 0},
		{"TCP between", [][]byte{u(1001), synTo(guest4, remote4, 5000, 80), u(1001)}, "2:1001 1:80", 0},
		{"IPv6 beside", [][]byte{u(1001), udpTo(guest6, remote6, 4000, 1001, "x")}, "2:1001 2:1001", 0},
		{"port 67 over IPv6 is ordinary", [][]byte{udpTo(guest6, remote6, 4000, 67, "x")}, "2:67", 0},
		{"port 547 over IPv4 is ordinary", [][]byte{u(547), u(1001)}, "2:547 2:1001", 0},
		{"nothing", nil, "", 0},
	} {
		r := newRig(t, nil)
		if got := ops(r.turn(c.frames...)); got != c.want {
			t.Errorf("%s: requests %q, want %q (drops %v)", c.name, got, c.want, r.env.Drops)
		}
		arps := 0
		for _, f := range r.answers() {
			if binary.BigEndian.Uint16(f[12:]) == wire.EtherARP {
				arps++
			}
		}
		if arps != c.arps {
			t.Errorf("%s: %d ARP answers, want %d", c.name, arps, c.arps)
		}
	}
}

func TestInput_FullBatch_NothingLost(t *testing.T) {
	r := newRig(t, nil)
	var fs [][]byte
	for i := range link.MaxFrames + 9 {
		fs = append(fs, udpTo(guest4, remote4, 4000, uint16(2000+i), "x"))
	}
	if got := len(r.turn(fs...)); got != len(fs) {
		t.Errorf("%d requests for %d flows", got, len(fs))
	}
}

func TestInput_Refused_Counted(t *testing.T) {
	off := func(f func(c *fwd.Config)) func(c *fwd.Config) { return f }
	for _, c := range []struct {
		name  string
		edit  func(c *fwd.Config)
		frame []byte
		want  wire.Drop
	}{
		{"unknown protocol", nil, eth(&guest4, &remote4, 47, []byte{1, 2, 3, 4}), wire.DropProto},
		{"IGMP", nil, eth(&guest4, &remote4, 2, make([]byte, 8)), wire.DropProto},
		{"ICMPv6 over IPv4", nil, eth(&guest4, &remote4, wire.ProtoICMPv6, make([]byte, 8)), wire.DropProto},
		{"ICMP over IPv6", nil, eth(&guest6, &remote6, wire.ProtoICMP, make([]byte, 8)), wire.DropProto},
		{"ether type", nil, append(make([]byte, 12), 0x88, 0xcc, 0, 0), wire.DropEtherType},
		{"IPv4 off", off(func(c *fwd.Config) { c.V4.On = false }), udpTo(guest4, remote4, 1, 2, "x"), wire.DropFamilyOff},
		{"IPv4 off, ARP", off(func(c *fwd.Config) { c.V4.On = false }), arpFor(gw4), wire.DropFamilyOff},
		{"IPv6 off", off(func(c *fwd.Config) { c.V6.On = false }), udpTo(guest6, remote6, 1, 2, "x"), wire.DropFamilyOff},
		{"27: source 127.0.0.1", nil, udpTo(ip("127.0.0.1"), remote4, 1, 2, "x"), wire.DropIPLoopback},
	} {
		r := newRig(t, c.edit)
		if qs := r.turn(c.frame); len(qs) != 0 {
			t.Errorf("%s: %q", c.name, ops(qs))
		}
		if r.env.Drops[c.want] != 1 || len(r.answers()) != 0 {
			t.Errorf("%s: %v not counted: %v", c.name, c.want, r.env.Drops)
		}
	}
	for name, f := range map[string]func(c *fwd.Config){"TCP off": func(c *fwd.Config) { c.TCP = false }, "UDP off": func(c *fwd.Config) { c.UDP = false }} {
		frame := udpTo(guest4, remote4, 1, 2, "x")
		if name == "TCP off" {
			frame = synTo(guest4, remote4, 1, 2)
		}
		if qs := newRig(t, f).turn(frame); len(qs) != 0 {
			t.Errorf("%s: %q", name, ops(qs))
		}
	}
}

// TestLearn_Sources_ByAddressing8: the destination of inbound traffic, spec addressing 8.
func TestLearn_Sources_ByAddressing8(t *testing.T) {
	pin4 := func(c *fwd.Config) { c.V4.Pinned = true }
	pin6 := func(c *fwd.Config) { c.V6.Pinned = true }
	local6 := func(c *fwd.Config) { c.V6.Guest = wire.Addr{} }
	none4 := func(c *fwd.Config) { c.V4.Guest, c.V4.Prefix = wire.Addr{}, 0 }
	for _, c := range []struct {
		name           string
		edit           func(c *fwd.Config)
		srcs           string
		s4, s6, sl, a6 string
	}{
		{"28: another address of the prefix", nil, "192.0.2.77", "192.0.2.77", "2001:db8::15", "", "2001:db8::15"},
		{"28: pinned", pin4, "192.0.2.77", "192.0.2.15", "2001:db8::15", "", "2001:db8::15"},
		{"8.5: forwarded for another", nil, "198.51.100.9", "192.0.2.15", "2001:db8::15", "", "2001:db8::15"},
		{"nothing assigned: the first seen", none4, "198.51.100.9", "198.51.100.9", "2001:db8::15", "", "2001:db8::15"},
		{"unspecified", nil, "0.0.0.0 ::", "192.0.2.15", "2001:db8::15", "", "2001:db8::15"},
		{"multicast and broadcast", nil, "224.0.0.1 255.255.255.255 ff02::1", "192.0.2.15", "2001:db8::15", "", "2001:db8::15"},
		{"IPv6 of the prefix", nil, "2001:db8::99", "192.0.2.15", "2001:db8::99", "", "2001:db8::15"},
		{"IPv6 of another", nil, "2001:db8:5::99", "192.0.2.15", "2001:db8::15", "", "2001:db8::15"},
		{"IPv6 pinned", pin6, "2001:db8::99 fe80::9", "192.0.2.15", "2001:db8::15", "fe80::9", "2001:db8::15"},
		{"link-local", nil, "fe80::9", "192.0.2.15", "2001:db8::15", "fe80::9", "2001:db8::15"},
		{"local mode", local6, "fe80::9", "192.0.2.15", "fe80::9", "fe80::9", "fe80::9"},
		{"local mode, then a global one", local6, "fe80::9 2001:db8:7::1", "192.0.2.15", "2001:db8:7::1", "fe80::9", "fe80::9"},
		{"the last counts", nil, "192.0.2.77 192.0.2.78", "192.0.2.78", "2001:db8::15", "", "2001:db8::15"},
	} {
		r := newRig(t, c.edit)
		for _, s := range strings.Fields(c.srcs) {
			a := ip(s)
			r.p.learn(&a)
		}
		g := r.env.Guest
		if g.Seen4 != ip(c.s4) || g.Seen6 != ip(c.s6) || g.SeenL != ip(c.sl) || r.env.Fwd.V6.Guest != ip(c.a6) {
			t.Errorf("%s: %v %v %v, assigned %v", c.name, g.Seen4, g.Seen6, g.SeenL, r.env.Fwd.V6.Guest)
		}
	}
	r := newRig(t, nil)
	r.turn(udpTo(guest4, remote4, 1, 2, "x"))
	if r.env.Guest.MAC != guestMAC {
		t.Errorf("MAC %v", r.env.Guest.MAC)
	}
}

func TestRoute_Listeners_ByForwarding6(t *testing.T) {
	lo, lo9, lo6 := ip("127.0.0.1"), ip("127.0.0.9"), ip("::1")
	host := flow.Listener{Pif: fwd.PifHost}
	toAddr := flow.Listener{Pif: fwd.PifHost, Rule: 1}
	ns := flow.Listener{Pif: fwd.PifSplice}
	noSplice := func(c *fwd.Config) { c.Splice = false }
	for _, c := range []struct {
		name      string
		edit      func(c *fwd.Config)
		l         flow.Listener
		peer, our wire.Addr
		noLink    bool
		want      fwd.Pif
	}{
		{"6.2 loopback client", nil, host, lo, lo, false, fwd.PifSplice},
		{"6.2 loopback client by own address", nil, host, lo9, guest4, false, fwd.PifSplice},
		{"6.2 IPv6 loopback", nil, host, lo6, lo6, false, fwd.PifSplice},
		{"6.2 remote client", nil, host, remote4, guest4, false, fwd.PifTap},
		{"6.2 host's own address", nil, host, guest4, guest4, false, fwd.PifTap},
		{"6.2 no splice", noSplice, host, lo, lo, false, fwd.PifTap},
		{"6.2 target address", nil, toAddr, lo, lo, false, fwd.PifTap},
		{"6.2 splice only, remote", nil, host, remote4, guest4, true, fwd.PifNone},
		{"6.2 splice only, loopback", nil, host, lo, lo, true, fwd.PifSplice},
		{"6.2 unknown rule", nil, flow.Listener{Pif: fwd.PifHost, Rule: 9}, remote4, guest4, false, fwd.PifNone},
		{"6.3 loopback", nil, ns, lo, lo9, false, fwd.PifSplice},
		{"6.3 own external address", nil, ns, guest4, guest4, false, fwd.PifNone},
		{"6.3 loopback to external", nil, ns, lo, guest4, false, fwd.PifNone},
		{"6.3 unknown rule", nil, flow.Listener{Pif: fwd.PifSplice, Rule: 1}, lo, lo, false, fwd.PifNone},
	} {
		r := newRig(t, c.edit)
		r.env.HostRules = []fwd.Rule{{First: 1, Last: 9, To: 1, Proto: fwd.ProtoTCP}, {First: 1, Last: 9, To: 1, Proto: fwd.ProtoTCP, Target: guest4}}
		r.env.NsRules = []fwd.Rule{{First: 1, Last: 9, To: 1, Proto: fwd.ProtoTCP}}
		if c.noLink {
			r.env.Link = nil
		}
		if got := r.p.route(&c.l, &c.peer, &c.our); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}
