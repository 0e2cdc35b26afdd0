// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"fmt"

	"passt/dataplane/wire"
	"passt/internal/sys"
	"passt/internal/sys/priv"
)

// Template is the interface that one family's settings are taken from.
type Template struct {
	IfIndex    int
	IfName     string
	MAC        wire.MAC  // zero: not an Ethernet device
	MTU        int       // bytes
	Gateway    wire.Addr // zero: no default route, or one without a gateway
	Addr       wire.Addr // zero: the interface has no usable address of this family
	Prefix     uint8
	LinkLocal  wire.Addr // IPv6: our own link-local address towards the guest
	Addresses  []Address // all, in the kernel's order
	Routes     []Route   // those with a hop over this interface, in the kernel's order
	HasDefault bool
}

// Choice is what the options force.
type Choice struct {
	Interface4, Interface6 string // "": detect
	V4, V6                 bool
}

// Discover finds the template interface of each family (spec addressing 2 to 4).
//
//	out:    nil for a family: no interface has a route, local mode. With an unset Addr the interface has no address of
//	        the family: local mode unless an option gives one. notes are lines to be said once
//	errors: a forced interface does not exist. A kernel that does not answer makes notes and local mode
func Discover(c Choice) (v4, v6 *Template, notes []string, err error) {
	n, err := priv.DialRoute()
	if err != nil {
		return nil, nil, []string{fmt.Sprintf("No interfaces from the kernel: %v", err)}, nil
	}
	defer n.Close()
	for _, f := range []struct {
		on     bool
		forced string
		family byte
		name   string
		to     **Template
	}{{c.V4, c.Interface4, inet, "IPv4", &v4}, {c.V6, c.Interface6, inet6, "IPv6", &v6}} {
		if !f.on {
			continue
		}
		t, note, err := template(n, f.family, f.forced)
		switch {
		case errors.Is(err, sys.Errno(enodev)) && f.forced != "":
			return nil, nil, nil, fmt.Errorf("no interface %s", f.forced)
		case err != nil:
			notes = append(notes, fmt.Sprintf("%s: no routes or addresses from the kernel: %v", f.name, err))
			continue
		case note != "":
			notes = append(notes, f.name+": "+note)
		}
		*f.to = t
	}
	return v4, v6, notes, nil
}

// template reads one family; nil without an error when there is no interface to take.
func template(n *priv.Netlink, family byte, forced string) (*Template, string, error) {
	var l netIf
	var err error
	if forced != "" {
		if l, err = linkByName(n, forced); err != nil {
			return nil, "", err
		}
	}
	routes, err := dumpRoutes(n, family)
	if err != nil {
		return nil, "", err
	}
	note := ""
	if forced == "" {
		var index int
		var several bool
		if index, several = choose(routes); index == 0 {
			return nil, "", nil
		}
		if l, err = linkByIndex(n, index); err != nil {
			return nil, "", err
		}
		if several {
			note = fmt.Sprintf("several interfaces could be the template, the first is taken: %s", l.name)
		}
	}
	t := &Template{IfIndex: l.index, IfName: l.name, MAC: l.mac, MTU: l.mtu}
	src := t.take(routes)
	if t.Addresses, err = dumpAddresses(n, family, t.IfIndex); err != nil {
		return nil, note, err
	}
	t.pick(family, &src)
	return t, note, nil
}

// choose finds the interface: that of the first default route of the lowest metric, else of the first route that leads
// further than the link. several: other interfaces had one too.
//
//	source: spec addressing 2.2, 3.2 (interface and gateway of a multipath route come from one hop)
func choose(routes []Route) (index int, several bool) {
	defaults, others := candidates{best: -1}, candidates{best: -1}
	for i := range routes {
		r := &routes[i]
		switch {
		case r.IfIndex <= loopback:
		case r.Prefix == 0:
			defaults.add(routes, i, defaults.best >= 0 && r.Priority < routes[defaults.best].Priority)
		case !r.Dst.IsLinkLocal() && !r.Dst.IsMulticast():
			others.add(routes, i, false)
		}
	}
	if defaults.best < 0 {
		defaults = others
	}
	if defaults.best < 0 {
		return 0, false
	}
	return routes[defaults.best].IfIndex, defaults.several
}

// candidates is the best of the routes seen so far.
type candidates struct {
	best    int // index, -1: none yet
	several bool
}

func (c *candidates) add(routes []Route, i int, better bool) {
	c.several = c.several || c.best >= 0 && routes[i].IfIndex != routes[c.best].IfIndex
	if c.best < 0 || better {
		c.best = i
	}
}

// take keeps the routes with a hop over the template and gives the preferred source of the default route.
func (t *Template) take(routes []Route) (src wire.Addr) {
	metric := uint32(0)
	t.Routes = make([]Route, 0, len(routes))
	for i := range routes {
		r := &routes[i]
		_, gw, ok := r.through(t.IfIndex)
		if !ok {
			continue
		}
		t.Routes = append(t.Routes, *r)
		if r.Prefix != 0 {
			continue
		}
		// The best metric of those with a gateway; a route without one counts only while there is no other.
		if !t.HasDefault || t.Gateway.IsZero() && !gw.IsZero() || !gw.IsZero() && r.Priority < metric {
			t.HasDefault, t.Gateway, src, metric = true, gw, r.PrefSrc, r.Priority
		}
	}
	return src
}

// pick chooses the address and, for IPv6, our link-local address.
func (t *Template) pick(family byte, src *wire.Addr) {
	best, rank := -1, 0
	for i := range t.Addresses {
		a := &t.Addresses[i]
		if a.Flags&(ifafDeprecated|ifafDADFailed) != 0 {
			continue
		}
		if family == inet6 && a.Addr.IsLinkLocal() {
			if t.LinkLocal.IsZero() {
				t.LinkLocal = a.Addr
			}
			continue
		}
		if k := t.rank(family, a, src); k > rank {
			best, rank = i, k
		}
	}
	if family == inet6 && t.Gateway.IsLinkLocal() {
		t.LinkLocal = t.Gateway
	}
	if best >= 0 {
		t.Addr, t.Prefix = t.Addresses[best].Addr, t.Addresses[best].Prefix
	}
}

// rank orders addresses, 0 is not usable; among equals the first counts. It follows what the kernel would use as source
// towards the gateway: the route's preferred source; for IPv4 the first primary address, of the gateway's network before
// others; for IPv6 not a temporary one, then the longest prefix.
//
//	source: spec addressing 4.1, 4.2
func (t *Template) rank(family byte, a *Address, src *wire.Addr) int {
	if family == inet6 && a.Scope != scopeUniverse && a.Scope != scopeSite {
		return 0
	}
	k := 1
	if a.Addr == *src {
		k += 2048
	}
	if family == inet6 {
		if a.Flags&ifafTemporary == 0 {
			k += 1024
		}
		return k + int(a.Prefix)
	}
	if a.Scope < scopeLink {
		k += 1024
	}
	if a.Flags&ifafSecondary == 0 {
		k += 512
	}
	if !t.Gateway.IsZero() && a.net().InPrefix(&t.Gateway, int(a.Prefix)) {
		k += 256
	}
	return k
}
