// SPDX-License-Identifier: Apache-2.0

package wire

import "encoding/binary"

// DHCPv6 (RFC 8415).
const (
	DHCP6ServerPort = 547
	DHCP6ClientPort = 546

	DHCP6Head = 4                        // message type and transaction id
	DHCP6Max  = 1280 - IP6Size - UDPSize // longest reply: the least MTU of IPv6 takes it whole

	DHCP6Solicit   = 1
	DHCP6Advertise = 2
	DHCP6Request   = 3
	DHCP6Confirm   = 4
	DHCP6Renew     = 5
	DHCP6Rebind    = 6
	DHCP6Reply     = 7
	DHCP6Release   = 8
	DHCP6Decline   = 9
	DHCP6InfoReq   = 11

	DHCP6OptClientID = 1
	DHCP6OptServerID = 2
	DHCP6OptIANA     = 3
	DHCP6OptIATA     = 4
	DHCP6OptIAAddr   = 5
	DHCP6OptStatus   = 13
	DHCP6OptRapid    = 14
	DHCP6OptDNS      = 23 // RFC 3646
	DHCP6OptSearch   = 24 // RFC 3646
	DHCP6OptIAPD     = 25
	DHCP6OptFQDN     = 39 // RFC 4704

	DHCP6Success       = 0
	DHCP6NoAddrsAvail  = 2
	DHCP6NotOnLink     = 4
	DHCP6NoPrefixAvail = 6

	MaxDUID = 128 // bytes (RFC 8415 s.11.1: 130 with its type)
)

// DHCP6 is a client's message; ParseDHCP6 checked that its options are well-formed, those inside IAs too.
//
//	0 type | 1 transaction id | 4 options: code 2, length 2, value
type DHCP6 []byte

// ParseDHCP6 checks a client's message; relay messages have another head and are refused.
//
//	errors: DropDHCP6
func ParseDHCP6(b []byte) (DHCP6, Drop) {
	if len(b) < DHCP6Head || b[0] == 0 || b[0] > DHCP6InfoReq || !dhcp6Fits(b[DHCP6Head:]) {
		return nil, DropDHCP6
	}
	for at := DHCP6Head; ; {
		code, v, next := DHCP6(b).Next(at)
		if next == 0 {
			return DHCP6(b), DropNone
		}
		if n := IAHead(code); n > 0 && (len(v) < n || !dhcp6Fits(v[n:])) {
			return nil, DropDHCP6
		}
		if code == DHCP6OptClientID && len(v) > MaxDUID {
			return nil, DropDHCP6
		}
		at = next
	}
}

// IAHead gives the bytes in front of the options of an identity association, 0 for other codes.
func IAHead(code uint16) int {
	switch code {
	case DHCP6OptIANA, DHCP6OptIAPD:
		return 12
	case DHCP6OptIATA:
		return 4
	}
	return 0
}

// dhcp6Fits tells whether b is a sequence of whole options.
func dhcp6Fits(b []byte) bool {
	for len(b) > 0 {
		if len(b) < 4 {
			return false
		}
		n := 4 + int(binary.BigEndian.Uint16(b[2:]))
		if n > len(b) {
			return false
		}
		b = b[n:]
	}
	return true
}

// Next gives the option at offset at (begin with DHCP6Head, or IAHead within an IA's value) and the offset behind it; 0 when
// there is none left.
func (d DHCP6) Next(at int) (code uint16, value []byte, next int) {
	if at >= len(d) {
		return 0, nil, 0
	}
	next = at + 4 + int(binary.BigEndian.Uint16(d[at+2:]))
	return binary.BigEndian.Uint16(d[at:]), d[at+4 : next], next
}

// Option gives the first option of that code; nil when there is none (an empty one is not nil).
func (d DHCP6) Option(code uint16) []byte { return d.find(DHCP6Head, code) }

// HasIn tells whether the options of d from offset at on, an IA's value and its IAHead, hold one of that code.
func (d DHCP6) HasIn(at int, code uint16) bool { return d.find(at, code) != nil }

func (d DHCP6) find(at int, code uint16) []byte {
	for {
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

func (d DHCP6) Type() uint8 { return d[0] }

// DHCP6Writer writes a message into B; an option that does not fit is left out whole. Begin and End bracket an option that
// holds others.
type DHCP6Writer struct {
	B []byte // whole room
	N int    // bytes written
}

// Head writes the type and d's transaction id.
func (w *DHCP6Writer) Head(kind uint8, d DHCP6) {
	w.B[0] = kind
	copy(w.B[1:DHCP6Head], d[1:DHCP6Head])
	w.N = DHCP6Head
}

// Option writes one option and tells whether it fitted.
func (w *DHCP6Writer) Option(code uint16, value []byte) bool {
	n := 4 + len(value)
	if n > len(w.B)-w.N {
		return false
	}
	binary.BigEndian.PutUint16(w.B[w.N:], code)
	binary.BigEndian.PutUint16(w.B[w.N+2:], uint16(len(value)))
	copy(w.B[w.N+4:], value)
	w.N += n
	return true
}

// Raw writes complete options made beforehand, all or none.
func (w *DHCP6Writer) Raw(options []byte) bool {
	if len(options) > len(w.B)-w.N {
		return false
	}
	w.N += copy(w.B[w.N:], options)
	return true
}

// Begin writes an option whose value begins with head and goes on with what is written until End; at is for End, negative
// when it did not fit.
func (w *DHCP6Writer) Begin(code uint16, head []byte) (at int) {
	at = w.N
	if !w.Option(code, head) {
		return -1
	}
	return at
}

// End sets the length of the option begun at at.
func (w *DHCP6Writer) End(at int) {
	binary.BigEndian.PutUint16(w.B[at+2:], uint16(w.N-at-4))
}

// Addr writes an IA address option.
//
//	in: lifetimeS, both lifetimes in seconds
func (w *DHCP6Writer) Addr(a *Addr, lifetimeS uint32) bool {
	var v [24]byte
	copy(v[:], a[:])
	binary.BigEndian.PutUint32(v[16:], lifetimeS)
	binary.BigEndian.PutUint32(v[20:], lifetimeS)
	return w.Option(DHCP6OptIAAddr, v[:])
}

// Status writes a status option with its text.
func (w *DHCP6Writer) Status(code uint16, text string) bool {
	n := 6 + len(text)
	if n > len(w.B)-w.N {
		return false
	}
	b := w.B[w.N:]
	binary.BigEndian.PutUint16(b, DHCP6OptStatus)
	binary.BigEndian.PutUint16(b[2:], uint16(n-4))
	binary.BigEndian.PutUint16(b[4:], code)
	copy(b[6:], text)
	w.N += n
	return true
}
