// SPDX-License-Identifier: Apache-2.0

package conf

import (
	"slices"

	"passt/dataplane/fwd"
	"passt/dataplane/wire"
	"passt/ipc"
	"passt/supervisor/host"
)

// ourMAC is our default Ethernet address (spec addressing 1).
var ourMAC = wire.MAC{0x9a, 0x55, 0x9a, 0x55, 0x9a, 0x55}

// Resolve joins what was typed with what the host looks like.
//
//	errors: combinations that cannot work, bad port specifications; the text is complete
//	source: spec addressing 2 to 6, cli 3.6, 3.7, forwarding 2
func Resolve(o *Options, h *Host) (*Plan, error) {
	p := new(Plan)
	for _, w := range o.Warnings {
		p.say(LevelWarn, "%s", w)
	}
	r := resolver{o: o, h: h, p: p, b: &p.Boot, f: &p.Boot.Fwd}
	for _, step := range []func() error{r.switches, r.families, r.services, r.rules} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	var err error
	if p.Target, err = o.target(h); err != nil {
		return nil, err
	}
	r.names()
	if o.ConfigNet && !o.SpliceOnly {
		p.NS = r.namespace()
	}
	if p.Target.Command == nil || o.Debug {
		p.Summary = r.summary()
	}
	return p, nil
}

// resolver is the work in progress.
type resolver struct {
	o *Options
	h *Host
	p *Plan
	b *ipc.Boot
	f *fwd.Config
}

// switches fills what depends on the options alone.
func (r *resolver) switches() error {
	o, b, f := r.o, r.b, r.f
	b.Mode = ipc.ModePasta
	if o.Mode == ModePasst {
		b.Mode = ipc.ModePasst
	}
	f.TCP, f.UDP, f.ICMP = !o.NoTCP, !o.NoUDP, !o.NoICMP && !o.SpliceOnly
	f.Splice = o.Mode == ModePasta && !o.NoSplice
	f.SpliceOnly = o.SpliceOnly
	f.HostLoToNsLo = o.HostLoToNsLo || o.SpliceOnly
	f.FreeBind = o.FreeBind
	f.V4.On, f.V6.On = o.Only != 6, o.Only != 4
	if f.V6.On && !r.h.HasIPv6 {
		if o.Only == 6 {
			return errorf("This kernel has no IPv6, --ipv6-only is not possible")
		}
		f.V6.On = false
	}
	b.OurMAC = ourMAC
	if m := wire.MAC(o.MAC); !m.IsZero() {
		b.OurMAC = m
	}
	b.MTU = DefaultMTU
	if o.MTU >= 0 {
		b.MTU = uint32(o.MTU)
	}
	switch {
	case b.MTU == 0:
	case f.V4.On && b.MTU < 68:
		r.p.say(LevelWarn, "MTU %d is too small for IPv4, minimum 68", b.MTU)
	case f.V6.On && b.MTU < 1280:
		r.p.say(LevelWarn, "MTU %d is too small for IPv6, minimum 1280", b.MTU)
	}
	b.Hostname, b.FQDN = o.Hostname, o.FQDN
	b.SynRetries, b.SynLinear, b.RTOMaxMs = r.h.SynRetries, r.h.SynLinear, r.h.RTOMaxMs
	b.UDPTimeout, b.UDPStream = r.h.UDPTimeout, r.h.UDPStream
	return nil
}

// families fills the addresses of both families and the maps.
func (r *resolver) families() error {
	for _, n := range r.h.Notes {
		r.p.say(LevelInfo, "%s", n)
	}
	o, f := r.o, r.f
	for _, c := range []struct {
		f                        *fwd.Family
		t                        *host.Template
		name, opt, ifName        string
		addr, out, loop, map_, d wire.Addr
		fill                     func(t *host.Template)
	}{
		{&f.V4, r.h.V4, "IPv4", "--outbound-if4", o.OutboundIf4, o.Addr.V4, o.Outbound.V4, o.MapLoop.V4, o.MapGuest.V4, o.DNSForward.V4, r.family4},
		{&f.V6, r.h.V6, "IPv6", "--outbound-if6", o.OutboundIf6, o.Addr.V6, o.Outbound.V6, o.MapLoop.V6, o.MapGuest.V6, o.DNSForward.V6, r.family6},
	} {
		if !c.f.On {
			if c.ifName != "" {
				return errorf("%s %s given, but %s is off", c.opt, c.ifName, c.name)
			}
			continue
		}
		c.fill(c.t)
		if c.f.Local {
			if c.ifName != "" && !o.SpliceOnly {
				return errorf("%s %s: interface cannot be used for %s, it has no address", c.opt, c.ifName, c.name)
			}
			if !o.SpliceOnly {
				r.p.say(LevelInfo, "No interface with usable %s as template, local mode for %s", c.name, c.name)
			}
		} else {
			c.f.Scope = uint32(c.t.IfIndex)
		}
		c.f.Pinned = !c.addr.IsZero()
		c.f.Outbound = c.out
		c.f.OutboundIf, _ = fwd.MakeIfName(c.ifName) // length checked when read
		c.f.MapLoop = c.loop
		if c.loop.IsZero() && !o.NoMapGW {
			c.f.MapLoop = c.f.Gateway
		}
		c.f.MapGuest, c.f.DNSMatch = c.map_, c.d
		c.f.MapGuestTo = guestTo(c.f.Guest, !c.addr.IsZero(), c.t)
	}
	return nil
}

