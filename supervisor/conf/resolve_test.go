// SPDX-License-Identifier: Apache-2.0

package conf

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"passt/dataplane/fwd"
	"passt/dataplane/wire"
	"passt/ipc"
	"passt/supervisor/host"
)

func ip(s string) wire.Addr {
	if s == "" {
		return wire.Addr{}
	}
	a, ok := address(s)
	if !ok {
		panic(s)
	}
	return a
}

func ips(list ...string) (out []wire.Addr) {
	for _, s := range list {
		out = append(out, ip(s))
	}
	return out
}

// usual is a host with both families on one interface and one resolver each.
func usual() *Host {
	return &Host{
		V4: &host.Template{IfIndex: 2, IfName: "eth0", Gateway: ip("198.51.100.1"), Addr: ip("198.51.100.10"), Prefix: 24, HasDefault: true,
			Addresses: []host.Address{{Addr: ip("198.51.100.10"), Prefix: 24}, {Addr: ip("198.51.100.20"), Prefix: 24}}},
		V6: &host.Template{IfIndex: 2, IfName: "eth0", Gateway: ip("fe80::100"), Addr: ip("2001:db8:9::10"), Prefix: 64, LinkLocal: ip("fe80::5054"), HasDefault: true,
			Addresses: []host.Address{{Addr: ip("2001:db8:9::10"), Prefix: 64}}},
		DefaultV6: true, HasIPv6: true, EphemeralLo: 32768, EphemeralHi: 60999, Shell: "/bin/bash", ShellSet: true,
		Resolv:     host.Resolv{Servers4: ips("203.0.113.53"), Servers6: ips("2001:db8::53"), Search: []string{"example.com"}},
		SynRetries: 6, SynLinear: 4, RTOMaxMs: 120000, UDPTimeout: 30, UDPStream: 120,
	}
}

func loOnly() *Host { h := usual(); h.V4, h.V6, h.DefaultV6 = nil, nil, false; return h }

// plan resolves a line on a host and fails the test where that is refused.
func plan(t *testing.T, h *Host, line string) *Plan {
	t.Helper()
	p, err := Resolve(parsed(t, line), h)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return p
}

func messages(p *Plan) string {
	var b strings.Builder
	for _, m := range p.Messages {
		fmt.Fprintln(&b, m.Level, m.Text)
	}
	return b.String()
}

// addrs prints the addresses of both families in one line each.
func addrs(p *Plan) string {
	f := func(f *fwd.Family) string {
		if !f.On {
			return "off"
		}
		s := fmt.Sprintf("A %s/%d G %s O %s L %s", f.Guest, f.Prefix, f.Gateway, f.Our, f.MapLoop)
		if f.Local {
			s += " local"
		}
		if f.Pinned {
			s += " pinned"
		}
		return s
	}
	return f(&p.Boot.Fwd.V4) + "\n" + f(&p.Boot.Fwd.V6)
}

const (
	usual4 = "A 198.51.100.10/24 G 198.51.100.1 O 198.51.100.1 L 198.51.100.1"
	usual6 = "A 2001:db8:9::10/64 G fe80::100 O fe80::100 L fe80::100"
	local4 = "A 169.254.2.1/16 G 169.254.2.2 O 169.254.2.2 L 169.254.2.2 local"
	local6 = "A /64 G fe80::1 O fe80::1 L fe80::1 local"
)

