// SPDX-License-Identifier: Apache-2.0

package fwd

import "passt/dataplane/wire"

var (
	loop4 = wire.Addr4(127, 0, 0, 1)
	loop6 = wire.Addr{15: 1}
)

// Outbound translates the destination of a guest's packet to the host's side.
//
//	in:     proto, dst and port as the guest wrote them
//	out:    the address that the host socket connects to; the port never changes
//	errors: false when the guest may not reach dst: loopback, a family that is off, a protocol that is off,
//	        or the DNS address while no resolver is known
//	source: spec addressing 9: DNS before loopback map before guest map
//
// The broker calls it with what the worker asks for, so a loopback address can only be
// reached through the mapped addresses, whoever controls the worker.
func (c *Config) Outbound(proto uint8, dst *wire.Addr, port uint16) (wire.Addr, bool) {
	f := c.Of(dst)
	if !f.On || dst.IsLoopback() || dst.IsUnspecified() || !c.protoOn(proto) {
		return wire.Addr{}, false
	}
	l4 := proto == ProtoTCP || proto == ProtoUDP
	if l4 && (port == 53 || port == 853) && *dst == f.DNSMatch {
		return f.DNSHost, !f.DNSHost.IsUnspecified()
	}
	if *dst == f.MapLoop {
		if dst.Is4() {
			return loop4, true
		}
		return loop6, true
	}
	if *dst == f.MapGuest {
		return f.MapGuestTo, !f.MapGuestTo.IsZero()
	}
	return *dst, true
}

// Inbound translates the source of a host-side peer to what the guest sees.
//
//	in:     src, the peer; seen, the guest's last used address of that family
//	out:    the address to use as source towards the guest
//	errors: false when nothing fits (IPv4 without gateway)
//	source: spec addressing 10
func (c *Config) Inbound(src, seen *wire.Addr) (wire.Addr, bool) {
	f := c.Of(src)
	switch {
	case !f.MapLoop.IsZero() && (*src == loop4 || *src == loop6):
		return f.MapLoop, true
	case !f.MapGuest.IsZero() && *src == f.MapGuestTo:
		return f.MapGuest, true
	case src.IsLoopback() || src.IsUnspecified() || *src == f.Guest || *src == *seen:
		return f.Our, !f.Our.IsZero()
	}
	return *src, true
}

func (c *Config) protoOn(proto uint8) bool {
	switch proto {
	case ProtoTCP:
		return c.TCP
	case ProtoUDP:
		return c.UDP
	case ProtoICMP, ProtoICMPv6:
		return c.ICMP
	}
	return false
}