// family4 fills the addresses of IPv4; local mode honours -a, -n and -g.
func (r *resolver) family4(t *host.Template) {
	o, f := r.o, &r.f.V4
	switch {
	case t != nil && !t.Addr.IsZero():
		f.Guest, f.Prefix, f.Gateway = t.Addr, uint8(t.Prefix), t.Gateway
	case t != nil && !o.Addr.V4.IsZero():
		f.Gateway = t.Gateway
	default:
		f.Local = true
		f.Guest, f.Prefix, f.Gateway = wire.Addr4(169, 254, 2, 1), 16, wire.Addr4(169, 254, 2, 2)
	}
	if !o.Addr.V4.IsZero() {
		f.Guest, f.Prefix = o.Addr.V4, class(&o.Addr.V4)
	}
	switch {
	case o.AddrLen4 != 0:
		f.Prefix = uint8(o.AddrLen4)
	case o.Netmask != 0:
		f.Prefix = uint8(o.Netmask)
	}
	if !o.Gateway.V4.IsZero() {
		f.Gateway = o.Gateway.V4
	}
	f.Our = f.Gateway
}

// class gives the prefix length that an address had before there were prefixes.
func class(a *wire.Addr) uint8 {
	switch b := a.V4()[0]; {
	case b < 128:
		return 8
	case b < 192:
		return 16
	case b < 224:
		return 24
	}
	return 32
}

// family6 fills the addresses of IPv6; the prefix is always 64.
func (r *resolver) family6(t *host.Template) {
	o, f := r.o, &r.f.V6
	f.Prefix = 64
	f.Guest = o.Addr.V6
	if t != nil {
		f.Gateway, f.Our = t.Gateway, t.LinkLocal
		if f.Guest.IsZero() {
			f.Guest = t.Addr
		}
	}
	if !o.Gateway.V6.IsZero() {
		f.Gateway = o.Gateway.V6
	}
	if f.Gateway.IsLinkLocal() {
		f.Our = f.Gateway
	}
	if t != nil && !f.Guest.IsZero() && !f.Our.IsZero() {
		return
	}
	local := wire.Addr{0: 0xfe, 1: 0x80, 15: 1}
	f.Local, f.Guest, f.Gateway, f.Our = true, o.Addr.V6, local, local
	if !o.Gateway.V6.IsZero() {
		f.Gateway = o.Gateway.V6
		if f.Gateway.IsLinkLocal() {
			f.Our = f.Gateway
		}
	}
}

// guestTo gives the host's own address that --map-guest-addr leads to: the guest's one where the host has it too, else the
// template's; unset in local mode, where the host has none.
func guestTo(guest wire.Addr, given bool, t *host.Template) wire.Addr {
	if t == nil {
		return wire.Addr{}
	}
	if given {
		for i := range t.Addresses {
			if t.Addresses[i].Addr == guest {
				return guest
			}
		}
	}
	return t.Addr
}