func TestResolve_Addresses_FollowOptionsAndTemplate(t *testing.T) {
	no4 := usual()
	no4.V4 = &host.Template{IfIndex: 3, IfName: "e1"}
	no4.V6.IfName = "e1"
	globalGw := usual()
	globalGw.V6.Gateway = ip("2001:db8:9::1")
	noLL := usual()
	noLL.V6.Gateway, noLL.V6.LinkLocal = ip("2001:db8:9::1"), wire.Addr{}
	noGw := usual()
	noGw.V4.Gateway, noGw.V6.Gateway = wire.Addr{}, wire.Addr{}
	noV6 := usual()
	noV6.HasIPv6 = false
	for _, c := range []struct {
		h          *Host
		line       string
		want4      string
		want6      string
		dhcp, dhc6 bool
	}{
		{usual(), "pasta", usual4, usual6, true, true},
		{loOnly(), "pasta", local4, local6, true, false},
		{loOnly(), "pasta -a 10.0.0.5/24 -g 10.0.0.1", "A 10.0.0.5/24 G 10.0.0.1 O 10.0.0.1 L 10.0.0.1 local pinned", local6, true, false},
		{loOnly(), "pasta -g 169.254.7.7 -n 20", "A 169.254.2.1/20 G 169.254.7.7 O 169.254.7.7 L 169.254.7.7 local", local6, true, false},
		{loOnly(), "pasta -a 2001:db8::5 -g fe80::7", local4, "A 2001:db8::5/64 G fe80::7 O fe80::7 L fe80::7 local pinned", true, true},
		{loOnly(), "pasta -g 2001:db8::1", local4, "A /64 G 2001:db8::1 O fe80::1 L 2001:db8::1 local", true, false},
		{no4, "pasta -i e1", local4, usual6, true, true},
		{no4, "pasta -i e1 -a 192.0.2.7", "A 192.0.2.7/24 G  O  L  pinned", usual6, false, true},
		{usual(), "pasta -a 10.5.5.5/24 -g 10.5.5.1", "A 10.5.5.5/24 G 10.5.5.1 O 10.5.5.1 L 10.5.5.1 pinned", usual6, true, true},
		{usual(), "pasta -a 10.1.1.1", "A 10.1.1.1/8 G 198.51.100.1 O 198.51.100.1 L 198.51.100.1 pinned", usual6, true, true},
		{usual(), "pasta -a 10.1.1.1/0", "A 10.1.1.1/8 G 198.51.100.1 O 198.51.100.1 L 198.51.100.1 pinned", usual6, true, true},
		{usual(), "pasta -a 172.16.1.1", "A 172.16.1.1/16 G 198.51.100.1 O 198.51.100.1 L 198.51.100.1 pinned", usual6, true, true},
		{usual(), "pasta -a 240.0.0.1", "A 240.0.0.1/32 G 198.51.100.1 O 198.51.100.1 L 198.51.100.1 pinned", usual6, true, true},
		{usual(), "pasta -a 10.1.1.1 -n 16", "A 10.1.1.1/16 G 198.51.100.1 O 198.51.100.1 L 198.51.100.1 pinned", usual6, true, true},
		{usual(), "pasta -n 16 -a 10.1.1.1", "A 10.1.1.1/16 G 198.51.100.1 O 198.51.100.1 L 198.51.100.1 pinned", usual6, true, true},
		{usual(), "pasta -a 10.1.1.1/16 -a 10.2.2.2", "A 10.2.2.2/8 G 198.51.100.1 O 198.51.100.1 L 198.51.100.1 pinned", usual6, true, true},
		{usual(), "pasta -n 16", "A 198.51.100.10/16 G 198.51.100.1 O 198.51.100.1 L 198.51.100.1", usual6, true, true},
		{usual(), "pasta -a 2001:db8:77::5/48", usual4, "A 2001:db8:77::5/64 G fe80::100 O fe80::100 L fe80::100 pinned", true, true},
		{globalGw, "pasta", usual4, "A 2001:db8:9::10/64 G 2001:db8:9::1 O fe80::5054 L 2001:db8:9::1", true, true},
		{noLL, "pasta", usual4, local6, true, false},
		{noGw, "pasta", "A 198.51.100.10/24 G  O  L ", "A 2001:db8:9::10/64 G  O fe80::5054 L ", false, true},
		{noV6, "pasta", usual4, "off", true, false},
		{usual(), "pasta -4", usual4, "off", true, false},
		{usual(), "pasta -6", "off", usual6, false, true},
		{usual(), "pasta --no-map-gw", strings.TrimSuffix(usual4, "198.51.100.1"), strings.TrimSuffix(usual6, "fe80::100"), true, true},
		{usual(), "pasta --no-map-gw --map-host-loopback 192.0.2.2", strings.TrimSuffix(usual4, "198.51.100.1") + "192.0.2.2", strings.TrimSuffix(usual6, "fe80::100"), true, true},
		{usual(), "pasta --map-host-loopback none", strings.TrimSuffix(usual4, "198.51.100.1"), strings.TrimSuffix(usual6, "fe80::100"), true, true},
		{usual(), "pasta --map-host-loopback 2001:db8::2", usual4, strings.TrimSuffix(usual6, "fe80::100") + "2001:db8::2", true, true},
		{usual(), "pasta --no-dhcp --no-dhcpv6", usual4, usual6, false, false},
	} {
		p := plan(t, c.h, c.line)
		if got := addrs(p); got != c.want4+"\n"+c.want6 {
			t.Errorf("%s:\n%s\nwant\n%s\n%s", c.line, got, c.want4, c.want6)
		}
		if p.Boot.DHCP4 != c.dhcp || p.Boot.DHCP6 != c.dhc6 {
			t.Errorf("%s: DHCP %v, DHCPv6 %v", c.line, p.Boot.DHCP4, p.Boot.DHCP6)
		}
	}
}

