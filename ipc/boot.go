// SPDX-License-Identifier: Apache-2.0

package ipc

import (
	"fmt"

	"passt/dataplane/fwd"
	"passt/dataplane/wire"
)

// Mode of the instance.
type Mode uint8

const (
	ModePasta Mode = 1
	ModePasst Mode = 2
	ModeVhost Mode = 3
)

// BootVersion changes with any change of the layout; both ends are one binary, so a mismatch is our bug.
const BootVersion = 1

// Limits of what Boot carries.
const (
	MaxDNS    = 3
	MaxSearch = 6
	MaxName   = 253 // bytes of a host or domain name
)

// Boot is all that the worker knows: numbers and addresses, no path, no argument, no environment.
// Zero means "off" or "unset" unless a field says otherwise.
type Boot struct {
	Mode     Mode
	Fwd      fwd.Config
	Host     []fwd.Rule // listeners on the host side (-t, -u), at most fwd.MaxRules
	Ns       []fwd.Rule // listeners in the namespace (-T, -U)
	MTU      uint32     // bytes, of the guest's link; 0: unset (1500 assumed, not announced)
	OurMAC   wire.MAC   // our Ethernet address as the guest sees it
	GuestMAC wire.MAC   // known beforehand in pasta, else zero
	GuestLL  wire.Addr  // link-local address of the namespace's tap, if known

	DHCP4, DHCP6, NDP, RA bool // built-in services on
	ConfigNet             bool // namespace configured by us: probe at start, no advertisements
	SendDNS, SendSearch   bool // put resolvers and search list into DHCP, DHCPv6 and advertisements
	DNS4, DNS6            []wire.Addr
	Search                []string
	Hostname, FQDN        string

	Secret       [16]byte // key of the flow hash and of initial sequence numbers (RFC 6528)
	SynRetries   uint8    // net.ipv4.tcp_syn_retries
	SynLinear    uint8    // net.ipv4.tcp_syn_linear_timeouts
	RTOMaxMs     uint32   // net.ipv4.tcp_rto_max_ms
	UDPTimeout   uint32   // seconds, nf_conntrack_udp_timeout or 30
	UDPStream    uint32   // seconds, nf_conntrack_udp_timeout_stream or 120
	NoPeekOffset bool     // test switch: pretend that SO_PEEK_OFF does not exist for TCP
	Capture      bool     // a capture file will be granted
	LogLevel     uint8    // logx level
	MaxFlows     uint32   // descriptors allow this many flows; 0: table size
	ClockBaseNs  uint64   // CLOCK_MONOTONIC at program start, for time stamps
}

// codec visits the fields of Boot in one order for both directions.
type codec struct {
	b   []byte // written so far, or left to read
	put bool
	bad bool
}

func (c *codec) raw(p []byte) {
	if c.put {
		c.b = append(c.b, p...)
		return
	}
	if len(c.b) < len(p) {
		c.bad = true
		return
	}
	copy(p, c.b)
	c.b = c.b[len(p):]
}

func (c *codec) u8(v *uint8) {
	p := [1]byte{*v}
	c.raw(p[:])
	*v = p[0]
}

func (c *codec) u16(v *uint16) {
	var p [2]byte
	be.PutUint16(p[:], *v)
	c.raw(p[:])
	*v = be.Uint16(p[:])
}

func (c *codec) u32(v *uint32) {
	var p [4]byte
	be.PutUint32(p[:], *v)
	c.raw(p[:])
	*v = be.Uint32(p[:])
}

func (c *codec) u64(v *uint64) {
	var p [8]byte
	be.PutUint64(p[:], *v)
	c.raw(p[:])
	*v = be.Uint64(p[:])
}

func (c *codec) flags(vs ...*bool) {
	for _, v := range vs {
		var x uint8
		if *v {
			x = 1
		}
		c.u8(&x)
		if x > 1 {
			c.bad = true
		}
		*v = x == 1
	}
}

// count visits a length and refuses one above limit.
func (c *codec) count(n, limit int) int {
	x := uint16(n)
	c.u16(&x)
	if int(x) > limit || n > limit {
		c.bad = true
		return 0
	}
	return int(x)
}

