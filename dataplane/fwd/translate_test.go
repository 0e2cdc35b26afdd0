// SPDX-License-Identifier: Apache-2.0

package fwd

import (
	"math/rand"
	"net/netip"
	"testing"

	"passt/dataplane/wire"
)

func ip(s string) wire.Addr {
	if s == "" {
		return wire.Addr{}
	}
	return wire.FromNetip(netip.MustParseAddr(s))
}

// usual is pasta on a host 198.51.100.10/24 with gateway .1 and both families.
func usual() *Config {
	return &Config{TCP: true, UDP: true, ICMP: true, Splice: true,
		V4: Family{On: true, Prefix: 24, Guest: ip("198.51.100.10"), Gateway: ip("198.51.100.1"), Our: ip("198.51.100.1"),
			MapLoop: ip("198.51.100.1"), MapGuestTo: ip("198.51.100.10")},
		V6: Family{On: true, Prefix: 64, Guest: ip("2001:db8::10"), Gateway: ip("fe80::1"), Our: ip("fe80::1"),
			MapLoop: ip("fe80::1"), MapGuestTo: ip("2001:db8::10")}}
}

func with(f func(c *Config)) *Config {
	c := usual()
	f(c)
	return c
}

func TestOutbound_Rules_AsSpecified(t *testing.T) {
	noMap := with(func(c *Config) { c.V4.MapLoop, c.V6.MapLoop = wire.Addr{}, wire.Addr{} })
	mapGuest := with(func(c *Config) {
		c.V4.MapGuest, c.V6.MapGuest = ip("169.254.1.2"), ip("fd00::2")
	})
	// Check 20: the address maps both; loopback wins.
	both := with(func(c *Config) { c.V4.MapLoop, c.V4.MapGuest = ip("169.254.1.2"), ip("169.254.1.2") })
	// Check 23: resolver 127.0.0.53, so the gateway stands for it.
	stub := with(func(c *Config) { c.V4.DNSMatch, c.V4.DNSHost = ip("198.51.100.1"), ip("127.0.0.53") })
	// Check 24: the resolver is the gateway itself.
	self := with(func(c *Config) { c.V4.DNSMatch, c.V4.DNSHost = ip("198.51.100.1"), ip("198.51.100.1") })
	// Check 25: --dns-forward with a resolver from resolv.conf, and without any.
	forward := with(func(c *Config) { c.V4.DNSMatch, c.V4.DNSHost = ip("169.254.1.1"), ip("203.0.113.53") })
	noHost := with(func(c *Config) { c.V4.DNSMatch, c.V6.DNSMatch = ip("169.254.1.1"), ip("fd00::53") })
	zeroHost := with(func(c *Config) { c.V4.DNSMatch, c.V4.DNSHost = ip("169.254.1.1"), ip("0.0.0.0") })
	for _, c := range []struct {
		name  string
		c     *Config
		proto uint8
		dst   string
		port  uint16
		want  string // "": refused
	}{
		{"17: gateway is host loopback", usual(), ProtoTCP, "198.51.100.1", 7001, "127.0.0.1"},
		{"17: the same for UDP", usual(), ProtoUDP, "198.51.100.1", 7001, "127.0.0.1"},
		{"17: and for echo", usual(), ProtoICMP, "198.51.100.1", 0, "127.0.0.1"},
		{"17: IPv6", usual(), ProtoTCP, "fe80::1", 7001, "::1"},
		{"17: IPv6 echo", usual(), ProtoICMPv6, "fe80::1", 0, "::1"},
		{"17: no map", noMap, ProtoTCP, "198.51.100.1", 7001, "198.51.100.1"},
		{"17: no map, IPv6", noMap, ProtoTCP, "fe80::1", 7001, "fe80::1"},
		{"19: guest map", mapGuest, ProtoTCP, "169.254.1.2", 80, "198.51.100.10"},
		{"19: guest map, IPv6", mapGuest, ProtoUDP, "fd00::2", 80, "2001:db8::10"},
		{"19: guest map, echo", mapGuest, ProtoICMP, "169.254.1.2", 0, "198.51.100.10"},
		{"20: loopback before guest", both, ProtoTCP, "169.254.1.2", 80, "127.0.0.1"},
		{"20: gateway is itself then", both, ProtoTCP, "198.51.100.1", 80, "198.51.100.1"},
		{"23: query", stub, ProtoUDP, "198.51.100.1", 53, "127.0.0.53"},
		{"23: query by TCP", stub, ProtoTCP, "198.51.100.1", 53, "127.0.0.53"},
		{"23: query by TLS", stub, ProtoTCP, "198.51.100.1", 853, "127.0.0.53"},
		{"23: other port", stub, ProtoTCP, "198.51.100.1", 80, "127.0.0.1"},
		{"23: echo is no query", stub, ProtoICMP, "198.51.100.1", 53, "127.0.0.1"},
		{"24: resolver is the gateway", self, ProtoUDP, "198.51.100.1", 53, "198.51.100.1"},
		{"25: forward", forward, ProtoUDP, "169.254.1.1", 53, "203.0.113.53"},
		{"25: other port of the address", forward, ProtoUDP, "169.254.1.1", 54, "169.254.1.1"},
		{"25: no resolver", noHost, ProtoUDP, "169.254.1.1", 53, ""},
		{"25: no resolver, IPv6", noHost, ProtoTCP, "fd00::53", 853, ""},
		{"25: resolver 0.0.0.0", zeroHost, ProtoUDP, "169.254.1.1", 53, ""},
		{"others unchanged", usual(), ProtoTCP, "203.0.113.5", 443, "203.0.113.5"},
		{"own address unchanged", usual(), ProtoTCP, "198.51.100.10", 443, "198.51.100.10"},
		{"multicast unchanged", usual(), ProtoUDP, "224.0.0.251", 5353, "224.0.0.251"},
		{"loopback", usual(), ProtoTCP, "127.0.0.1", 22, ""},
		{"loopback net", usual(), ProtoUDP, "127.9.9.9", 22, ""},
		{"loopback IPv6", usual(), ProtoTCP, "::1", 22, ""},
		{"unspecified", usual(), ProtoTCP, "0.0.0.0", 22, ""},
		{"unspecified IPv6", usual(), ProtoTCP, "::", 22, ""},
		{"unspecified, no map", noMap, ProtoUDP, "::", 53, ""},
		{"IPv4 off", with(func(c *Config) { c.V4.On = false }), ProtoTCP, "203.0.113.5", 80, ""},
		{"IPv4 off, IPv6 on", with(func(c *Config) { c.V4.On = false }), ProtoTCP, "2001:db8::5", 80, "2001:db8::5"},
		{"IPv6 off", with(func(c *Config) { c.V6.On = false }), ProtoUDP, "fe80::1", 80, ""},
		{"TCP off", with(func(c *Config) { c.TCP = false }), ProtoTCP, "203.0.113.5", 80, ""},
		{"UDP off", with(func(c *Config) { c.UDP = false }), ProtoUDP, "198.51.100.1", 53, ""},
		{"ICMP off", with(func(c *Config) { c.ICMP = false }), ProtoICMP, "203.0.113.5", 0, ""},
		{"other protocol", usual(), 47, "203.0.113.5", 0, ""},
	} {
		dst := ip(c.dst)
		got, ok := c.c.Outbound(c.proto, &dst, c.port)
		if ok != (c.want != "") || ok && got != ip(c.want) {
			t.Errorf("%s: %v %v, want %q", c.name, got, ok, c.want)
		}
	}
}