// services fills which built-in servers run, and their resolvers and search list.
func (r *resolver) services() error {
	o, b, f := r.o, r.b, r.f
	tap := !o.SpliceOnly
	b.ConfigNet = o.ConfigNet && tap
	b.DHCP4 = tap && f.V4.On && !o.NoDHCP && !f.V4.Gateway.IsZero()
	b.DHCP6 = tap && f.V6.On && !o.NoDHCPv6 && !f.V6.Guest.IsZero()
	b.NDP = tap && f.V6.On && !o.NoNDP && !o.NoICMP
	b.RA = b.NDP && !o.NoRA && !o.ConfigNet
	b.SendDNS = tap && (o.DHCPDNS || o.Mode == ModePasst)
	b.SendSearch = tap && (o.DHCPSearch || o.Mode == ModePasst)
	if !tap {
		return nil
	}
	b.DNS4 = r.resolvers(&f.V4, o.DNS4, r.h.Resolv.Servers4, o.DNSHost.V4)
	b.DNS6 = r.resolvers(&f.V6, o.DNS6, r.h.Resolv.Servers6, o.DNSHost.V6)
	if b.Search = o.Search; b.Search == nil && !o.NoSearch {
		b.Search = r.h.Resolv.Search
	}
	b.Search = b.Search[:min(len(b.Search), ipc.MaxSearch)]
	if o.NoDNS {
		return nil
	}
	if len(b.DNS4)+len(b.DNS6) == 0 {
		r.p.say(LevelWarn, "Couldn't get any nameserver address")
		return nil
	}
	if b.SendDNS && b.DHCP4 && len(b.DNS4) == 0 {
		r.p.say(LevelWarn, "No IPv4 nameserver available for DHCP")
	}
	if b.SendDNS && (b.DHCP6 || b.RA) && len(b.DNS6) == 0 {
		r.p.say(LevelWarn, "No IPv6 nameserver available for NDP/DHCPv6")
	}
	return nil
}

// resolvers gives the list of one family and sets the resolver behind the DNS match (spec addressing 6). That one comes
// from resolv.conf whether or not -D gives a list: else queries would end at the host's loopback.
func (r *resolver) resolvers(f *fwd.Family, given, read []wire.Addr, dnsHost wire.Addr) []wire.Addr {
	if !f.On {
		return nil
	}
	read = slices.Clone(read)
	for i := range read {
		if read[i].IsUnspecified() {
			read[i][15] = 1 // means this host to the resolver library: 127.0.0.1, ::1
			if read[i].Is4() {
				read[i][12] = 127
			}
		}
	}
	f.DNSHost = dnsHost
	if dnsHost.IsZero() && len(read) > 0 {
		f.DNSHost = read[0]
	}
	if len(given) > 0 || r.o.NoDNS {
		return given
	}
	var out []wire.Addr
	stoodIn := false
	for _, a := range read[:min(len(read), maxDNS)] {
		if a.IsLoopback() || a == f.MapLoop {
			if f.DNSMatch.IsZero() {
				f.DNSMatch = f.MapLoop
			}
			if a = f.DNSMatch; a.IsZero() || stoodIn {
				continue
			}
			stoodIn = true
		}
		out = append(out, a)
	}
	return out
}

// names chooses the tap's name and address.
func (r *resolver) names() {
	p, o := r.p, r.o
	if o.SpliceOnly {
		return
	}
	p.TapMAC = o.NsMAC
	switch {
	case o.NsIfName != "":
		p.TapName = o.NsIfName
	case r.f.V4.On && r.h.V4 != nil && !r.f.V4.Local:
		p.TapName = r.h.V4.IfName
	case r.f.V6.On && r.h.V6 != nil && !r.f.V6.Local:
		p.TapName = r.h.V6.IfName
	default:
		p.TapName = "tap0"
	}
}

// rules reads the port specifications, now that the families are known, in the order of the line.
func (r *resolver) rules() error {
	given := map[byte]bool{}
	for _, po := range r.o.Ports {
		given[po.Option] = true
		if err := r.addPorts(po); err != nil {
			return err
		}
	}
	if r.o.Mode != ModePasta {
		return nil
	}
	for _, c := range []byte("tuTU") {
		if off := r.protoOff(c); given[c] || off {
			continue
		}
		if err := r.addPorts(PortOption{c, "auto"}); err != nil {
			return err
		}
	}
	return nil
}

func (r *resolver) protoOff(option byte) bool {
	if option == 't' || option == 'T' {
		return r.o.NoTCP
	}
	return r.o.NoUDP
}

func (r *resolver) addPorts(po PortOption) error {
	if r.protoOff(po.Option) && po.Spec != "none" {
		return errorf("-%c %s: this protocol is off", po.Option, po.Spec)
	}
	sp := fwd.SpecParams{Proto: fwd.ProtoTCP, V4: r.f.V4.On, V6: r.f.V6.On, ScanOK: r.o.Mode == ModePasta, NoBindDevice: r.h.NoBindDevice,
		EphemeralLo: r.h.EphemeralLo, EphemeralHi: r.h.EphemeralHi}
	if po.Option == 'u' || po.Option == 'U' {
		sp.Proto = fwd.ProtoUDP
	}
	table := &r.b.Host
	if sp.Ns = po.Option == 'T' || po.Option == 'U'; sp.Ns {
		table = &r.b.Ns
	}
	var err error
	if *table, err = fwd.AddSpec(*table, &sp, po.Spec); err != nil {
		return errorf("-%c %s: %w", po.Option, po.Spec, err)
	}
	return nil
}
