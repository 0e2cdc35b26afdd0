// SPDX-License-Identifier: Apache-2.0

package conf

import (
	"passt/dataplane/fwd"
	"passt/supervisor/host"
)

// namespace gives what the agent configures with --config-net (spec addressing 7). The host's addresses are copied unless
// -a names one, its routes unless -g names a gateway, each per family.
func (r *resolver) namespace() *host.NSConfig {
	o, f := r.o, r.f
	n := &host.NSConfig{MTU: int(r.b.MTU)}
	n.V4 = nsFamily(&f.V4, r.h.V4, !o.Addr.V4.IsZero(), !o.Gateway.V4.IsZero())
	n.V6 = nsFamily(&f.V6, r.h.V6, !o.Addr.V6.IsZero(), !o.Gateway.V6.IsZero())
	if f.V6.Local && o.Gateway.V6.IsZero() && !r.h.DefaultV6 {
		// The host itself is on link at fe80::1. A default route would only make programs try IPv6 first, to nowhere.
		n.V6.DefaultRoute = false
	}
	return n
}

func nsFamily(f *fwd.Family, t *host.Template, addrGiven, gwGiven bool) host.FamilyConfig {
	c := host.FamilyConfig{On: f.On, Gateway: f.Gateway}
	if !f.On {
		return c
	}
	copying := t != nil && !f.Local
	switch {
	case copying && !addrGiven:
		c.Addrs = append(c.Addrs, t.Addresses...)
		for i := range c.Addrs {
			if c.Addrs[i].Addr == f.Guest && f.Guest.Is4() {
				c.Addrs[i].Prefix = f.Prefix // -n alone
			}
		}
	case !f.Guest.IsZero():
		c.Addrs = []host.Address{{Addr: f.Guest, Prefix: f.Prefix}}
	}
	if !copying || gwGiven {
		c.DefaultRoute = !f.Gateway.IsZero()
		return c
	}
	c.SrcIfIndex = t.IfIndex
	c.CopyRoutes = append(c.CopyRoutes, t.Routes...)
	if addrGiven {
		// The kernel does not make the host's connected routes again from our address, and the gateway is reached by them.
		for i := range c.CopyRoutes {
			c.CopyRoutes[i].Protocol = 0
		}
	}
	return c
}