func TestInbound_Rules_AsSpecified(t *testing.T) {
	noMap := with(func(c *Config) { c.V4.MapLoop, c.V6.MapLoop = wire.Addr{}, wire.Addr{} })
	mapGuest := with(func(c *Config) { c.V4.MapGuest, c.V6.MapGuest = ip("169.254.1.2"), ip("fd00::2") })
	noGateway := with(func(c *Config) { c.V4.Gateway, c.V4.Our, c.V4.MapLoop = wire.Addr{}, wire.Addr{}, wire.Addr{} })
	elsewhere := with(func(c *Config) { c.V4.Guest = ip("10.5.5.5"); c.V4.MapGuest = ip("169.254.1.2") })
	for _, c := range []struct {
		name, src, seen string
		c               *Config
		want            string
	}{
		{"21: loopback", "127.0.0.1", "198.51.100.10", usual(), "198.51.100.1"},
		{"21: other loopback", "127.0.0.2", "198.51.100.10", usual(), "198.51.100.1"},
		{"21: host's own address", "198.51.100.10", "198.51.100.10", usual(), "198.51.100.1"},
		{"21: host's own address mapped", "198.51.100.10", "198.51.100.10", mapGuest, "169.254.1.2"},
		{"21: loopback with guest map", "127.0.0.2", "198.51.100.10", mapGuest, "198.51.100.1"},
		{"21: loopback IPv6", "::1", "2001:db8::10", usual(), "fe80::1"},
		{"21: own IPv6", "2001:db8::10", "2001:db8::10", usual(), "fe80::1"},
		{"21: own IPv6 mapped", "2001:db8::10", "2001:db8::10", mapGuest, "fd00::2"},
		{"17: no map, still delivered", "127.0.0.1", "198.51.100.10", noMap, "198.51.100.1"},
		{"17: no map, IPv6", "::1", "2001:db8::10", noMap, "fe80::1"},
		{"22: remote", "203.0.113.5", "198.51.100.10", usual(), "203.0.113.5"},
		{"22: remote IPv6", "2001:db8:1::5", "2001:db8::10", usual(), "2001:db8:1::5"},
		{"link-local neighbour", "fe80::99", "fe80::2", usual(), "fe80::99"},
		{"the address the guest uses now", "198.51.100.77", "198.51.100.77", usual(), "198.51.100.1"},
		{"unspecified", "0.0.0.0", "198.51.100.10", usual(), "198.51.100.1"},
		{"no gateway: loopback refused", "127.0.0.1", "198.51.100.10", noGateway, ""},
		{"no gateway: own refused", "198.51.100.10", "198.51.100.10", noGateway, ""},
		{"no gateway: remote", "203.0.113.5", "198.51.100.10", noGateway, "203.0.113.5"},
		{"guest elsewhere: host's address is a remote one", "198.51.100.10", "10.5.5.5", with(func(c *Config) { c.V4.Guest = ip("10.5.5.5") }), "198.51.100.10"},
		{"guest elsewhere: host's address mapped", "198.51.100.10", "10.5.5.5", elsewhere, "169.254.1.2"},
		{"nothing seen yet", "203.0.113.5", "", usual(), "203.0.113.5"},
	} {
		src, seen := ip(c.src), ip(c.seen)
		got, ok := c.c.Inbound(&src, &seen)
		if ok != (c.want != "") || ok && got != ip(c.want) {
			t.Errorf("%s: %v %v, want %q", c.name, got, ok, c.want)
		}
	}
}

