// SPDX-License-Identifier: Apache-2.0

package host

import (
	"strings"
	"testing"
)

// scenario is a host, what must be found there, and what must (not) be seen in the namespace.
type scenario struct {
	name   string
	host   string // shell lines
	choice Choice
	v4, v6 string // "interface address/prefix gateway link-local", - for unset; "": no template
	has    []string
	hasNot []string
	change func(c *NSConfig) // what options do
}

func describe(t *Template) string {
	if t == nil {
		return ""
	}
	or := func(s string) string {
		if s == "" {
			return "-"
		}
		return s
	}
	ll := or(t.LinkLocal.String())
	if t.LinkLocal != t.Gateway && t.LinkLocal == linkLocal(t.MAC) {
		ll = "own"
	}
	a := or(t.Addr.String())
	if a != "-" {
		a += "/" + itoa(int(t.Prefix))
	}
	return t.IfName + " " + a + " " + or(t.Gateway.String()) + " " + ll
}

func itoa(n int) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + itoa(n%10)
}

var scenarios = []scenario{
	{name: "Spec1_Usual", host: "veth e0; ip a a 198.51.100.10/24 brd + dev e0; ip r a default via 198.51.100.1",
		v4: "e0 198.51.100.10/24 198.51.100.1 -", v6: "",
		has: []string{"mtu 65520", "inet 198.51.100.10/24 brd 198.51.100.255 scope global guest0", "valid_lft forever", "default via 198.51.100.1 dev guest0",
			"198.51.100.0/24 dev guest0 proto kernel scope link src 198.51.100.10", "inet6 fe80::", "UP,LOWER_UP", "fe80::/64 dev guest0 proto kernel metric 256"},
		hasNot: []string{"198.51.100.0/24 dev guest0 scope link"}},
	{name: "Spec2_LoopbackOnly", host: "ip link set lo up", v4: "", v6: "",
		has: []string{"inet 169.254.2.1/16 scope global guest0", "default via 169.254.2.2 dev guest0", "inet6 fe80::"}, hasNot: []string{"default via fe80"}},
	{name: "Spec2_LoopbackDown", host: "true", v4: "", v6: "", has: []string{"inet 169.254.2.1/16"}},
	{name: "Spec4_LowerMetricWins", host: `veth e0; veth e1; ip a a 198.51.100.10/24 dev e0; ip a a 203.0.113.10/24 dev e1
		ip r a default via 198.51.100.1 metric 200; ip r a default via 203.0.113.1 metric 100`,
		v4: "e1 203.0.113.10/24 203.0.113.1 -", has: []string{"default via 203.0.113.1 dev guest0 metric 100"}, hasNot: []string{"198.51.100"}},
	{name: "Spec5_EqualHeaviestHops_First", host: `veth e0; ip a a 198.51.100.10/24 dev e0
		ip r a default nexthop via 198.51.100.1 weight 1 nexthop via 198.51.100.2 weight 5 nexthop via 198.51.100.3 weight 5`,
		v4: "e0 198.51.100.10/24 198.51.100.2 -", has: []string{"nexthop via 198.51.100.2 dev guest0 weight 5", "nexthop via 198.51.100.1 dev guest0 weight 1"}},
	{name: "Spec6_HopsOverTwoInterfaces", host: `veth e0; veth e1; ip a a 198.51.100.10/24 dev e0; ip a a 203.0.113.10/24 dev e1
		ip r a default nexthop via 198.51.100.1 weight 1 nexthop via 203.0.113.1 weight 5`,
		v4: "e1 203.0.113.10/24 203.0.113.1 -", has: []string{"default via 203.0.113.1 dev guest0"}, hasNot: []string{"nexthop", "198.51.100"}},
	{name: "Spec6_LighterHopForced", host: `veth e0; veth e1; ip a a 198.51.100.10/24 dev e0; ip a a 203.0.113.10/24 dev e1
		ip r a default nexthop via 198.51.100.1 weight 1 nexthop via 203.0.113.1 weight 5`, choice: Choice{Interface4: "e0"},
		v4: "e0 198.51.100.10/24 198.51.100.1 -", has: []string{"default via 198.51.100.1 dev guest0"}, hasNot: []string{"203.0.113"}},
	{name: "Spec7_ServiceAddress", host: `veth e0; ip a a 10.9.9.9/32 dev e0; ip a a 10.1.0.5/24 dev e0; ip a a 10.1.0.6/24 dev e0
		ip a a 10.8.8.8/24 dev e0 preferred_lft 0; ip a a 10.7.7.7/24 dev e0 scope link; ip r a default via 10.1.0.1`,
		v4: "e0 10.1.0.5/24 10.1.0.1 -", has: []string{"inet 10.9.9.9/32", "inet 10.1.0.5/24 scope global guest0", "inet 10.1.0.6/24 scope global secondary"},
		hasNot: []string{"inet 10.8.8.8", "inet 10.7.7.7"}},
	{name: "Spec4_PreferredSource", host: `veth e0; ip a a 10.1.0.5/24 dev e0; ip a a 10.9.9.9/32 dev e0; ip r a default via 10.1.0.1 src 10.9.9.9`,
		v4: "e0 10.9.9.9/32 10.1.0.1 -", has: []string{"default via 10.1.0.1 dev guest0"}},
	{name: "Spec8_LongestPrefix", host: `veth e0; ip a a 2001:db8::5/64 dev e0 nodad; ip a a 2001:db8::6/128 dev e0 nodad; ip -6 r a default via fe80::100 dev e0`,
		v6: "e0 2001:db8::6/128 fe80::100 fe80::100", has: []string{"inet6 2001:db8::5/64", "inet6 2001:db8::6/128", "default via fe80::100 dev guest0"}},
	{name: "Spec8_GlobalGateway_OwnLinkLocal", host: `veth e0; ip a a 2001:db8::5/64 dev e0 nodad; ip -6 r a default via 2001:db8::1 dev e0`,
		v6: "e0 2001:db8::5/64 2001:db8::1 own", has: []string{"default via 2001:db8::1 dev guest0"}},
	{name: "Spec9_DefaultWithoutGateway", host: "veth e0; ip a a 198.51.100.10/24 dev e0; ip r a default dev e0",
		v4: "e0 198.51.100.10/24 - -", has: []string{"default dev guest0 scope link"}},
	{name: "Spec10_FamiliesApart", host: `veth e0; veth e1; ip a a 198.51.100.10/24 dev e0; ip r a default via 198.51.100.1
		ip a a 2001:db8::5/64 dev e1 nodad; ip -6 r a default via fe80::100 dev e1`,
		v4: "e0 198.51.100.10/24 198.51.100.1 -", v6: "e1 2001:db8::5/64 fe80::100 fe80::100"},
	{name: "Spec11_ForcedWithoutIPv4", host: `veth e0; veth e1; ip a a 198.51.100.10/24 dev e0; ip r a default via 198.51.100.1
		ip a a 2001:db8::5/64 dev e1 nodad`, choice: Choice{Interface4: "e1", Interface6: "e1"},
		v4: "e1 - - -", v6: "e1 2001:db8::5/64 - own", has: []string{"inet 169.254.2.1/16"}},
	{name: "Spec13_GatewayOutsidePrefix", host: "veth e0; ip a a 198.51.100.10/24 dev e0", v4: "e0 198.51.100.10/24 - -",
		change: func(c *NSConfig) {
			c.V4 = FamilyConfig{On: true, Addrs: []Address{{Addr: mustAddr("10.1.2.3"), Prefix: 8}}, Gateway: mustAddr("198.51.100.77"), DefaultRoute: true}
			c.V6 = FamilyConfig{On: true, Addrs: []Address{{Addr: mustAddr("2001:db8::3"), Prefix: 64}}, Gateway: mustAddr("2001:db8:1::1"), DefaultRoute: true}
		},
		has: []string{"198.51.100.77 dev guest0 scope link", "default via 198.51.100.77 dev guest0", "2001:db8:1::1 dev guest0", "default via 2001:db8:1::1 dev guest0"}},
	{name: "Spec16_MTULeftAlone", host: "true", change: func(c *NSConfig) { c.MTU = 0 }, has: []string{"mtu 1500"}},
	{name: "SmallMTU_NoIPv6", host: "true", change: func(c *NSConfig) { c.MTU = 1000 },
		has: []string{"mtu 1000", "inet 169.254.2.1/16", "No IPv6 in the namespace"}, hasNot: []string{"inet6"}},
	{name: "B067_NexthopObjects", host: `veth e0; ip a a 198.51.100.10/24 dev e0; ip nexthop add id 10 via 198.51.100.1 dev e0
		ip nexthop add id 11 via 198.51.100.2 dev e0; ip nexthop add id 12 group 10,3/11,7; ip r a default nhid 10; ip r a 203.0.113.0/24 nhid 12`,
		v4: "e0 198.51.100.10/24 198.51.100.1 -", has: []string{"default via 198.51.100.1 dev guest0", "203.0.113.0/24", "nexthop via 198.51.100.2 dev guest0 weight 7"}, hasNot: []string{"nhid"}},
	{name: "B067_NexthopObjectsWithoutHops", host: `veth e0; ip a a 198.51.100.10/24 dev e0; ip a a 2001:db8::5/64 dev e0 nodad; sysctl -qw net.ipv4.nexthop_compat_mode=0
		ip nexthop add id 10 via 198.51.100.1 dev e0; ip nexthop add id 13 via fe80::100 dev e0
		ip nexthop add id 11 via 198.51.100.2 dev e0; ip nexthop add id 12 group 10,3/11,7; ip r a default nhid 10; ip r a 203.0.113.0/24 nhid 12
		ip r a 192.0.2.0/24 nhid 13; ip -6 r a default nhid 13`,
		v4: "e0 198.51.100.10/24 198.51.100.1 -", v6: "e0 2001:db8::5/64 fe80::100 fe80::100",
		has: []string{"default via 198.51.100.1 dev guest0", "203.0.113.0/24", "nexthop via 198.51.100.2 dev guest0 weight 7", "192.0.2.0/24 via inet6 fe80::100 dev guest0",
			"default via fe80::100 dev guest0"}},
	{name: "B067_LinkDown", host: `veth e0; ip a a 198.51.100.10/24 dev e0; ip r a default via 198.51.100.1; ip link set pe0 down`,
		v4: "e0 198.51.100.10/24 198.51.100.1 -", has: []string{"default via 198.51.100.1 dev guest0"}, hasNot: []string{"linkdown", "dead"}},
	{name: "B070_PreferredSourceOtherAddress", host: `veth e0; ip a a 192.0.2.1/24 dev e0; ip r a default via 192.0.2.254; ip r a 203.0.113.0/24 via 192.0.2.254 src 192.0.2.1`,
		v4: "e0 192.0.2.1/24 192.0.2.254 -", change: func(c *NSConfig) { c.V4.Addrs = []Address{{Addr: mustAddr("10.0.2.100"), Prefix: 24}} },
		has: []string{"203.0.113.0/24 via 192.0.2.254 dev guest0", "default via 192.0.2.254", "192.0.2.0/24 dev guest0"}, hasNot: []string{"src 192.0.2.1"}},
	{name: "B071_Lifetimes", host: `veth e0; ip a a 198.51.100.10/24 dev e0 valid_lft 500 preferred_lft 400; ip r a default via 198.51.100.1
		ip a a 2001:db8::5/64 dev e0 nodad valid_lft 500 preferred_lft 400; ip -6 r a default via fe80::100 dev e0 expires 300`,
		v4: "e0 198.51.100.10/24 198.51.100.1 -", v6: "e0 2001:db8::5/64 fe80::100 fe80::100", has: []string{"default via fe80::100"}, hasNot: []string{"sec", "expires"}},
	{name: "B072_Tunnel", host: `ip link add t0 type veth peer name pt0; ip link set pt0 up; ip link set t0 mtu 1420 up; ip a a 10.8.0.2/32 dev t0; ip r a default dev t0`,
		v4: "t0 10.8.0.2/32 - -", has: []string{"inet 10.8.0.2/32", "default dev guest0 scope link"}},
	{name: "B072_Peer", host: `veth t0; ip a a 10.8.0.6 peer 10.8.0.5/32 dev t0; ip r a default via 10.8.0.5`,
		v4: "t0 10.8.0.6/32 10.8.0.5 -", has: []string{"inet 10.8.0.6 peer 10.8.0.5/32", "default via 10.8.0.5 dev guest0", "10.8.0.5 dev guest0 proto kernel"}},
	{name: "B073_OnLinkGateway", host: `veth e0; ip a a 192.0.2.1/32 dev e0; ip r a 172.31.1.1 dev e0; ip r a default via 172.31.1.1 dev e0 onlink`,
		v4: "e0 192.0.2.1/32 172.31.1.1 -", has: []string{"default via 172.31.1.1 dev guest0 onlink", "172.31.1.1 dev guest0 scope link"}},
	{name: "B075_NoDefault", host: `veth e0; veth e1; ip a a 198.51.100.10/24 dev e1; ip r a 203.0.113.0/24 via 198.51.100.1`,
		v4: "e1 198.51.100.10/24 - -", has: []string{"203.0.113.0/24 via 198.51.100.1 dev guest0"}, hasNot: []string{"default via"}},
	{name: "B077_LoopbackRoutes", host: `ip link set lo up; ip -6 r a local 2001:db8:1::/64 dev lo; ip -6 r a 2001:db8:2::/64 dev lo; ip r a 203.0.113.0/24 dev lo`, v4: "", v6: ""},
	{name: "NoPrefixRoute_MetricKept", host: `veth e0; ip a a 198.51.100.10/24 dev e0 noprefixroute; ip r a 198.51.100.0/24 dev e0 proto kernel scope link src 198.51.100.10 metric 100
		ip r a default via 198.51.100.1 dev e0 proto dhcp metric 100`,
		v4: "e0 198.51.100.10/24 198.51.100.1 -", has: []string{"198.51.100.0/24 dev guest0 proto kernel scope link metric 100", "default via 198.51.100.1 dev guest0 proto dhcp metric 100", "noprefixroute"}},
	{name: "AddressMetric_Kept", host: `veth e0; ip a a 198.51.100.10/24 dev e0 metric 50; ip r a default via 198.51.100.1`,
		v4: "e0 198.51.100.10/24 198.51.100.1 -", has: []string{"198.51.100.0/24 dev guest0 proto kernel scope link src 198.51.100.10 metric 50"}},
	{name: "AppendedRoutes_BothCopied", host: `veth e0; ip a a 198.51.100.10/24 dev e0; ip r a default via 198.51.100.1; ip r append default via 198.51.100.2`,
		v4: "e0 198.51.100.10/24 198.51.100.1 -", has: []string{"default via 198.51.100.1 dev guest0", "default via 198.51.100.2 dev guest0"}},
	{name: "GatewayRouteBehindDefault", host: `veth e0; ip a a 192.0.2.1/32 dev e0; ip r a 10.0.0.1 dev e0; ip r a 10.0.0.0/8 via 10.0.0.1; ip r a default via 10.0.0.1`,
		v4: "e0 192.0.2.1/32 10.0.0.1 -", has: []string{"10.0.0.0/8 via 10.0.0.1 dev guest0", "default via 10.0.0.1 dev guest0"}},
}

