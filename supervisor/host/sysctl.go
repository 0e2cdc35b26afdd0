// SPDX-License-Identifier: Apache-2.0

package host

import (
	"os"
	"strconv"
	"strings"

	"passt/internal/sys"
)

// Sysctl reads one number below /proc/sys, by its path (net/ipv4/tcp_syn_retries); false when it is not there or is no
// number.
func Sysctl(name string) (int, bool) {
	b, err := os.ReadFile("/proc/sys/" + name)
	if err != nil {
		return 0, false
	}
	v, err := strconv.Atoi(strings.TrimSpace(string(b)))
	return v, err == nil
}

// EphemeralRange gives the ports that the kernel hands out by itself; where it does not tell, those of RFC 6335 s.6.
func EphemeralRange() (lo, hi uint16) {
	b, _ := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range") // unreadable: the same as empty
	return parseRange(string(b))
}

func parseRange(s string) (lo, hi uint16) {
	if f := strings.Fields(s); len(f) == 2 {
		l, e1 := strconv.ParseUint(f[0], 10, 16)
		h, e2 := strconv.ParseUint(f[1], 10, 16)
		if e1 == nil && e2 == nil && l > 0 && l <= h {
			return uint16(l), uint16(h)
		}
	}
	return 49152, 65535
}

// HasIPv6 tells whether the kernel makes IPv6 sockets.
func HasIPv6() bool {
	fd, e := sys.Socket(sys.AFInet6, sys.SockDgram, 0)
	sys.Close(fd)
	return e == 0
}