func TestResolve_MapGuest_LeadsToAnAddressOfTheHost(t *testing.T) {
	for line, want := range map[string]string{
		"pasta --map-guest-addr 169.254.1.2":                   "198.51.100.10",
		"pasta --map-guest-addr 169.254.1.2 -a 198.51.100.20":  "198.51.100.20",
		"pasta --map-guest-addr 169.254.1.2 -a 192.0.2.99":     "198.51.100.10",
		"pasta --map-guest-addr 169.254.1.2 -a 192.0.2.99 -n8": "198.51.100.10",
	} {
		if p := plan(t, usual(), line); p.Boot.Fwd.V4.MapGuestTo != ip(want) || p.Boot.Fwd.V4.MapGuest != ip("169.254.1.2") {
			t.Errorf("%s: %s", line, p.Boot.Fwd.V4.MapGuestTo)
		}
	}
	if p := plan(t, loOnly(), "pasta --map-guest-addr 169.254.1.2"); !p.Boot.Fwd.V4.MapGuestTo.IsZero() {
		t.Errorf("local mode: leads to %s", p.Boot.Fwd.V4.MapGuestTo)
	}
}

// dns prints list, match and host of IPv4.
func dns(p *Plan) string {
	f := &p.Boot.Fwd.V4
	return fmt.Sprintf("%v D %s H %s", p.Boot.DNS4, f.DNSMatch, f.DNSHost)
}

