// SPDX-License-Identifier: Apache-2.0

package host

import (
	"testing"

	"passt/dataplane/wire"
)

func TestChoose_OrderOfRoutes(t *testing.T) {
	lan, ll := mustAddr("198.51.100.0"), mustAddr("169.254.0.0")
	for _, c := range []struct {
		name    string
		routes  []Route
		index   int
		several bool
	}{
		{"none", nil, 0, false},
		{"only lo", []Route{{IfIndex: 1}}, 0, false},
		{"only link-local", []Route{{IfIndex: 2, Dst: ll, Prefix: 16}}, 0, false},
		{"default after others", []Route{{IfIndex: 2, Dst: lan, Prefix: 24}, {IfIndex: 3}}, 3, false},
		{"first of equal defaults", []Route{{IfIndex: 2, Priority: 5}, {IfIndex: 3, Priority: 5}}, 2, true},
		{"lower metric later", []Route{{IfIndex: 2, Priority: 5}, {IfIndex: 3, Priority: 4}}, 3, true},
		{"two of one interface", []Route{{IfIndex: 2, Priority: 5}, {IfIndex: 2, Priority: 4}}, 2, false},
		{"no default", []Route{{IfIndex: 4, Dst: ll, Prefix: 16}, {IfIndex: 2, Dst: lan, Prefix: 24}, {IfIndex: 3, Dst: lan, Prefix: 24}}, 2, true},
	} {
		if index, several := choose(c.routes); index != c.index || several != c.several {
			t.Errorf("%s: %d %v, want %d %v", c.name, index, several, c.index, c.several)
		}
	}
}

func TestPick_AddressAndLinkLocal(t *testing.T) {
	a := func(s string, prefix uint8, flags uint32, scope uint8) Address {
		return Address{Addr: mustAddr(s), Prefix: prefix, Flags: flags, Scope: scope}
	}
	for _, c := range []struct {
		name, gateway, src string
		addrs              []Address
		want, ll           string
	}{
		{"first primary", "", "", []Address{a("10.0.0.1", 24, ifafSecondary, 0), a("10.0.0.2", 24, 0, 0), a("10.0.0.3", 24, 0, 0)}, "10.0.0.2", ""},
		{"of the gateway's network", "10.1.0.1", "", []Address{a("10.9.9.9", 32, 0, 0), a("10.1.0.5", 24, 0, 0)}, "10.1.0.5", ""},
		{"preferred source", "10.1.0.1", "10.9.9.9", []Address{a("10.1.0.5", 24, 0, 0), a("10.9.9.9", 32, 0, 0)}, "10.9.9.9", ""},
		{"preferred source deprecated", "", "10.9.9.9", []Address{a("10.1.0.5", 24, 0, 0), a("10.9.9.9", 32, ifafDeprecated, 0)}, "10.1.0.5", ""},
		{"link scope last", "", "", []Address{a("10.0.0.1", 24, 0, scopeLink), a("10.0.0.2", 24, ifafSecondary, 0)}, "10.0.0.2", ""},
		{"link scope alone", "", "", []Address{a("10.0.0.1", 24, 0, scopeLink)}, "10.0.0.1", ""},
		{"only deprecated", "", "", []Address{a("10.0.0.1", 24, ifafDeprecated, 0)}, "", ""},
		{"IPv6 longest", "", "", []Address{a("2001:db8::5", 64, 0, 0), a("2001:db8::6", 128, 0, 0), a("2001:db8::7", 128, 0, 0)}, "2001:db8::6", ""},
		{"IPv6 not temporary", "", "", []Address{a("2001:db8::6", 128, ifafTemporary, 0), a("2001:db8::5", 64, 0, 0)}, "2001:db8::5", ""},
		{"IPv6 host scope", "", "", []Address{a("2001:db8::6", 128, 0, 254)}, "", ""},
		{"IPv6 own link-local", "2001:db8::1", "", []Address{a("fe80::5", 64, 0, scopeLink), a("2001:db8::5", 64, 0, 0)}, "2001:db8::5", "fe80::5"},
		{"IPv6 duplicate link-local", "", "", []Address{a("fe80::5", 64, ifafDADFailed, scopeLink), a("fe80::6", 64, 0, scopeLink)}, "", "fe80::6"},
		{"IPv6 gateway's link-local", "fe80::1", "", []Address{a("fe80::5", 64, 0, scopeLink), a("2001:db8::5", 64, 0, 0)}, "2001:db8::5", "fe80::1"},
	} {
		var src wire.Addr
		t4 := Template{Addresses: c.addrs}
		if c.gateway != "" {
			t4.Gateway = mustAddr(c.gateway)
		}
		if c.src != "" {
			src = mustAddr(c.src)
		}
		family := byte(inet6)
		if c.addrs[0].Addr.Is4() {
			family = inet
		}
		if t4.pick(family, &src); t4.Addr.String() != c.want || t4.LinkLocal.String() != c.ll {
			t.Errorf("%s: %s %s, want %s %s", c.name, t4.Addr, t4.LinkLocal, c.want, c.ll)
		}
	}
}

func TestTake_GatewayOfTheBestMetric(t *testing.T) {
	gw := func(s string) Route { return Route{IfIndex: 2, Gateway: mustAddr(s)} }
	bare, far, near, other := Route{IfIndex: 2}, gw("198.51.100.2"), gw("198.51.100.1"), gw("203.0.113.1")
	far.Priority, near.Priority, other.IfIndex, near.PrefSrc = 200, 100, 3, mustAddr("198.51.100.10")
	tt := Template{IfIndex: 2}
	src := tt.take([]Route{other, bare, far, near})
	if !tt.HasDefault || tt.Gateway != near.Gateway || src != near.PrefSrc || len(tt.Routes) != 3 {
		t.Errorf("%+v %s", tt, src)
	}
}
