// SPDX-License-Identifier: Apache-2.0

package conf

import (
	"os"
	"strconv"
	"strings"

	"passt/supervisor/host"
)

// Load asks the kernel and /etc/resolv.conf what the options leave open, and resolves.
//
//	errors: an interface that does not exist, netlink that does not answer, what Resolve refuses
func Load(o *Options) (*Plan, error) {
	h, err := look(o)
	if err != nil {
		return nil, err
	}
	return Resolve(o, h)
}

func look(o *Options) (*Host, error) {
	h := &Host{HasIPv6: host.HasIPv6(), NoBindDevice: kernelBefore(5, 7)}
	h.EphemeralLo, h.EphemeralHi = host.EphemeralRange()
	h.Shell, h.ShellSet = os.LookupEnv("SHELL")
	h.Resolv, _ = host.ReadResolv("/etc/resolv.conf") // missing: as if it named no resolver
	for _, name := range []string{o.Interface, o.OutboundIf4, o.OutboundIf6} {
		if name == "" {
			continue
		}
		if err := host.InterfaceExists(name); err != nil {
			return nil, errorf("Invalid interface name %s: %w", name, err)
		}
	}
	h.sysctls()
	if o.SpliceOnly {
		return h, nil
	}
	c := host.Choice{Interface4: o.OutboundIf4, Interface6: o.OutboundIf6, V4: o.Only != 6, V6: o.Only != 4 && h.HasIPv6}
	if o.Interface != "" {
		c.Interface4, c.Interface6 = o.Interface, o.Interface
	}
	var err error
	if h.V4, h.V6, h.Notes, err = host.Discover(c); err != nil {
		return nil, errorf("read addresses and routes of the host: %w", err)
	}
	switch {
	case h.V6 != nil && (h.V6.HasDefault || !h.V6.Addr.IsZero()):
		h.DefaultV6 = h.V6.HasDefault
	case c.V6 && c.Interface6 != "":
		// The named interface has no IPv6; another one may carry the host's default route.
		_, any6, _, err := host.Discover(host.Choice{V6: true})
		h.DefaultV6 = err == nil && any6 != nil && any6.HasDefault
	}
	return h, nil
}

// sysctls reads the kernel's settings that our own timers follow (spec tcp, udp), with the kernel's defaults.
func (h *Host) sysctls() {
	read := func(name string, def, limit int) int {
		if v, ok := host.Sysctl(name); ok && v >= 0 {
			return min(v, limit)
		}
		return def
	}
	const day = 86400 // seconds; nobody means more
	h.SynRetries = uint8(read("net/ipv4/tcp_syn_retries", 6, 127))
	h.SynLinear = uint8(read("net/ipv4/tcp_syn_linear_timeouts", 4, 127))
	h.RTOMaxMs = uint32(read("net/ipv4/tcp_rto_max_ms", 120_000, 120_000))
	h.UDPTimeout = uint32(read("net/netfilter/nf_conntrack_udp_timeout", 30, day))
	h.UDPStream = uint32(read("net/netfilter/nf_conntrack_udp_timeout_stream", 120, day))
}

// kernelBefore compares the running kernel's version; false where it cannot be read.
func kernelBefore(major, minor int) bool {
	b, err := os.ReadFile("/proc/sys/kernel/osrelease")
	f := strings.FieldsFunc(string(b), func(r rune) bool { return r < '0' || r > '9' })
	if err != nil || len(f) < 2 {
		return false
	}
	x, e1 := strconv.Atoi(f[0])
	y, e2 := strconv.Atoi(f[1])
	return e1 == nil && e2 == nil && (x < major || x == major && y < minor)
}