// FuzzOutbound: whatever the guest writes, loopback is reached by the mapped addresses alone, and the family never changes.
func FuzzOutbound(f *testing.F) {
	for _, s := range []string{"127.0.0.1", "::1", "0.0.0.0", "198.51.100.1", "fe80::1", "::ffff:127.0.0.1", "::127.0.0.1"} {
		a := ip(s)
		f.Add(a[:], uint8(ProtoTCP), uint16(53), uint8(0))
		f.Add(a[:], uint8(ProtoUDP), uint16(80), uint8(7))
	}
	f.Fuzz(func(t *testing.T, raw []byte, proto uint8, port uint16, flags uint8) {
		if len(raw) < 16 {
			return
		}
		dst := wire.Addr6From(raw)
		c := usual()
		if flags&1 != 0 {
			c.V4.MapLoop, c.V6.MapLoop = wire.Addr{}, wire.Addr{}
		}
		if flags&2 != 0 {
			c.V4.MapGuest, c.V6.MapGuest = dst, dst
		}
		if flags&4 != 0 {
			c.V4.DNSMatch, c.V4.DNSHost = dst, ip("127.0.0.53")
		}
		got, ok := c.Outbound(proto, &dst, port)
		if !ok {
			return
		}
		if dst.IsLoopback() || dst.IsUnspecified() || got.IsUnspecified() || got.Is4() != dst.Is4() {
			t.Fatalf("%v became %v", dst, got)
		}
		dns := dst == c.Of(&dst).DNSMatch && (port == 53 || port == 853)
		if got.IsLoopback() && !dns && dst != c.Of(&dst).MapLoop {
			t.Fatalf("%v reaches %v", dst, got)
		}
		src := got
		if back, ok := c.Inbound(&src, &c.V4.Guest); ok && (back.IsLoopback() || back.IsUnspecified()) {
			t.Fatalf("guest would see %v", back)
		}
	})
}

func TestTranslate_Hot_NoAllocation(t *testing.T) {
	c, dst := usual(), ip("198.51.100.1")
	r := rand.New(rand.NewSource(1))
	port := uint16(r.Int())
	if n := testing.AllocsPerRun(100, func() {
		a, _ := c.Outbound(ProtoTCP, &dst, port)
		c.Inbound(&a, &c.V4.Guest)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
