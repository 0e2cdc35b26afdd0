// SPDX-License-Identifier: Apache-2.0

package wire

import "encoding/binary"

// Neighbour discovery messages and options (RFC 4861, RFC 8106).
const (
	NDPRouterSolicit    = 133
	NDPRouterAdvert     = 134
	NDPNeighbourSolicit = 135
	NDPNeighbourAdvert  = 136

	NDPOptSourceMAC = 1
	NDPOptTargetMAC = 2
	NDPOptPrefix    = 3
	NDPOptMTU       = 5
	NDPOptRDNSS     = 25
	NDPOptDNSSL     = 31

	// Flags of a neighbour advertisement.
	NARouter    = 0x80
	NASolicited = 0x40
	NAOverride  = 0x20

	RAManaged = 0x80 // flag of a router advertisement: addresses by DHCPv6

	RASize       = 16 // router advertisement without options
	NeighSize    = 24 // neighbour solicitation or advertisement without options
	PrefixSize   = 32
	MACOptSize   = 8
	MTUOptSize   = 8
	ndpOptMax    = 255 * 8
	infiniteTime = 0xffffffff // lifetimes, seconds
)

// AllNodes is ff02::1.
var AllNodes = Addr{0: 0xff, 1: 0x02, 15: 1}

// SolicitedNode gives the multicast address that the owner of a listens to (RFC 4291 s.2.7.1).
func SolicitedNode(a *Addr) Addr {
	return Addr{0: 0xff, 1: 0x02, 11: 1, 12: 0xff, 13: a[13], 14: a[14], 15: a[15]}
}

// MulticastMAC gives the Ethernet address of an IPv6 multicast group (RFC 2464 s.7).
func MulticastMAC(a *Addr) MAC { return MAC{0x33, 0x33, a[12], a[13], a[14], a[15]} }

// IsNDP tells whether an ICMPv6 type belongs to ParseNDP.
func IsNDP(icmpType uint8) bool {
	return icmpType >= NDPRouterSolicit && icmpType <= NDPNeighbourAdvert
}

// NDP is an ICMPv6 message of one of the four types; ParseNDP checked its length, code and options.
type NDP []byte

// ParseNDP takes a message apart: type, code 0, fixed part, options none of which is empty or beyond the end (RFC 4861 s.6.1,
// 7.1). Hop limit and checksum are the caller's: they are not in b.
//
//	errors: DropNDP
func ParseNDP(b []byte) (NDP, Drop) {
	if len(b) < ICMPSize || b[1] != 0 {
		return nil, DropNDP
	}
	head := 0
	switch b[0] {
	case NDPRouterSolicit:
		head = ICMPSize
	case NDPRouterAdvert:
		head = RASize
	case NDPNeighbourSolicit, NDPNeighbourAdvert:
		head = NeighSize
	default:
		return nil, DropNDP
	}
	if len(b) < head {
		return nil, DropNDP
	}
	for o := b[head:]; len(o) > 0; {
		if len(o) < 8 || o[1] == 0 || int(o[1])*8 > len(o) {
			return nil, DropNDP
		}
		o = o[int(o[1])*8:]
	}
	return NDP(b), DropNone
}

func (n NDP) Type() uint8 { return n[0] }

// Target is the address asked for or told; neighbour messages only.
func (n NDP) Target() Addr { return Addr6From(n[8:]) }

// PutNeigh writes a neighbour solicitation or advertisement with one link-layer address option and returns its length, 32.
// The checksum is left zero.
func PutNeigh(b []byte, icmpType, flags uint8, target *Addr, mac *MAC) int {
	_ = b[NeighSize+MACOptSize-1]
	clear(b[:NeighSize])
	b[0], b[4] = icmpType, flags
	copy(b[8:], target[:])
	opt := uint8(NDPOptTargetMAC)
	if icmpType == NDPNeighbourSolicit {
		opt = NDPOptSourceMAC
	}
	return NeighSize + PutMACOpt(b[NeighSize:], opt, mac)
}

// PutRA writes the fixed part of a router advertisement: hop limit 255, reachable and retransmission time unspecified.
//
//	in: flags; lifetimeS, seconds as default router
func PutRA(b []byte, flags uint8, lifetimeS uint16) int {
	clear(b[:RASize])
	b[0], b[4], b[5] = NDPRouterAdvert, 255, flags
	binary.BigEndian.PutUint16(b[6:], lifetimeS)
	return RASize
}

// PutMACOpt writes a source or target link-layer address option.
func PutMACOpt(b []byte, opt uint8, mac *MAC) int {
	b[0], b[1] = opt, 1
	copy(b[2:MACOptSize], mac[:])
	return MACOptSize
}

// PutPrefix writes a prefix information option for the /64 of a, on-link and autonomous, for ever; host bits are cleared.
func PutPrefix(b []byte, a *Addr) int {
	clear(b[:PrefixSize])
	b[0], b[1], b[2], b[3] = NDPOptPrefix, PrefixSize/8, 64, 0xc0
	binary.BigEndian.PutUint32(b[4:], infiniteTime)
	binary.BigEndian.PutUint32(b[8:], infiniteTime)
	copy(b[16:], a[:8])
	return PrefixSize
}

// PutMTUOpt writes an MTU option.
func PutMTUOpt(b []byte, mtu int) int {
	clear(b[:MTUOptSize])
	b[0], b[1] = NDPOptMTU, 1
	binary.BigEndian.PutUint32(b[4:], uint32(mtu))
	return MTUOptSize
}

// PutRDNSS writes a recursive DNS server option (RFC 8106 s.5.1), for ever; 0 bytes without a server or room.
func PutRDNSS(b []byte, servers []Addr) int {
	n := 8 + 16*len(servers)
	if len(servers) == 0 || n > min(len(b), ndpOptMax) {
		return 0
	}
	putInfinite(b, NDPOptRDNSS, n)
	for i := range servers {
		copy(b[8+16*i:], servers[i][:])
	}
	return n
}

// PutDNSSL writes a search list option (RFC 8106 s.5.2), for ever: names in order as far as they fit, malformed ones
// skipped, padded with zeroes to a multiple of 8. 0 bytes when no name is left.
func PutDNSSL(b []byte, names []string) int {
	room := b[:min(len(b)&^7, ndpOptMax)]
	n := 8
	for _, s := range names {
		if n < len(room) {
			n += PutName(room[n:], s)
		}
	}
	if n == 8 {
		return 0
	}
	end := (n + 7) &^ 7
	clear(b[n:end])
	putInfinite(b, NDPOptDNSSL, end)
	return end
}

func putInfinite(b []byte, opt uint8, n int) {
	b[0], b[1], b[2], b[3] = opt, uint8(n/8), 0, 0
	binary.BigEndian.PutUint32(b[4:], infiniteTime)
}
