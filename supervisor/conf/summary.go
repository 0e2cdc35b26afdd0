// SPDX-License-Identifier: Apache-2.0

package conf

import (
	"fmt"

	"passt/dataplane/fwd"
	"passt/dataplane/wire"
)

// summary gives the lines of the start-up summary (spec cli 6.1); labels appear in bug reports and are kept.
func (r *resolver) summary() []string {
	o, b := r.o, r.b
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if !o.SpliceOnly {
		if t := r.templates(); t != "" {
			add("Template interface: %s", t)
		}
	}
	if s := pairText(o.OutboundIf4, o.OutboundIf6); s != "" {
		add("Outbound interface: %s", s)
	}
	if !o.Outbound.V4.IsZero() {
		add("Outbound IPv4 address: %s", o.Outbound.V4)
	}
	if !o.Outbound.V6.IsZero() {
		add("Outbound IPv6 address: %s", o.Outbound.V6)
	}
	if !o.SpliceOnly {
		add("Namespace interface: %s", r.p.TapName)
		add("MAC:")
		add("    host: %s", b.OurMAC)
		out = append(out, r.summary4()...)
		out = append(out, r.summary6()...)
	}
	out = append(out, ruleLines("Inbound forwarding rules (HOST):", b.Host)...)
	if o.Mode == ModePasta {
		out = append(out, ruleLines("Outbound forwarding rules (SPLICE):", b.Ns)...)
	}
	return out
}

// templates names the interface of each family that has one.
func (r *resolver) templates() string {
	var v4, v6 string
	if r.f.V4.On && !r.f.V4.Local {
		v4 = r.h.V4.IfName
	}
	if r.f.V6.On && !r.f.V6.Local {
		v6 = r.h.V6.IfName
	}
	return pairText(v4, v6)
}

// pairText prints "X (IPv4), Y (IPv6)" with what is set.
func pairText(v4, v6 string) string {
	switch {
	case v4 != "" && v6 != "":
		return v4 + " (IPv4), " + v6 + " (IPv6)"
	case v4 != "":
		return v4 + " (IPv4)"
	case v6 != "":
		return v6 + " (IPv6)"
	}
	return ""
}

func (r *resolver) summary4() (out []string) {
	f, b := &r.f.V4, r.b
	if !f.On {
		return nil
	}
	if !f.MapLoop.IsZero() {
		out = append(out, "NAT to host 127.0.0.1: "+f.MapLoop.String())
	}
	if b.DHCP4 {
		m := ^uint32(0) << (32 - f.Prefix)
		mask := wire.Addr4(byte(m>>24), byte(m>>16), byte(m>>8), byte(m))
		out = append(out, "DHCP:", "    assign: "+f.Guest.String(), "    mask: "+mask.String(), "    router: "+f.Gateway.String())
	}
	return append(out, nameLines(b.DNS4, b.Search)...)
}

func (r *resolver) summary6() (out []string) {
	f, b := &r.f.V6, r.b
	if !f.On {
		return nil
	}
	if !f.MapLoop.IsZero() {
		out = append(out, "NAT to host ::1: "+f.MapLoop.String())
	}
	head := ""
	switch {
	case b.NDP && b.DHCP6:
		head = "NDP/DHCPv6:"
	case b.DHCP6:
		head = "DHCPv6:"
	case b.NDP:
		head = "NDP:"
	default:
		return out
	}
	out = append(out, head)
	if !f.Guest.IsZero() {
		out = append(out, "    assign: "+f.Guest.String())
	}
	if !f.Gateway.IsZero() {
		out = append(out, "    router: "+f.Gateway.String())
	}
	out = append(out, "    our link-local: "+f.Our.String())
	return append(out, nameLines(b.DNS6, b.Search)...)
}

func nameLines(dns []wire.Addr, search []string) (out []string) {
	for i, a := range dns {
		if i == 0 {
			out = append(out, "DNS:")
		}
		out = append(out, "    "+a.String())
	}
	for i, s := range search {
		if i == 0 {
			out = append(out, "DNS search list:")
		}
		out = append(out, "    "+s)
	}
	return out
}

func ruleLines(head string, rules []fwd.Rule) (out []string) {
	for i := range rules {
		if i == 0 {
			out = append(out, head)
		}
		out = append(out, "    "+rules[i].String())
	}
	return out
}