func TestResolve_DNS_ListMatchAndHost(t *testing.T) {
	stub := func(servers ...string) *Host {
		h := usual()
		h.Resolv.Servers4, h.Resolv.Servers6 = ips(servers...), nil
		return h
	}
	const none = "nameserver"
	for _, c := range []struct {
		h    *Host
		line string
		want string
		warn bool
	}{
		{usual(), "pasta", "[203.0.113.53] D  H 203.0.113.53", false},
		{stub("127.0.0.53"), "pasta", "[198.51.100.1] D 198.51.100.1 H 127.0.0.53", false},
		{stub("127.0.0.53"), "pasta --no-map-gw", "[] D  H 127.0.0.53", true},
		{stub("127.0.0.53"), "pasta --no-map-gw --dns-forward 169.254.1.1", "[169.254.1.1] D 169.254.1.1 H 127.0.0.53", false},
		{stub("127.0.0.53", "127.0.0.54", "203.0.113.1"), "pasta", "[198.51.100.1 203.0.113.1] D 198.51.100.1 H 127.0.0.53", false},
		{stub("0.0.0.0"), "pasta", "[198.51.100.1] D 198.51.100.1 H 127.0.0.1", false},
		{stub("198.51.100.1"), "pasta", "[198.51.100.1] D 198.51.100.1 H 198.51.100.1", false},
		{stub("192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"), "pasta", "[192.0.2.1 192.0.2.2 192.0.2.3] D  H 192.0.2.1", false},
		{usual(), "pasta -D 1.1.1.1 --dns-forward 169.254.1.1", "[1.1.1.1] D 169.254.1.1 H 203.0.113.53", false},
		{stub(), "pasta -D 1.1.1.1 --dns-forward 169.254.1.1", "[1.1.1.1] D 169.254.1.1 H ", false},
		{usual(), "pasta -D none --dns-forward 169.254.1.1", "[] D 169.254.1.1 H 203.0.113.53", false},
		{usual(), "pasta -D 127.0.0.1", "[127.0.0.1] D  H 203.0.113.53", false},
		{usual(), "pasta --dns-host 127.0.0.1 --dns-forward 169.254.1.1", "[203.0.113.53] D 169.254.1.1 H 127.0.0.1", false},
		{stub(), "pasta", "[] D  H ", true},
		{stub(), "pasta --splice-only", "[] D  H ", false},
	} {
		p := plan(t, c.h, c.line)
		if got := dns(p); got != c.want {
			t.Errorf("%s: %s, want %s", c.line, got, c.want)
		}
		if got := strings.Contains(messages(p), none); got != c.warn {
			t.Errorf("%s: warned %v: %s", c.line, got, messages(p))
		}
	}
	if p := plan(t, usual(), "pasta -D 1.1.1.1"); len(p.Boot.DNS6) != 1 || p.Boot.DNS6[0] != ip("2001:db8::53") {
		t.Errorf("IPv6 list beside -D of IPv4: %v", p.Boot.DNS6)
	}
	p := plan(t, stub("127.0.0.53"), "pasta --no-map-gw")
	if a, ok := p.Boot.Fwd.Outbound(fwd.ProtoUDP, &p.Boot.Fwd.V4.Gateway, 53); !ok || a != ip("198.51.100.1") {
		t.Errorf("query to the gateway with --no-map-gw goes to %s", a)
	}
	p = plan(t, stub("127.0.0.53"), "pasta")
	if a, _ := p.Boot.Fwd.Outbound(fwd.ProtoUDP, &p.Boot.Fwd.V4.Gateway, 53); a != ip("127.0.0.53") {
		t.Errorf("query to the gateway goes to %s", a)
	}
	if a, _ := p.Boot.Fwd.Outbound(fwd.ProtoTCP, &p.Boot.Fwd.V4.Gateway, 80); a != ip("127.0.0.1") {
		t.Errorf("TCP to the gateway goes to %s", a)
	}
}

func TestResolve_Search_OptionsBeforeFile(t *testing.T) {
	for line, want := range map[string][]string{"pasta": {"example.com"}, "pasta -S none": nil, "pasta -S a -S none -S b": {"b"}, "pasta --splice-only": nil} {
		if p := plan(t, usual(), line); !slices.Equal(p.Boot.Search, want) {
			t.Errorf("%s: %v", line, p.Boot.Search)
		}
	}
}

func TestResolve_Switches_ImplyEachOther(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"pasta", "ndp ra icmp splice"},
		{"pasta --config-net", "ndp icmp splice config"},
		{"pasta --no-icmp", "splice"},
		{"pasta --no-ndp", "icmp splice"},
		{"pasta --no-ra", "ndp icmp splice"},
		{"pasta --no-splice", "ndp ra icmp"},
		{"pasta --splice-only --config-net", "splice only lo"},
		{"pasta --host-lo-to-ns-lo", "ndp ra icmp splice lo"},
		{"pasta --dhcp-dns --dhcp-search", "ndp ra icmp splice dns search"},
		{"pasta -4", "icmp splice"},
	} {
		b := &plan(t, usual(), c.line).Boot
		var got []string
		for _, f := range []struct {
			on   bool
			name string
		}{{b.NDP, "ndp"}, {b.RA, "ra"}, {b.Fwd.ICMP, "icmp"}, {b.Fwd.Splice, "splice"}, {b.Fwd.SpliceOnly, "only"}, {b.Fwd.HostLoToNsLo, "lo"},
			{b.ConfigNet, "config"}, {b.SendDNS, "dns"}, {b.SendSearch, "search"}} {
			if f.on {
				got = append(got, f.name)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %s", c.line, got, c.want)
		}
	}
}