// TestScenarios_FoundAndConfigured makes each host in a network namespace, looks at it, and configures a second namespace.
func TestScenarios_FoundAndConfigured(t *testing.T) {
	if !namespaced(t) {
		return
	}
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			fresh(t, func() { s.run(t) })
		})
	}
}

func (s *scenario) run(t *testing.T) {
	sh(t, veth+s.host)
	s.choice.V4, s.choice.V6 = true, true
	v4, v6, notes, err := Discover(s.choice)
	if err != nil {
		t.Errorf("Discover: %v", err)
		return
	}
	if got := describe(v4); got != s.v4 {
		t.Errorf("IPv4 template %q, want %q", got, s.v4)
	}
	if got := describe(v6); got != s.v6 {
		t.Errorf("IPv6 template %q, want %q", got, s.v6)
	}
	c := copyConfig(v4, v6)
	if s.change != nil {
		s.change(&c)
	}
	got := configured(t, c)
	if s.name != "SmallMTU_NoIPv6" {
		if !strings.Contains(got.addr6, "inet6 "+got.ll.String()+"/64 scope link") {
			t.Errorf("link-local %s is not on the tap", got.ll)
		}
		if len(got.notes) > 0 {
			t.Errorf("notes %q", got.notes)
		}
	}
	text := got.link + got.addr4 + got.addr6 + got.route4 + got.route6 + strings.Join(got.notes, "\n")
	for _, w := range s.has {
		if !strings.Contains(text, w) {
			t.Errorf("not there: %s", w)
		}
	}
	for _, w := range append(s.hasNot, "tentative") {
		if strings.Contains(text, w) {
			t.Errorf("there: %s", w)
		}
	}
	if t.Failed() {
		t.Logf("notes %q\n%s\nhost:\n%s", notes, text, sh(t, "ip a; ip r; ip -6 r"))
	}
}
