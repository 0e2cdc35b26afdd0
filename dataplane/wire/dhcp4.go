// SPDX-License-Identifier: Apache-2.0

package wire

import "encoding/binary"

// DHCPv4 (RFC 2131, 2132).
const (
	DHCP4ServerPort = 67
	DHCP4ClientPort = 68

	DHCP4Head    = 240                      // fixed BOOTP part and the cookie
	DHCP4Min     = 300                      // shortest reply: BOOTP's 64 bytes of options (RFC 1542 s.2.1)
	DHCP4Max     = 576 - IP4Size - 8        // longest reply: what every client takes (RFC 2131 s.2)
	DHCP4Options = DHCP4Max - DHCP4Head - 1 // bytes of options in front of the end marker

	DHCP4Discover = 1
	DHCP4Offer    = 2
	DHCP4Request  = 3
	DHCP4Decline  = 4
	DHCP4Ack      = 5
	DHCP4Nak      = 6
	DHCP4Release  = 7
	DHCP4Inform   = 8

	DHCP4OptMask      = 1
	DHCP4OptRouter    = 3
	DHCP4OptDNS       = 6
	DHCP4OptHost      = 12
	DHCP4OptMTU       = 26
	DHCP4OptRequested = 50
	DHCP4OptLease     = 51
	DHCP4OptType      = 53
	DHCP4OptServer    = 54
	DHCP4OptParams    = 55
	DHCP4OptRapid     = 80  // RFC 4039
	DHCP4OptFQDN      = 81  // RFC 4702
	DHCP4OptSearch    = 119 // RFC 3397
	DHCP4OptRoutes    = 121 // RFC 3442
	dhcp4Pad          = 0
	dhcp4End          = 255

	dhcp4Cookie = 0x63825363
)

// DHCP4 is a client's message; ParseDHCP4 checked its fixed part and that its options are well-formed.
//
//	0 op htype hlen hops | 4 xid | 8 secs flags | 12 ciaddr | 16 yiaddr | 20 siaddr | 24 giaddr | 28 chaddr | 44 sname | 108 file |
//	236 cookie | 240 options
type DHCP4 []byte

// ParseDHCP4 checks a request: fixed part, operation 1, cookie, and options up to the end marker or the end of data. What
// follows the end marker is cut off.
//
//	errors: DropDHCP4
func ParseDHCP4(b []byte) (DHCP4, Drop) {
	if len(b) < DHCP4Head || b[0] != 1 || b[2] > 16 || binary.BigEndian.Uint32(b[236:]) != dhcp4Cookie {
		return nil, DropDHCP4
	}
	for i := DHCP4Head; i < len(b); {
		switch {
		case b[i] == dhcp4End:
			return DHCP4(b[:i]), DropNone
		case b[i] == dhcp4Pad:
			i++
		case len(b)-i < 2 || int(b[i+1]) > len(b)-i-2:
			return nil, DropDHCP4
		default:
			i += 2 + int(b[i+1])
		}
	}
	return DHCP4(b), DropNone
}

// Next gives the option at or after offset at (begin with DHCP4Head) and the offset behind it; 0 when there is none left.
func (d DHCP4) Next(at int) (code uint8, value []byte, next int) {
	for at < len(d) && d[at] == dhcp4Pad {
		at++
	}
	if at >= len(d) {
		return 0, nil, 0
	}
	next = at + 2 + int(d[at+1])
	return d[at], d[at+2 : next], next
}

// Option gives the first option of that code; nil when there is none (an empty one is not nil).
func (d DHCP4) Option(code uint8) []byte {
	for at := DHCP4Head; ; {
		c, v, next := d.Next(at)
		if next == 0 {
			return nil
		}
		if c == code {
			return v
		}
		at = next
	}
}

// AddrOption gives the first option of that code as an address; zero when there is none or it is not 4 bytes long.
func (d DHCP4) AddrOption(code uint8) Addr {
	v := d.Option(code)
	if len(v) != 4 {
		return Addr{}
	}
	return Addr4From(v)
}

// Type gives the message type; 0 for BOOTP, which has none.
func (d DHCP4) Type() uint8 {
	v := d.Option(DHCP4OptType)
	if len(v) != 1 {
		return 0
	}
	return v[0]
}

func (d DHCP4) Client() Addr    { return Addr4From(d[12:]) } // ciaddr
func (d DHCP4) Broadcast() bool { return d[10]&0x80 != 0 }
func (d DHCP4) MAC() MAC        { return MAC(d[28:34]) }

// PutReply writes the fixed part of a reply to d, cookie included, into b[:DHCP4Head]: what identifies the client is
// copied, the rest is zero but yiaddr.
//
//	in: yours, IPv4 or zero
func (d DHCP4) PutReply(b []byte, yours *Addr) {
	clear(b[:DHCP4Head])
	b[0], b[1], b[2] = 2, d[1], d[2]
	copy(b[4:8], d[4:8])     // xid
	copy(b[10:16], d[10:16]) // flags, ciaddr
	copy(b[16:20], yours[12:])
	copy(b[24:44], d[24:44]) // giaddr, chaddr
	binary.BigEndian.PutUint32(b[236:], dhcp4Cookie)
}

// PutDHCP4End writes the end marker behind n bytes of message, fills up to DHCP4Min and returns the message's length.
func PutDHCP4End(b []byte, n int) int {
	b[n] = dhcp4End
	n++
	if n < DHCP4Min {
		clear(b[n:DHCP4Min])
		n = DHCP4Min
	}
	return n
}
