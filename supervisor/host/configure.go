// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"fmt"

	"passt/dataplane/wire"
	"passt/internal/sys"
	"passt/internal/sys/priv"
)

// NSConfig is what the agent sets up in the namespace with --config-net.
type NSConfig struct {
	IfIndex int // of the tap, filled in by the agent
	MTU     int // bytes, 0: left alone
	V4, V6  FamilyConfig
}

// FamilyConfig is one family's part.
type FamilyConfig struct {
	On           bool
	Addrs        []Address
	CopyRoutes   []Route   // nil: a single default route through Gateway, or none
	Gateway      wire.Addr // zero: no default route of our own
	DefaultRoute bool      // install one through Gateway
	SrcIfIndex   int       // interface that CopyRoutes name
}

// minMTU6 is the least MTU that IPv6 runs on (RFC 8200 s.5); below it the kernel takes IPv6 off the interface.
const minMTU6 = 1280

// LoopbackUp brings lo up. One that is up needs no right over the namespace.
func LoopbackUp() error {
	n, err := priv.DialRoute()
	if err != nil {
		return err
	}
	defer n.Close()
	if l, err := linkByIndex(n, loopback); err == nil && l.up {
		return nil
	}
	if err := n.Do(newLink, 0, linkUp(loopback, 0)); err != nil {
		return fmt.Errorf("bring lo up: %w", err)
	}
	return nil
}

// linkUp is the body of a request that brings an interface up, with an MTU unless 0.
func linkUp(index, mtu int) []byte {
	b := linkBody(index)
	ne.PutUint32(b[8:], iffUp)
	ne.PutUint32(b[12:], iffUp)
	if mtu > 0 {
		b = put(b, iflaMTU, u32(uint32(mtu)))
	}
	return b
}

// genMode is the body of a request that says how the kernel makes link-local addresses from now on.
func genMode(index int, mode byte) []byte {
	return put(linkBody(index), iflaAFSpec, put(nil, inet6, put(nil, iflaInet6GenMode, []byte{mode})))
}

// linkLocal makes the address that the kernel would make from a MAC (RFC 4291 appendix A).
func linkLocal(m wire.MAC) wire.Addr {
	return wire.Addr{0: 0xfe, 1: 0x80, 8: m[0] ^ 2, 9: m[1], 10: m[2], 11: 0xff, 12: 0xfe, 13: m[3], 14: m[4], 15: m[5]}
}

// Configure brings the tap up with addresses and routes (spec addressing 7).
//
//	out:    lines to be said, the tap's IPv6 link-local address
//	errors: the kernel refuses the link, an address or our own default route, with the object's name. Single routes of a
//	        copy that it refuses only make a note
//
// No address is tentative afterwards. The kernel's own link-local address would be for up to a second, whatever flags
// the interface has: it is told to make none, and ours, the same one, is added without duplicate address detection.
func Configure(c NSConfig) (notes []string, ll wire.Addr, err error) {
	n, err := priv.DialRoute()
	if err != nil {
		return nil, ll, err
	}
	defer n.Close()
	l, err := linkByIndex(n, c.IfIndex)
	if err != nil {
		return nil, ll, fmt.Errorf("interface %d of the namespace: %w", c.IfIndex, err)
	}
	mtu := l.mtu
	if c.MTU > 0 {
		mtu = c.MTU
	}
	on6 := c.V6.On
	if on6 && (mtu < minMTU6 || !l.inet6) {
		notes, on6 = append(notes, fmt.Sprintf("No IPv6 in the namespace on %s with an MTU of %d bytes", l.name, mtu)), false
	}
	var reqs []priv.NlMessage
	if on6 {
		reqs = append(reqs, priv.NlMessage{Kind: newLink, Body: genMode(l.index, genModeNone)})
	}
	reqs = append(reqs, priv.NlMessage{Kind: newLink, Body: linkUp(l.index, c.MTU)})
	if on6 {
		ll = linkLocal(l.mac)
		a := Address{Addr: ll, Prefix: 64, Scope: scopeLink}
		reqs = append(reqs,
			priv.NlMessage{Kind: newAddr, Flags: flagCreate | flagReplace, Body: a.request(l.index)},
			// As usual from now on, should the link go down and up.
			priv.NlMessage{Kind: newLink, Body: genMode(l.index, l.genMode)})
	}
	res, err := n.Exec(reqs)
	if err != nil {
		return notes, wire.Addr{}, err
	}
	if on6 {
		notes, on6, err = refused6(notes, res[2])
		res = res[1:]
	}
	if res[0] != 0 {
		err = fmt.Errorf("bring %s up (MTU %d): %w", l.name, mtu, res[0])
	}
	if !on6 {
		ll = wire.Addr{}
	}
	if err != nil {
		return notes, ll, err
	}
	more, ll, err := c.families(n, on6, ll)
	return append(notes, more...), ll, err
}

// refused6 judges the answer to the link-local address: without IPv6 the namespace does without, and is told.
func refused6(notes []string, e sys.Errno) ([]string, bool, error) {
	switch {
	case e == 0:
		return notes, true, nil
	case unsupported(e):
		return append(notes, "IPv6 is off in the namespace, left out"), false, nil
	}
	return notes, false, fmt.Errorf("IPv6 link-local address: %w", e)
}

// unsupported: the family is not in this kernel, or switched off for the interface (EACCES, by disable_ipv6).
func unsupported(err error) bool {
	return errors.Is(err, sys.EOPNOTSUPP) || errors.Is(err, sys.EAFNOSUPPORT) || errors.Is(err, sys.EACCES)
}

