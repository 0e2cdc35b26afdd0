// SPDX-License-Identifier: Apache-2.0

package fwd

import "passt/dataplane/wire"

// Pif names a place where a flow can begin or end. The values are those of the
// control protocol (forwarding rules at run time).
type Pif uint8

const (
	PifNone   Pif = 0
	PifHost   Pif = 1 // sockets in the host's network namespace
	PifTap    Pif = 2 // the guest link
	PifSplice Pif = 3 // sockets in the target namespace of pasta
)

// IP protocol numbers that are forwarded.
const (
	ProtoICMP   = 1
	ProtoTCP    = 6
	ProtoUDP    = 17
	ProtoICMPv6 = 58
)

// IfName is an interface name, zero-padded, at most 15 bytes; zero means none.
type IfName [16]byte

// MakeIfName copies s; it reports false when s is longer than 15 bytes.
func MakeIfName(s string) (n IfName, ok bool) {
	if len(s) > 15 {
		return n, false
	}
	copy(n[:], s)
	return n, true
}

// String gives the name without padding.
func (n IfName) String() string {
	for i, c := range n {
		if c == 0 {
			return string(n[:i])
		}
	}
	return string(n[:])
}

// Family holds the addresses of one IP version. Letters are those of the
// option's usual names: an unset address (zero) means that the feature is off.
type Family struct {
	On         bool      // family in use (-4, -6, kernel support)
	Local      bool      // local mode: no usable template interface
	Pinned     bool      // -a given: inbound traffic always goes to Guest
	Prefix     uint8     // prefix length of Guest, 0..32; always 64 for IPv6
	Guest      wire.Addr // A: address assigned to the guest
	Gateway    wire.Addr // G: gateway as told to the guest
	Our        wire.Addr // O: source of our own messages: G for IPv4, our link-local for IPv6
	MapLoop    wire.Addr // L: stands for 127.0.0.1 or ::1 of the host
	MapGuest   wire.Addr // M: stands for MapGuestTo
	MapGuestTo wire.Addr // host's own address that M leads to (A where the host owns it)
	DNSMatch   wire.Addr // D: --dns-forward
	DNSHost    wire.Addr // H: resolver that D leads to; unset: drop, never 0.0.0.0
	Outbound   wire.Addr // -o: source address on the host side
	OutboundIf IfName    // --outbound-if4/6: device of the host-side sockets, not for loopback
	Scope      uint32    // interface index of the template, scope of link-local addresses
}

// Config is the address policy of one instance: plain values, shared by the worker,
// which translates with them, and by the broker, which connects by them.
type Config struct {
	V4, V6       Family
	TCP          bool // not --no-tcp
	UDP          bool // not --no-udp
	ICMP         bool // not --no-icmp
	Splice       bool // pasta, not --no-splice: loopback goes socket to socket
	SpliceOnly   bool // --splice-only: no tap
	HostLoToNsLo bool // --host-lo-to-ns-lo
	FreeBind     bool // --freebind
}

// Of gives the family of address a.
func (c *Config) Of(a *wire.Addr) *Family {
	if a.Is4() {
		return &c.V4
	}
	return &c.V6
}