func TestResolve_Rules_DefaultsAndOrder(t *testing.T) {
	for _, c := range []struct {
		line     string
		host, ns int
	}{
		{"pasta", 4, 4}, {"pasta -t none", 2, 4}, {"pasta -t none -u none -T none -U none", 0, 0}, {"pasta -t 22", 3, 4}, {"pasta --no-tcp", 2, 2},
		{"pasta --no-tcp --no-udp", 0, 0}, {"pasta --no-tcp -t none", 2, 2}, {"pasta -t none -t 2000 -u none", 1, 4}, {"pasta -u 2000 -t none", 1, 4}, {"pasta --splice-only", 4, 4},
	} {
		p := plan(t, usual(), c.line)
		if len(p.Boot.Host) != c.host || len(p.Boot.Ns) != c.ns {
			t.Errorf("%s: %d and %d rules, want %d and %d", c.line, len(p.Boot.Host), len(p.Boot.Ns), c.host, c.ns)
		}
	}
	if p := plan(t, usual(), "pasta -t 22"); p.Boot.Host[0].First != 22 || p.Boot.Host[1].Proto != fwd.ProtoUDP || p.Boot.Host[1].Flags&fwd.RuleScan == 0 {
		t.Errorf("the default does not stand behind the given: %v", &p.Boot.Host[0])
	}
}

func TestResolve_Refused_WithReason(t *testing.T) {
	noV6 := usual()
	noV6.HasIPv6 = false
	no4 := usual()
	no4.V4 = &host.Template{IfIndex: 3, IfName: "e1"}
	emptyShell := usual()
	emptyShell.Shell = ""
	for _, c := range []struct {
		h          *Host
		line, want string
	}{
		{noV6, "pasta -6", "no IPv6"}, {usual(), "pasta --no-tcp -t 2000", "protocol is off"}, {usual(), "pasta --no-udp -U 2000", "protocol is off"}, {usual(), "pasta -4 -t ::1/2000", "family that is off"},
		{usual(), "pasta -t 2000 -t none", "none"}, {usual(), "pasta -t 2000 -t 2000", "conflict"}, {usual(), "pasta -4 --outbound-if6 eth0", "off"}, {no4, "pasta --outbound-if4 e1", "no address"},
		{usual(), "pasta -T 127.0.0.1/2000", "-T 127.0.0.1/2000"}, {emptyShell, "pasta", "SHELL is empty"}, {usual(), "pasta -t 2000,", "Invalid port specifier '2000,'"},
	} {
		p, err := Resolve(parsed(t, c.line), c.h)
		if p != nil || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.line, err, c.want)
		}
	}
}

func TestResolve_Target_NamespaceOrCommand(t *testing.T) {
	noShell := usual()
	noShell.ShellSet = false
	for _, c := range []struct {
		h    *Host
		line string
		want Target
	}{
		{usual(), "pasta sh -c x", Target{Command: []string{"sh", "-c", "x"}, Program: "sh"}},
		{usual(), "pasta --netns-only true", Target{Command: []string{"true"}, Program: "true", NetnsOnly: true}},
		{usual(), "pasta", Target{Command: []string{"-/bin/bash"}, Program: "/bin/bash"}},
		{noShell, "pasta", Target{Command: []string{"-/bin/sh"}, Program: "/bin/sh"}},
		{usual(), "pasta 123", Target{NetNS: "/proc/123/ns/net", UserNS: "/proc/123/ns/user"}},
		{usual(), "pasta --netns-only 123", Target{NetNS: "/proc/123/ns/net"}},
		{usual(), "pasta --userns /u 123", Target{NetNS: "/proc/123/ns/net", UserNS: "/u"}},
		{usual(), "pasta --netns x", Target{NetNS: "/run/netns/x"}},
		{usual(), "pasta --netns /x --userns /u", Target{NetNS: "/x", UserNS: "/u"}},
	} {
		if p := plan(t, c.h, c.line); fmt.Sprint(p.Target) != fmt.Sprint(c.want) {
			t.Errorf("%s: %+v", c.line, p.Target)
		}
	}
}