func (c *NSConfig) families(n *priv.Netlink, on6 bool, ll wire.Addr) (notes []string, _ wire.Addr, err error) {
	for _, f := range []struct {
		on     bool
		c      *FamilyConfig
		family byte
		name   string
	}{{c.V4.On, &c.V4, inet, "IPv4"}, {on6, &c.V6, inet6, "IPv6"}} {
		if !f.on {
			continue
		}
		more, err := f.c.apply(n, c.IfIndex, f.family)
		for _, s := range more {
			notes = append(notes, f.name+": "+s)
		}
		switch {
		case unsupported(err):
			notes = append(notes, f.name+" is off in the namespace, left out")
			if f.family == inet6 {
				ll = wire.Addr{}
			}
		case err != nil:
			return notes, ll, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return notes, ll, nil
}

func (f *FamilyConfig) apply(n *priv.Netlink, index int, family byte) (notes []string, err error) {
	addrs := f.wanted(family)
	reqs := make([]priv.NlMessage, len(addrs))
	for i := range addrs {
		reqs[i] = priv.NlMessage{Kind: newAddr, Flags: flagCreate | flagReplace, Body: addrs[i].request(index)}
	}
	res, err := n.Exec(reqs)
	if err != nil {
		return nil, err
	}
	for i, e := range res {
		if e != 0 && e != eexist {
			return nil, fmt.Errorf("address %s/%d: %w", addrs[i].Addr, addrs[i].Prefix, e)
		}
	}
	if f.CopyRoutes != nil {
		return f.copyRoutes(n, index, family, addrs)
	}
	if !f.DefaultRoute || f.Gateway.IsZero() {
		return nil, nil
	}
	return nil, f.defaultRoute(n, index, family, addrs)
}

// wanted leaves out what is not copied: link-scope, deprecated and refused addresses, IPv6 link-local ones.
func (f *FamilyConfig) wanted(family byte) []Address {
	var out []Address
	for _, a := range f.Addrs {
		switch {
		case a.Addr.Is4() != (family == inet), a.Flags&(ifafDeprecated|ifafDADFailed) != 0:
		case family == inet && a.Scope == scopeLink, family == inet6 && a.Addr.IsLinkLocal():
		default:
			out = append(out, a)
		}
	}
	return out
}

// request is the body of RTM_NEWADDR: without label and lifetimes, usable at once.
func (a *Address) request(index int) []byte {
	family, flags := byte(inet6), uint32(ifafNoDAD)|a.Flags&ifafNoPrefixRoute
	if a.Addr.Is4() {
		family = inet
	}
	b := []byte{family, a.Prefix, 0, a.Scope, 0, 0, 0, 0}
	ne.PutUint32(b[4:], uint32(index))
	b = put(b, ifaLocal, bytesOf(&a.Addr))
	b = put(b, ifaAddress, bytesOf(a.net()))
	if a.Broadcast.Is4() && a.Broadcast == a.lastOfPrefix() {
		b = put(b, ifaBroadcast, bytesOf(&a.Broadcast)) // not when an option gave another prefix
	}
	b = put(b, ifaFlags, u32(flags))
	if a.Metric != 0 {
		b = put(b, ifaPriority, u32(a.Metric))
	}
	return b
}

// lastOfPrefix gives the last address of an IPv4 prefix.
func (a *Address) lastOfPrefix() wire.Addr {
	out := *a.net()
	for bit := 96 + int(a.Prefix); bit < 128; bit++ {
		out[bit/8] |= 0x80 >> (bit % 8)
	}
	return out
}

// defaultRoute installs one default route through the gateway, and a way to the gateway where no address gives one.
func (f *FamilyConfig) defaultRoute(n *priv.Netlink, index int, family byte, addrs []Address) error {
	var reqs []priv.NlMessage
	direct := family == inet6 && f.Gateway.IsLinkLocal()
	for i := range addrs {
		a := &addrs[i]
		direct = direct || a.Flags&ifafNoPrefixRoute == 0 && a.net().InPrefix(&f.Gateway, int(a.Prefix))
	}
	if !direct {
		reqs = append(reqs, newRouteRequest(index, family, &f.Gateway, nil))
	}
	res, err := n.Exec(append(reqs, newRouteRequest(index, family, nil, &f.Gateway)))
	if err != nil {
		return err
	}
	if e := res[0]; !direct && e != 0 && e != eexist {
		return fmt.Errorf("route to gateway %s: %w", f.Gateway, e)
	}
	if e := res[len(res)-1]; e != 0 && e != eexist {
		return fmt.Errorf("default route via %s: %w", f.Gateway, e)
	}
	return nil
}

// newRouteRequest adds a host route to dst (nil: default) via gw (nil: on link).
func newRouteRequest(index int, family byte, dst, gw *wire.Addr) priv.NlMessage {
	b := make([]byte, sizeRoute)
	b[0], b[4], b[5], b[6], b[7] = family, tableMain, protoBoot, scopeUniverse, unicast
	if gw == nil && family == inet {
		b[6] = scopeLink
	}
	if dst != nil {
		raw := bytesOf(dst)
		b[1] = byte(len(raw) * 8)
		b = put(b, rtaDst, raw)
	}
	if gw != nil {
		b = put(b, rtaGateway, bytesOf(gw))
	}
	return priv.NlMessage{Kind: newRoute, Flags: flagCreate | flagExcl, Body: put(b, rtaOIF, u32(uint32(index)))}
}
