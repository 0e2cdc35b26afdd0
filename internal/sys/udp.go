// SPDX-License-Identifier: Apache-2.0

package sys

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// Origins of an extended error (linux/errqueue.h).
const (
	ErrOriginLocal = 1
	ErrOriginICMP  = 2
	ErrOriginICMP6 = 3
)

// Meta is what the ancillary data of a received datagram tell. Addresses are 16 bytes, IPv4 as ::ffff:a.b.c.d;
// zero means unknown.
type Meta struct {
	Local [16]byte // our address to answer from
	Dst   [16]byte // destination in the packet: Local, a group or a broadcast address
	GRO   int      // bytes of each datagram of an aggregate, 0: single datagram
}

// ExtErr is one entry of an error queue (struct sock_extended_err, ip(7)).
type ExtErr struct {
	Errno       Errno
	Origin      uint8
	Type, Code  uint8
	Info        uint32 // path MTU where Errno is EMSGSIZE
	Offender    [16]byte
	HasOffender bool
}

var ne = binary.NativeEndian

// nextCmsg takes the first control message off c; 64-bit layout: length 8, level 4, type 4, data, padding to 8.
func nextCmsg(c []byte) (level, kind int, data, rest []byte, ok bool) {
	if len(c) < 16 {
		return 0, 0, nil, nil, false
	}
	n := ne.Uint64(c)
	if n < 16 || n > uint64(len(c)) {
		return 0, 0, nil, nil, false
	}
	return int(int32(ne.Uint32(c[8:]))), int(int32(ne.Uint32(c[12:]))), c[16:n], c[min(int(n+7)&^7, len(c)):], true
}

func mapped(b []byte) (a [16]byte) {
	a[10], a[11] = 0xff, 0xff
	copy(a[12:], b[:4])
	return a
}

// ParseMeta reads the ancillary data of one datagram; unknown messages are skipped.
//
//	source: ip(7) IP_PKTINFO, ipv6(7) IPV6_PKTINFO, udp(7) UDP_GRO
//	cost:   no allocation
func ParseMeta(c []byte) (m Meta) {
	for {
		level, kind, d, rest, ok := nextCmsg(c)
		if !ok {
			return m
		}
		switch {
		case level == unix.IPPROTO_IP && kind == unix.IP_PKTINFO && len(d) >= 12:
			// ifindex, address to answer from, address in the header.
			m.Local, m.Dst = mapped(d[4:8]), mapped(d[8:12])
		case level == unix.IPPROTO_IPV6 && kind == unix.IPV6_PKTINFO && len(d) >= 20:
			if m.Dst == [16]byte{} {
				m.Local = [16]byte(d[:16])
				m.Dst = m.Local
			}
		case level == unix.IPPROTO_UDP && kind == unix.UDP_GRO && len(d) >= 4:
			if n := int(int32(ne.Uint32(d))); n > 0 && n < 65536 {
				m.GRO = n
			}
		}
		c = rest
	}
}

// ParseExtErr reads the ancillary data of one error queue entry; false when they hold none.
//
//	source: ip(7) IP_RECVERR
//	cost:   no allocation
func ParseExtErr(c []byte) (x ExtErr, ok bool) {
	for {
		level, kind, d, rest, more := nextCmsg(c)
		if !more {
			return x, false
		}
		c = rest
		four := level == unix.IPPROTO_IP && kind == unix.IP_RECVERR
		six := level == unix.IPPROTO_IPV6 && kind == unix.IPV6_RECVERR
		if !four && !six || len(d) < 16 {
			continue
		}
		x.Errno, x.Origin, x.Type, x.Code = Errno(ne.Uint32(d)), d[4], d[5], d[6]
		x.Info = ne.Uint32(d[8:])
		if o := d[16:]; len(o) >= 8 {
			switch {
			case ne.Uint16(o) == unix.AF_INET:
				x.Offender, x.HasOffender = mapped(o[4:8]), true
			case ne.Uint16(o) == unix.AF_INET6 && len(o) >= 24:
				x.Offender, x.HasOffender = [16]byte(o[8:24]), true
			}
		}
		return x, true
	}
}

// ICMPOf maps why the host could not make or use a socket to what the guest is told: type and code of ICMP (four) or
// ICMPv6; false when silence is right (resources).
func ICMPOf(four bool, e Errno) (kind, code uint8, ok bool) {
	switch e {
	case ENETUNREACH, EADDRNOTAVAIL, EAFNOSUPPORT, ENETDOWN:
		if four {
			return 3, 0, true // net unreachable
		}
		return 1, 0, true // no route
	case EHOSTUNREACH, EHOSTDOWN, EINVAL: // EINVAL: a blackhole route (connect(2) on such a destination)
		if four {
			return 3, 1, true // host unreachable
		}
		return 1, 3, true // address unreachable
	case EACCES, EPERM:
		if four {
			return 3, 13, true // administratively prohibited
		}
		return 1, 1, true
	}
	return 0, 0, false
}
