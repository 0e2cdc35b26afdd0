// SPDX-License-Identifier: Apache-2.0

package host

import (
	"bytes"
	"reflect"
	"testing"
)

// message builders: what the kernel would dump.

func rtmsg(family byte, prefix int, protocol byte, flags uint32, attrs ...[]byte) []byte {
	b := []byte{family, byte(prefix), 0, 0, tableMain, protocol, scopeUniverse, unicast, 0, 0, 0, 0}
	ne.PutUint32(b[8:], flags)
	return append(b, bytes.Join(attrs, nil)...)
}

func at(kind uint16, data ...byte) []byte { return put(nil, kind, data) }

func oif(index uint32) []byte { return put(nil, rtaOIF, u32(index)) }

func nexthopBytes(index uint32, flags, weight byte, attrs ...[]byte) []byte {
	b := append([]byte{0, 0, flags, weight, 0, 0, 0, 0}, bytes.Join(attrs, nil)...)
	ne.PutUint16(b, uint16(len(b)))
	ne.PutUint32(b[4:], index)
	return b
}

func ifaddr(family, prefix, flags, scope byte, index uint32, attrs ...[]byte) []byte {
	b := []byte{family, prefix, flags, scope, 0, 0, 0, 0}
	ne.PutUint32(b[4:], index)
	return append(b, bytes.Join(attrs, nil)...)
}

var gw1, gw2 = at(rtaGateway, 198, 51, 100, 1), at(rtaGateway, 198, 51, 100, 2)

func multipath() []byte {
	return put(nil, rtaMultipath, bytes.Join([][]byte{
		nexthopBytes(3, rtnhDead, 9, at(rtaGateway, 203, 0, 113, 9)), nexthopBytes(2, 0, 4, gw1), nexthopBytes(3, rtnhOnlink, 4, gw2), nexthopBytes(2, 0, 0),
	}, nil))
}

func TestParseRoute_Fields(t *testing.T) {
	raw := rtmsg(inet, 24, 16, 0, at(rtaTable, u32(tableMain)...), at(rtaDst, 203, 0, 113, 0), at(rtaPriority, u32(100)...), at(rtaPrefSrc, 198, 51, 100, 10), gw1, oif(2))
	r, id, ok := parseRoute(raw, inet)
	if !ok || id != 0 || r.Prefix != 24 || r.Dst.String() != "203.0.113.0" || r.Priority != 100 || r.PrefSrc.String() != "198.51.100.10" ||
		r.Gateway.String() != "198.51.100.1" || r.IfIndex != 2 || r.Protocol != 16 || !r.usable() {
		t.Errorf("%+v %d %v", r, id, ok)
	}
}

func TestParseRoute_NotOurs_Refused(t *testing.T) {
	good := rtmsg(inet, 0, 3, 0, gw1, oif(2))
	for name, change := range map[string]func(b []byte){
		"family": func(b []byte) { b[0] = inet6 }, "blackhole": func(b []byte) { b[7] = 6 }, "local table": func(b []byte) { b[4] = 255 },
		"cached": func(b []byte) { ne.PutUint32(b[8:], rtmCloned) },
	} {
		b := bytes.Clone(good)
		change(b)
		if _, _, ok := parseRoute(b, inet); ok {
			t.Errorf("%s: taken", name)
		}
	}
	if _, _, ok := parseRoute(rtmsg(inet, 0, 3, 0, at(rtaTable, u32(1000)...), oif(2)), inet); ok {
		t.Error("table 1000: taken")
	}
	if r, _, _ := parseRoute(rtmsg(inet, 0, 3, 0, gw1, oif(1)), inet); r.usable() {
		t.Error("over lo: usable")
	}
}

func TestThrough_GatewayAndInterfaceOfOneHop(t *testing.T) {
	r, _, ok := parseRoute(rtmsg(inet, 0, 3, 0, multipath()), inet)
	if !ok || r.IfIndex != 2 || r.Gateway.String() != "198.51.100.1" {
		t.Errorf("heaviest living hop: %d %s", r.IfIndex, r.Gateway)
	}
	if _, gw, ok := r.through(3); !ok || gw.String() != "198.51.100.2" {
		t.Errorf("over 3: %s %v", gw, ok)
	}
	if _, _, ok := r.through(4); ok {
		t.Error("over 4: a hop")
	}
}

