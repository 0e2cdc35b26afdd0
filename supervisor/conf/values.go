// SPDX-License-Identifier: Apache-2.0

package conf

import (
	"fmt"
	"math/bits"
	"net/netip"
	"strconv"
	"strings"

	"passt/dataplane/wire"
)

func errorf(format string, args ...any) error { return fmt.Errorf(format, args...) }

// unsigned cuts what strtoul(3) skips before digits: blanks and one plus sign.
func unsigned(s string) string {
	return strings.TrimPrefix(strings.TrimLeft(s, " \t\n\v\f\r"), "+")
}

// number reads decimal, 0x hexadecimal or leading-zero octal, at most limit (spec cli 2.5).
func number(s string, limit int) (int, bool) {
	s = unsigned(s)
	base := 10
	if lower := strings.ToLower(s); strings.HasPrefix(lower, "0x") {
		s, base = s[2:], 16
	} else if len(s) > 1 && s[0] == '0' {
		s, base = s[1:], 8
	}
	if s == "" || s[0] == '+' || s[0] == '-' {
		return 0, false
	}
	n, err := strconv.ParseUint(s, base, 32)
	return int(n), err == nil && n <= uint64(limit)
}

// decimal reads a number of digits only, at most limit.
func decimal(s string, limit int) (int, bool) {
	s = unsigned(s)
	if s == "" || s[0] == '+' || s[0] == '-' {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 32)
	return int(n), err == nil && n <= uint64(limit)
}

// address reads an IPv4 or IPv6 address, bracketed or not; ::ffff:a.b.c.d is IPv4.
func address(s string) (wire.Addr, bool) {
	if n := len(s); n > 1 && s[0] == '[' && s[n-1] == ']' {
		s = s[1 : n-1]
	}
	a, err := netip.ParseAddr(s)
	if err != nil || a.Zone() != "" {
		return wire.Addr{}, false
	}
	return wire.FromNetip(a), true
}

// refuse says which addresses an option cannot take.
type refuse uint8

const (
	noUnspecified refuse = 1 << iota
	noLoopback
	noLoopback6 // ::1 only
	noMulticast
	noBroadcast
	noEmbedded // IPv6 text for an IPv4 address: mapped, compatible
)

// checked reads an address and refuses the kinds in no; what names it in the message.
func checked(s, what string, no refuse) (wire.Addr, error) {
	a, ok := address(s)
	text6 := strings.Contains(s, ":")
	compat := text6 && a.InPrefix(&wire.Addr{}, 96)
	switch {
	case !ok,
		no&noUnspecified != 0 && a.IsUnspecified(),
		no&noLoopback != 0 && a.IsLoopback(),
		no&noLoopback6 != 0 && a.IsLoopback() && !a.Is4(),
		no&noMulticast != 0 && a.IsMulticast(),
		no&noBroadcast != 0 && a.IsBroadcast(),
		no&noEmbedded != 0 && (text6 && a.Is4() || compat):
		return a, errorf("Invalid %s: %s", what, s)
	}
	return a, nil
}

// netmask reads a contiguous dotted mask or a length.
func netmask(s string) (int, error) {
	if a, ok := address(s); ok && a.Is4() {
		b := a.V4()
		m := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
		n := bits.LeadingZeros32(^m)
		if bits.OnesCount32(m) == n {
			return n, nil
		}
	} else if n, ok := number(s, 32); ok {
		return n, nil
	}
	return 0, errorf("Invalid netmask: %s", s)
}

// mac reads xx:xx:xx:xx:xx:xx.
func mac(s string) (m wire.MAC, err error) {
	bad := errorf("Invalid MAC address: %s", s)
	if len(s) != 17 {
		return m, bad
	}
	for i := range m {
		n, e := strconv.ParseUint(s[i*3:i*3+2], 16, 8)
		if e != nil || i < 5 && s[i*3+2] != ':' {
			return m, bad
		}
		m[i] = byte(n)
	}
	if m[0]&1 != 0 {
		return m, errorf("MAC address is not unicast: %s", s)
	}
	return m, nil
}

// ifName checks the length of an interface name; the kernel checks the rest.
func ifName(s string) (string, error) {
	if s == "" || len(s) > 15 {
		return "", errorf("Invalid interface name: %s", s)
	}
	return s, nil
}

func path(s, what string) (string, error) {
	if s == "" || len(s) > maxPath {
		return "", errorf("Invalid %s: %s", what, s)
	}
	return s, nil
}

func hostName(s, what string) (string, error) {
	if len(s) > maxName {
		return "", errorf("%s is longer than %d bytes: %s", what, maxName, s)
	}
	return s, nil
}
