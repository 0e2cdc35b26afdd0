// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"passt/dataplane/wire"
	"passt/internal/sys"
	"passt/internal/sys/priv"
)

// withTap runs f with a tap in a namespace of its own.
func withTap(t *testing.T, o TapOptions, f func(tap *Tap)) {
	t.Helper()
	fresh(t, func() {
		tap, err := OpenTap(o)
		if err != nil {
			t.Errorf("OpenTap: %v", err)
			return
		}
		defer syscall.Close(tap.FD)
		f(&tap)
	})
}

func TestOpenTap_OptionsAndRefusals(t *testing.T) {
	if !namespaced(t) {
		return
	}
	mac := wire.MAC{0x52, 0x54, 0, 0x12, 0x34, 0x56}
	withTap(t, TapOptions{Name: "abcdefghijklmno", MAC: mac, MTU: 1400}, func(tap *Tap) {
		s := sh(t, "ip link show dev abcdefghijklmno")
		if !strings.Contains(s, "link/ether "+mac.String()) || !strings.Contains(s, "mtu 1400") || strings.Contains(s, "UP") || tap.MAC != mac {
			t.Errorf("%+v\n%s", tap, s)
		}
		if tap.VnetHdr && tap.Offloads == 0 {
			t.Logf("no offload on this kernel")
		}
		if _, err := OpenTap(TapOptions{Name: tap.Name}); !errors.Is(err, sys.Errno(syscall.EBUSY)) {
			t.Errorf("name in use: %v", err)
		}
	})
	withTap(t, TapOptions{Name: "tap%d"}, func(tap *Tap) {
		if tap.Name != "tap0" || tap.MAC.IsZero() {
			t.Errorf("completed name: %+v", tap)
		}
	})
	fresh(t, func() {
		sh(t, veth+"veth e0")
		for _, o := range []TapOptions{{Name: "e0"}, {Name: "abcdefghijklmnop"}, {Name: "a/b"}, {}, {Name: "t0", MAC: wire.Broadcast}} {
			if tap, err := OpenTap(o); err == nil || tap.FD != -1 {
				t.Errorf("%+v: %+v %v", o, tap, err)
			}
		}
		if s := sh(t, "ip -o link"); strings.Contains(s, "t0@") || strings.Contains(s, " t0:") {
			t.Errorf("the tap of a refused MAC is still there:\n%s", s)
		}
	})
}

func TestConfigure_IPv6Off_IPv4Works(t *testing.T) {
	if !namespaced(t) {
		return
	}
	withTap(t, TapOptions{Name: "guest0"}, func(tap *Tap) {
		sh(t, "sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.guest0.disable_ipv6=1")
		c := copyConfig(nil, nil)
		c.IfIndex = tap.IfIndex
		c.V6.Addrs = []Address{{Addr: mustAddr("2001:db8::5"), Prefix: 64}}
		notes, ll, err := Configure(c)
		if err != nil || !ll.IsZero() || len(notes) != 1 || !strings.Contains(notes[0], "IPv6 is off") {
			t.Errorf("%v %s %q", err, ll, notes)
		}
		if s := sh(t, "ip r"); !strings.Contains(s, "default via 169.254.2.2 dev guest0") {
			t.Errorf("routes:\n%s", s)
		}
	})
}

func TestConfigure_LinkDownAndUp_LinkLocalReturns(t *testing.T) {
	if !namespaced(t) {
		return
	}
	withTap(t, TapOptions{Name: "guest0"}, func(tap *Tap) {
		c := copyConfig(nil, nil)
		c.IfIndex = tap.IfIndex
		_, ll, err := Configure(c)
		if err != nil {
			t.Error(err)
		}
		if s := sh(t, "ip link set guest0 down; ip link set guest0 up; ip -6 a show dev guest0"); !strings.Contains(s, "inet6 "+ll.String()+"/64") {
			t.Errorf("the kernel makes no link-local address any more:\n%s", s)
		}
	})
}