func (c *codec) str(s *string, limit int) {
	n := c.count(len(*s), limit)
	p := make([]byte, n)
	copy(p, *s)
	c.raw(p)
	*s = string(p)
}

func (c *codec) family(f *fwd.Family) {
	c.flags(&f.On, &f.Local, &f.Pinned)
	c.u8(&f.Prefix)
	for _, a := range []*wire.Addr{&f.Guest, &f.Gateway, &f.Our, &f.MapLoop, &f.MapGuest, &f.MapGuestTo, &f.DNSMatch, &f.DNSHost, &f.Outbound} {
		c.raw(a[:])
	}
	c.raw(f.OutboundIf[:])
	c.u32(&f.Scope)
}

func (c *codec) rules(rs *[]fwd.Rule) {
	n := c.count(len(*rs), fwd.MaxRules)
	if !c.put {
		*rs = make([]fwd.Rule, n)
	}
	for i := range n {
		r := &(*rs)[i]
		c.raw(r.Addr[:])
		c.raw(r.Target[:])
		c.raw(r.If[:])
		c.u16(&r.First)
		c.u16(&r.Last)
		c.u16(&r.To)
		c.u8(&r.Proto)
		f := uint8(r.Flags)
		c.u8(&f)
		r.Flags = fwd.RuleFlags(f)
	}
}

func (c *codec) addrs(as *[]wire.Addr) {
	n := c.count(len(*as), MaxDNS)
	if !c.put {
		*as = make([]wire.Addr, n)
	}
	for i := range n {
		c.raw((*as)[i][:])
	}
}

func (c *codec) boot(b *Boot) {
	version := uint8(BootVersion)
	c.u8(&version)
	if version != BootVersion {
		c.bad = true
		return
	}
	mode := uint8(b.Mode)
	c.u8(&mode)
	b.Mode = Mode(mode)
	c.family(&b.Fwd.V4)
	c.family(&b.Fwd.V6)
	c.flags(&b.Fwd.TCP, &b.Fwd.UDP, &b.Fwd.ICMP, &b.Fwd.Splice, &b.Fwd.SpliceOnly, &b.Fwd.HostLoToNsLo, &b.Fwd.FreeBind)
	c.rules(&b.Host)
	c.rules(&b.Ns)
	c.u32(&b.MTU)
	c.raw(b.OurMAC[:])
	c.raw(b.GuestMAC[:])
	c.raw(b.GuestLL[:])
	c.flags(&b.DHCP4, &b.DHCP6, &b.NDP, &b.RA, &b.ConfigNet, &b.SendDNS, &b.SendSearch)
	c.addrs(&b.DNS4)
	c.addrs(&b.DNS6)
	n := c.count(len(b.Search), MaxSearch)
	if !c.put {
		b.Search = make([]string, n)
	}
	for i := range n {
		c.str(&b.Search[i], 1024)
	}
	c.str(&b.Hostname, MaxName)
	c.str(&b.FQDN, MaxName)
	c.raw(b.Secret[:])
	c.u8(&b.SynRetries)
	c.u8(&b.SynLinear)
	for _, v := range []*uint32{&b.RTOMaxMs, &b.UDPTimeout, &b.UDPStream, &b.MaxFlows} {
		c.u32(v)
	}
	c.flags(&b.NoPeekOffset, &b.Capture)
	c.u8(&b.LogLevel)
	c.u64(&b.ClockBaseNs)
}

// EncodeBoot gives the body of a KindBoot packet, at most MaxBoot bytes.
func EncodeBoot(b *Boot) ([]byte, error) {
	c := codec{put: true, b: make([]byte, 0, 4096)}
	c.boot(b)
	if c.bad || len(c.b) > MaxBoot {
		return nil, fmt.Errorf("%w: boot: a list is too long (%d bytes)", ErrFormat, len(c.b))
	}
	return c.b, nil
}

// ParseBoot reads what EncodeBoot wrote; every byte must be used.
func ParseBoot(p []byte) (*Boot, error) {
	c := codec{b: p}
	b := new(Boot)
	c.boot(b)
	if c.bad || len(c.b) != 0 {
		return nil, fmt.Errorf("%w: boot: bad field or %d bytes left over", ErrFormat, len(c.b))
	}
	return b, nil
}
