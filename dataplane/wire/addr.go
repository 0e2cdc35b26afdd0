// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"net/netip"
)

// Addr is an IPv4 or IPv6 address in network byte order, 16 bytes, IPv4 as
// ::ffff:a.b.c.d (RFC 4291 s.2.5.5.2). It holds no pointer, so that tables of
// flows are never scanned by the collector. The zero value means "unset"
// and is also IPv6's unspecified address.
type Addr [16]byte

// MAC is an Ethernet address.
type MAC [6]byte

// Broadcast is the Ethernet broadcast address.
var Broadcast = MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// IsZero tells whether the address is unset (all zeroes).
func (m MAC) IsZero() bool { return m == MAC{} }

// String gives the usual form, xx:xx:xx:xx:xx:xx.
func (m MAC) String() string {
	const hex = "0123456789abcdef"
	b := make([]byte, 0, 17)
	for i, x := range m {
		if i > 0 {
			b = append(b, ':')
		}
		b = append(b, hex[x>>4], hex[x&15])
	}
	return string(b)
}

// Addr4 makes an Addr from four bytes of IPv4.
func Addr4(a, b, c, d byte) Addr {
	return Addr{10: 0xff, 11: 0xff, 12: a, 13: b, 14: c, 15: d}
}

// Addr4From makes an Addr from b[:4], an IPv4 address in network order.
func Addr4From(b []byte) Addr {
	_ = b[3]
	return Addr{10: 0xff, 11: 0xff, 12: b[0], 13: b[1], 14: b[2], 15: b[3]}
}

// Addr6From makes an Addr from b[:16].
func Addr6From(b []byte) Addr { return Addr(b[:16]) }

// FromNetip converts; the zone of an IPv6 address is dropped.
func FromNetip(a netip.Addr) Addr {
	if !a.IsValid() {
		return Addr{}
	}
	return a.As16()
}

// Netip converts for cold code (printing, parsing); unset gives the zero netip.Addr.
func (a Addr) Netip() netip.Addr {
	if a.IsZero() {
		return netip.Addr{}
	}
	return netip.AddrFrom16(a).Unmap()
}

// String prints the address in its usual form; "" when unset.
func (a Addr) String() string {
	if a.IsZero() {
		return ""
	}
	return a.Netip().String()
}

// IsZero tells whether the address is unset.
func (a *Addr) IsZero() bool { return *a == Addr{} }

// Is4 tells whether the address is IPv4.
func (a *Addr) Is4() bool {
	return binary.BigEndian.Uint64(a[0:]) == 0 && binary.BigEndian.Uint32(a[8:]) == 0xffff
}

// V4 gives the four bytes of an IPv4 address.
func (a *Addr) V4() [4]byte { return [4]byte(a[12:16]) }

// IsUnspecified is true for ::, 0.0.0.0 and the unset address.
func (a *Addr) IsUnspecified() bool {
	return a.IsZero() || a.Is4() && binary.BigEndian.Uint32(a[12:]) == 0
}

// IsLoopback is true for 127.0.0.0/8 and ::1.
func (a *Addr) IsLoopback() bool {
	if a.Is4() {
		return a[12] == 127
	}
	return *a == Addr{15: 1}
}

// IsMulticast is true for 224.0.0.0/4 and ff00::/8.
func (a *Addr) IsMulticast() bool {
	if a.Is4() {
		return a[12]&0xf0 == 0xe0
	}
	return a[0] == 0xff
}

// IsBroadcast is true for 255.255.255.255.
func (a *Addr) IsBroadcast() bool {
	return a.Is4() && binary.BigEndian.Uint32(a[12:]) == 0xffffffff
}

// IsUnicast is true for what may be the address of one host.
func (a *Addr) IsUnicast() bool {
	return !a.IsUnspecified() && !a.IsMulticast() && !a.IsBroadcast()
}

// IsLinkLocal is true for fe80::/10 and 169.254.0.0/16.
func (a *Addr) IsLinkLocal() bool {
	if a.Is4() {
		return a[12] == 169 && a[13] == 254
	}
	return a[0] == 0xfe && a[1]&0xc0 == 0x80
}

// InPrefix tells whether a and b share their first bits; bits counts within the family (0..32 or 0..128).
func (a *Addr) InPrefix(b *Addr, bits int) bool {
	if a.Is4() != b.Is4() {
		return false
	}
	if a.Is4() {
		bits += 96
	}
	for i := 0; i < 16 && bits > 0; i, bits = i+1, bits-8 {
		m := byte(0xff)
		if bits < 8 {
			m <<= 8 - bits
		}
		if (a[i]^b[i])&m != 0 {
			return false
		}
	}
	return true
}