func TestConfigure_RefusedRoute_OthersAndDefaultInstalled(t *testing.T) {
	if !namespaced(t) {
		return
	}
	// An encapsulation type that no kernel has, on a default route: the plain default must stand in.
	encap := at(21, 0xff, 0x7f)
	route := func(b []byte) Route { r, _, _ := parseRoute(b, inet); return r }
	withTap(t, TapOptions{Name: "guest0"}, func(tap *Tap) {
		c := NSConfig{IfIndex: tap.IfIndex, V4: FamilyConfig{On: true, Addrs: []Address{{Addr: mustAddr("198.51.100.10"), Prefix: 24}}, SrcIfIndex: 2,
			Gateway: mustAddr("198.51.100.1"), CopyRoutes: []Route{
				route(rtmsg(inet, 0, 3, 0, gw1, oif(2), encap, at(22, 0, 0, 0, 0))),
				route(rtmsg(inet, 24, 3, 0, at(rtaDst, 203, 0, 113, 0), gw1, oif(2))),
				route(rtmsg(inet, 24, 3, 0, at(rtaDst, 192, 0, 2, 0), at(rtaGateway, 10, 99, 99, 99), oif(2))),
			}}}
		notes, _, err := Configure(c)
		s := sh(t, "ip r")
		if err != nil || len(notes) > 1 || !strings.Contains(s, "default via 198.51.100.1 dev guest0") || !strings.Contains(s, "203.0.113.0/24 via") || strings.Contains(s, "192.0.2.0") {
			t.Errorf("%v %q\n%s", err, notes, s)
		}
	})
}

func TestDiscover_NoSuchInterface_Refused(t *testing.T) {
	if !namespaced(t) {
		return
	}
	fresh(t, func() {
		sh(t, veth+"veth e0")
		if _, _, _, err := Discover(Choice{Interface4: "nosuch", V4: true}); err == nil || !strings.Contains(err.Error(), "no interface nosuch") {
			t.Errorf("forced: %v", err)
		}
		if err := InterfaceExists("nosuch"); err == nil || !strings.Contains(err.Error(), "no interface nosuch") {
			t.Errorf("nosuch: %v", err)
		}
		if err := InterfaceExists("e0"); err != nil {
			t.Errorf("e0: %v", err)
		}
		if v4, v6, _, err := Discover(Choice{}); v4 != nil || v6 != nil || err != nil {
			t.Errorf("both families off: %v %v %v", v4, v6, err)
		}
		if !HasIPv6() {
			t.Log("this kernel has no IPv6")
		}
		if err := LoopbackUp(); err != nil {
			t.Error(err)
		}
	})
}

// TestExec_RefusalsAmongMany_EachKnown sends more than one batch and finds each answer at its request.
func TestExec_RefusalsAmongMany_EachKnown(t *testing.T) {
	if !namespaced(t) {
		return
	}
	fresh(t, func() {
		sh(t, veth+"veth e0; ip a a 198.51.100.10/24 dev e0")
		n, err := priv.DialRoute()
		if err != nil {
			t.Error(err)
			return
		}
		defer n.Close()
		l, err := linkByName(n, "e0")
		if err != nil {
			t.Error(err)
		}
		var reqs []priv.NlMessage
		for i := range 1000 {
			dst, gw := wire.Addr4(10, 0, byte(i>>8), byte(i)), mustAddr("198.51.100.1")
			if i%3 == 0 {
				gw = mustAddr("203.0.113.1") // not reachable
			}
			reqs = append(reqs, newRouteRequest(l.index, inet, &dst, &gw))
		}
		res, err := n.Exec(reqs)
		if err != nil || len(res) != len(reqs) {
			t.Errorf("%d answers, %v", len(res), err)
		}
		for i, e := range res {
			if want := i%3 == 0; (e == sys.ENETUNREACH) != want || !want && e != 0 {
				t.Errorf("request %d: %v", i, e)
				break
			}
		}
		if e := n.Do(newRoute, flagCreate|flagExcl, reqs[1].Body); !exists(e) {
			t.Errorf("again: %v", e)
		}
		routes, err := dumpRoutes(n, inet)
		if err != nil || len(routes) != 1000-334+1 {
			t.Errorf("%d routes, %v", len(routes), err)
		}
	})
}

func exists(err error) bool { return errors.Is(err, sys.Errno(eexist)) }