func TestResolve_TapName_FromOptionThenTemplates(t *testing.T) {
	split := usual()
	split.V6.IfName = "e1"
	only6 := usual()
	only6.V4 = nil
	only6.V6.IfName = "e1"
	for _, c := range []struct {
		h          *Host
		line, want string
	}{
		{usual(), "pasta", "eth0"}, {usual(), "pasta -I myname", "myname"}, {split, "pasta", "eth0"}, {split, "pasta -6", "e1"}, {only6, "pasta", "e1"}, {loOnly(), "pasta", "tap0"}, {usual(), "pasta --splice-only", ""},
	} {
		if p := plan(t, c.h, c.line); p.TapName != c.want {
			t.Errorf("%s: %q, want %q", c.line, p.TapName, c.want)
		}
	}
	if p := plan(t, usual(), "pasta --ns-mac-addr 02:00:00:00:00:01"); p.TapMAC.String() != "02:00:00:00:00:01" || p.Boot.OurMAC != ourMAC {
		t.Errorf("tap %s, our %s", p.TapMAC, p.Boot.OurMAC)
	}
}

func TestResolve_MTU_DefaultAndWarnings(t *testing.T) {
	for _, c := range []struct {
		line string
		mtu  uint32
		warn string
	}{{"pasta", 65520, ""}, {"pasta -m 0", 0, ""}, {"pasta -m 1000", 1000, "IPv6"}, {"pasta -m 60", 60, "IPv4"}, {"pasta -4 -m 1000", 1000, ""}} {
		p := plan(t, usual(), c.line)
		if got := messages(p); p.Boot.MTU != c.mtu || strings.Contains(got, "too small") != (c.warn != "") || !strings.Contains(got, c.warn) {
			t.Errorf("%s: %d, %s", c.line, p.Boot.MTU, got)
		}
	}
}

// Every plan must fit the boot message.
func TestResolve_Boot_SurvivesItsCodec(t *testing.T) {
	for _, l := range []string{"pasta", "pasta --config-net -a 10.1.1.1 -t 22:23,80-90,~85 -S a -H h --fqdn h.example.org", "pasta --splice-only", "pasta -D 192.0.2.1 -o 127.0.0.1"} {
		p := plan(t, usual(), l)
		b, err := ipc.EncodeBoot(&p.Boot)
		if err != nil {
			t.Fatal(err)
		}
		back, err := ipc.ParseBoot(b)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ipc.EncodeBoot(back)
		if err != nil || string(again) != string(b) {
			t.Errorf("%s: %v", l, err)
		}
	}
}

func TestResolve_Summary_LabelsInOrder(t *testing.T) {
	p := plan(t, usual(), "pasta -t 22 -u none -T none -U none --dhcp-dns --netns x")
	want := `Template interface: eth0 (IPv4), eth0 (IPv6)
Namespace interface: eth0
MAC:
    host: 9a:55:9a:55:9a:55
NAT to host 127.0.0.1: 198.51.100.1
DHCP:
    assign: 198.51.100.10
    mask: 255.255.255.0
    router: 198.51.100.1
DNS:
    203.0.113.53
DNS search list:
    example.com
NAT to host ::1: fe80::100
NDP/DHCPv6:
    assign: 2001:db8:9::10
    router: fe80::100
    our link-local: fe80::100
DNS:
    2001:db8::53
DNS search list:
    example.com
Inbound forwarding rules (HOST):
    TCP [*]:22  =>  22 `
	if got := strings.Join(p.Summary, "\n"); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if p := plan(t, usual(), "pasta true"); p.Summary != nil {
		t.Error("summary printed to the command's terminal")
	}
	if p := plan(t, usual(), "pasta -d true"); p.Summary == nil {
		t.Error("no summary with -d")
	}
}