func TestRewrite_AttributesAndFlags(t *testing.T) {
	unknown := at(77, 1, 2, 3, 4)
	raw := rtmsg(inet, 24, 16, rtnhDead|16|8|rtnhOnlink|0x4000, at(rtaDst, 203, 0, 113, 0), at(rtaPrefSrc, 198, 51, 100, 10), unknown, gw1, oif(2),
		at(rtaNHID, u32(10)...), at(rtaExpires, u32(5)...), at(rtaCacheinfo, make([]byte, 32)...))
	want := rtmsg(inet, 24, 16, rtnhOnlink, at(rtaDst, 203, 0, 113, 0), unknown, gw1, oif(7))
	if got, ok := rewrite(raw, 2, 7); !ok || !bytes.Equal(got, want) {
		t.Errorf("%v % x\nwant % x", ok, got, want)
	}
	if _, ok := rewrite(raw, 3, 7); ok {
		t.Error("another interface: rewritten")
	}
}

func TestRewrite_Multipath_ForeignHopsDropped(t *testing.T) {
	raw := rtmsg(inet, 0, 3, 0, multipath())
	two := put(nil, rtaMultipath, append(nexthopBytes(7, 0, 4, gw1), nexthopBytes(7, 0, 0)...))
	if got, ok := rewrite(raw, 2, 7); !ok || !bytes.Equal(got, rtmsg(inet, 0, 3, 0, two)) {
		t.Errorf("two hops: %v % x", ok, got)
	}
	raw = rtmsg(inet, 0, 3, 0, put(nil, rtaMultipath, append(nexthopBytes(2, 0, 4, gw1), nexthopBytes(3, rtnhOnlink|16, 4, gw2)...)))
	if got, ok := rewrite(raw, 3, 7); !ok || !bytes.Equal(got, rtmsg(inet, 0, 3, rtnhOnlink, oif(7), gw2)) {
		t.Errorf("one hop: %v % x", ok, got)
	}
	if _, ok := rewrite(raw, 4, 7); ok {
		t.Error("no hop: rewritten")
	}
}

func TestParseAddress_Forms(t *testing.T) {
	a, ok := parseAddress(ifaddr(inet, 32, 0x80, 0, 2, at(ifaAddress, 10, 8, 0, 5), at(ifaLocal, 10, 8, 0, 6), at(ifaFlags, u32(0x280)...), at(ifaPriority, u32(50)...)))
	if want := (Address{Addr: mustAddr("10.8.0.6"), Peer: mustAddr("10.8.0.5"), Prefix: 32, Flags: 0x280, Metric: 50}); !ok || a != want {
		t.Errorf("point to point: %+v", a)
	}
	x := mustAddr("2001:db8::5")
	if a, ok = parseAddress(ifaddr(inet6, 64, 0x80, 0, 2, at(ifaAddress, x[:]...))); !ok || a.Addr != x || !a.Peer.IsZero() {
		t.Errorf("IPv6: %+v", a)
	}
	if _, ok = parseAddress(ifaddr(inet, 33, 0, 0, 2, at(ifaLocal, 10, 8, 0, 6))); ok {
		t.Error("prefix 33: taken")
	}
	if _, ok = parseAddress(ifaddr(inet6, 64, 0, 0, 2, at(ifaAddress, 10, 8, 0, 6))); ok {
		t.Error("short IPv6: taken")
	}
}

func TestRequest_Broadcast_OnlyOfItsPrefix(t *testing.T) {
	a := Address{Addr: mustAddr("198.51.100.10"), Prefix: 24, Broadcast: mustAddr("198.51.100.255"), Flags: 0x281}
	got, ok := parseAddress(a.request(5))
	if want := (Address{Addr: a.Addr, Prefix: 24, Broadcast: a.Broadcast, Flags: ifafNoDAD | ifafNoPrefixRoute}); !ok || got != want {
		t.Errorf("%+v", got)
	}
	a.Prefix = 16
	if got, _ := parseAddress(a.request(5)); !got.Broadcast.IsZero() {
		t.Errorf("broadcast %s of another prefix", got.Broadcast)
	}
}

func TestRecreated_OnlyWhatTheKernelMakes(t *testing.T) {
	a := Address{Addr: mustAddr("198.51.100.10"), Prefix: 24}
	connected := Route{Dst: mustAddr("198.51.100.0"), Prefix: 24, Protocol: protoKernel}
	metric, other, bare := connected, connected, a
	metric.Priority, other.Dst, bare.Flags = 100, mustAddr("198.51.101.0"), ifafNoPrefixRoute
	for _, c := range []struct {
		name string
		r    Route
		a    Address
		want bool
	}{{"its network", connected, a, true}, {"another metric", metric, a, false}, {"another network", other, a, false}, {"noprefixroute", connected, bare, false}} {
		if got := recreated(&c.r, inet, []Address{c.a}); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestParsers_TruncatedAtEachByte_NoPanic(t *testing.T) {
	route := rtmsg(inet, 0, 3, 0, multipath(), gw1, oif(2))
	for i := range route {
		if r, _, ok := parseRoute(route[:i:i], inet); ok != (i >= sizeRoute) || len(r.hops) > 4 {
			t.Errorf("route of %d bytes: %v", i, ok)
		}
		rewrite(route[:i:i], 2, 3)
	}
	addr := ifaddr(inet, 24, 0, 0, 2, at(ifaLocal, 10, 8, 0, 6))
	for i := range addr {
		if _, ok := parseAddress(addr[:i:i]); ok {
			t.Errorf("address of %d bytes taken", i)
		}
	}
	link := put(put(linkBody(2), iflaIfname, []byte("e0\x00")), iflaAFSpec, put(nil, inet6, put(nil, iflaInet6GenMode, []byte{3})))
	if l, ok := parseLink(link); !ok || l.name != "e0" || l.genMode != 3 || !l.inet6 {
		t.Errorf("link %+v", l)
	}
	for i := range link {
		parseLink(link[:i:i])
	}
}

func TestNSConfig_RoundTripAndTruncation(t *testing.T) {
	r4, _, _ := parseRoute(rtmsg(inet, 0, 3, 0, multipath()), inet)
	r4.Protocol = 0 // set by the user of the package: kept
	r6, _, _ := parseRoute(rtmsg(inet6, 0, 9, 0, oif(2)), inet6)
	c := NSConfig{IfIndex: 3, MTU: 1500, V4: FamilyConfig{On: true, Addrs: []Address{{Addr: mustAddr("10.0.0.1"), Prefix: 8}}, CopyRoutes: []Route{r4, r4}, SrcIfIndex: 2},
		V6: FamilyConfig{CopyRoutes: []Route{r6}}}
	b, err := c.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := UnmarshalNSConfig(b); err != nil || !reflect.DeepEqual(got, c) {
		t.Errorf("%v %+v\nwant %+v", err, got, c)
	}
	for i := range b {
		if _, err := UnmarshalNSConfig(b[:i:i]); err == nil {
			t.Errorf("%d of %d bytes taken", i, len(b))
		}
	}
	if _, err := UnmarshalNSConfig(append(b, 0)); err == nil {
		t.Error("a byte left over taken")
	}
	for _, empty := range []NSConfig{{}, {V4: FamilyConfig{CopyRoutes: []Route{}}}} {
		b, _ := empty.Marshal()
		if got, err := UnmarshalNSConfig(b); err != nil || (got.V4.CopyRoutes == nil) != (empty.V4.CopyRoutes == nil) {
			t.Errorf("%v: %+v", err, got)
		}
	}
}

func TestCheckName_Limits(t *testing.T) {
	for _, good := range []string{"a", "abcdefghijklmno", "e0.100", "tap%d", "..."} {
		if err := CheckName(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", "abcdefghijklmnop", "a/b", "a b", ".", "..", "a\tb", "a:b", "a\x00"} {
		if CheckName(bad) == nil {
			t.Errorf("%q taken", bad)
		}
	}
}

func FuzzRoute(f *testing.F) {
	f.Add(rtmsg(inet, 0, 3, 0, multipath(), gw1, oif(2)))
	f.Add(rtmsg(inet6, 64, 9, rtnhOnlink, oif(2), at(rtaExpires, u32(5)...)))
	f.Fuzz(func(t *testing.T, b []byte) {
		before := bytes.Clone(b)
		for _, family := range []byte{inet, inet6} {
			r, _, ok := parseRoute(b, family)
			out, ours := rewrite(b, 2, 9)
			if !bytes.Equal(b, before) {
				t.Fatal("the dumped bytes changed")
			}
			if !ok || !ours {
				continue
			}
			again, id, ok := parseRoute(out, family)
			if _, _, through := again.through(9); !ok || !through || id != 0 || !again.PrefSrc.IsZero() || again.Dst != r.Dst || again.Prefix != r.Prefix {
				t.Fatalf("rewritten % x gives % x: %+v", b, out, again)
			}
			if ne.Uint32(out[8:])&^rtnhOnlink != 0 {
				t.Fatalf("flags %x", ne.Uint32(out[8:]))
			}
		}
	})
}

func FuzzAddress(f *testing.F) {
	f.Add(ifaddr(inet, 24, 0, 0, 2, at(ifaLocal, 10, 8, 0, 6), at(ifaBroadcast, 10, 8, 0, 255)))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, ok := parseAddress(b)
		if !ok {
			return
		}
		again, ok := parseAddress(a.request(1))
		if !ok || again.Addr != a.Addr || again.Prefix != a.Prefix && a.Addr.Is4() == (b[0] != inet6) || again.Peer != a.Peer || again.Metric != a.Metric {
			t.Fatalf("%+v came back as %+v", a, again)
		}
	})
}
