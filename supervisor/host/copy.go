// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"slices"
	"time"

	"passt/internal/sys"
	"passt/internal/sys/priv"
)

const (
	// copySlice is how many routes are sent between two looks at the clock.
	copySlice = 1024
	// copyTime bounds the copy. A namespace takes about 300,000 routes in a second (many_test.go prints it); what does not
	// fit is left out and said. Connected and default routes come first.
	copyTime = 5 * time.Second
)

// Order of installing: a gateway must be reachable before a route names it.
const (
	rankConnected = iota
	rankDefault
	rankOther
)

// routeCopy is one route rewritten for the tap.
type routeCopy struct {
	req  priv.NlMessage
	rank int
}

// copyRoutes installs the host's routes, again and again until a round adds nothing: with gateways reached through other
// routes, no order is known to be right.
//
//	errors: netlink itself, or no default route although the host has one
func (f *FamilyConfig) copyRoutes(n *priv.Netlink, index int, family byte, addrs []Address) (notes []string, err error) {
	todo := f.copies(index, family, addrs)
	wantDefault := slices.ContainsFunc(todo, func(c routeCopy) bool { return c.req.Body[1] == 0 })
	haveDefault := false
	deadline, failed, why := time.Now().Add(copyTime), 0, sys.Errno(0)
	for len(todo) > 0 {
		var again []routeCopy
		for part := range slices.Chunk(todo, copySlice) {
			if time.Now().After(deadline) {
				failed, why = failed+len(part), sys.ETIMEDOUT
				continue
			}
			res, err := n.Exec(requests(part))
			if err != nil {
				return nil, fmt.Errorf("copy routes: %w", err)
			}
			for i, e := range res {
				switch e {
				case 0, eexist:
					haveDefault = haveDefault || part[i].req.Body[1] == 0
				case sys.ENETUNREACH, sys.EHOSTUNREACH, sys.EINVAL:
					again = append(again, part[i])
				default:
					failed, why = failed+1, e
				}
			}
		}
		if len(again) == len(todo) {
			break // unreachable for good: left out
		}
		todo = again
	}
	if failed > 0 {
		notes = append(notes, fmt.Sprintf("%d of %d routes not copied: %v", failed, len(f.CopyRoutes), why))
	}
	if wantDefault && !haveDefault && !f.Gateway.IsZero() {
		return notes, f.defaultRoute(n, index, family, addrs)
	}
	return notes, nil
}

func requests(c []routeCopy) []priv.NlMessage {
	out := make([]priv.NlMessage, len(c))
	for i := range c {
		out[i] = c[i].req
	}
	return out
}

// copies gives the rewritten routes in the order of installing.
func (f *FamilyConfig) copies(index int, family byte, addrs []Address) []routeCopy {
	out := make([]routeCopy, 0, len(f.CopyRoutes))
	var last *Route
	for i := range f.CopyRoutes {
		r := &f.CopyRoutes[i]
		if r.Protocol == protoKernel && recreated(r, family, addrs) {
			continue
		}
		b, ok := rewrite(r.Raw, f.SrcIfIndex, index)
		if !ok {
			continue
		}
		c := routeCopy{req: priv.NlMessage{Kind: newRoute, Flags: flagCreate | flagExcl, Body: b}, rank: rankOther}
		if last != nil && family == inet && last.Prefix == r.Prefix && last.Dst == r.Dst && last.Priority == r.Priority {
			c.req.Flags = flagCreate | flagAppend // the host has both: ip route append
		}
		last = r
		_, gw, _ := r.through(f.SrcIfIndex)
		switch {
		case gw.IsZero():
			c.rank = rankConnected
		case r.Prefix == 0:
			c.rank = rankDefault
		}
		out = append(out, c)
	}
	slices.SortStableFunc(out, func(a, b routeCopy) int { return a.rank - b.rank })
	return out
}

// recreated tells whether the kernel makes this connected route by itself for one of the addresses.
func recreated(r *Route, family byte, addrs []Address) bool {
	if !r.Gateway.IsZero() || r.hops != nil {
		return false
	}
	if family == inet6 && r.Dst.IsLinkLocal() && r.Prefix == 64 {
		return true // our link-local address's
	}
	for i := range addrs {
		a := &addrs[i]
		metric := a.Metric
		if metric == 0 && family == inet6 {
			metric = kernelMetric6
		}
		if a.Flags&ifafNoPrefixRoute == 0 && int(a.Prefix) == r.Prefix && metric == r.Priority && a.net().InPrefix(&r.Dst, r.Prefix) {
			return true
		}
	}
	return false
}

// rewrite turns a dumped route into the body of a request for interface to; false when it has no hop over interface from.
// Left out: preferred source and next-hop object (the namespace has neither), age and lifetime (nobody would renew it),
// and state flags, which a request must not carry. Hops over other interfaces are dropped; one hop that is left becomes
// a plain route.
//
//	source: spec addressing 7; field bugs B067, B068, B070, B071
func rewrite(raw []byte, from, to int) ([]byte, bool) {
	if len(raw) < sizeRoute {
		return nil, false
	}
	b := append(make([]byte, 0, len(raw)+8), raw[:sizeRoute]...)
	flags := ne.Uint32(b[8:]) & rtnhOnlink
	ours := false
	attrs(raw[sizeRoute:], func(a attr) {
		switch a.kind {
		case rtaIIF, rtaPrefSrc, rtaCacheinfo, rtaExpires, rtaPad, rtaNHID:
		case rtaOIF:
			if int(u32Of(a)) == from {
				b, ours = put(b, rtaOIF, u32(uint32(to))), true
			}
		case rtaMultipath:
			hops, n := rewriteHops(a.data, from, to)
			switch {
			case n == 1:
				flags |= uint32(hops[2])
				b = plain(put(b, rtaOIF, u32(uint32(to))), hops[sizeHop:])
			case n > 1:
				b = put(b, rtaMultipath, hops)
			}
			ours = ours || n > 0
		default:
			b = put(b, a.raw, a.data)
		}
	})
	ne.PutUint32(b[8:], flags)
	return b, ours
}

// plain appends what a hop of a multipath route may carry (linux/rtnetlink.h, fib_get_nhs) to a route of one hop.
func plain(b, hop []byte) []byte {
	attrs(hop, func(a attr) {
		switch a.kind {
		case rtaGateway, rtaVia, rtaFlow, rtaEncapType, rtaEncap:
			b = put(b, a.raw, a.data)
		}
	})
	return b
}

// rewriteHops keeps the n hops over our interface.
func rewriteHops(b []byte, from, to int) (out []byte, n int) {
	for len(b) >= sizeHop {
		l := int(ne.Uint16(b))
		if l < sizeHop || l > len(b) {
			break
		}
		if int(ne.Uint32(b[4:])) == from {
			n++
			start := len(out)
			out = append(out, b[:l]...)
			out[start+2] &= rtnhOnlink
			ne.PutUint32(out[start+4:], uint32(to))
			for len(out)%4 != 0 {
				out = append(out, 0)
			}
		}
		b = b[min((l+3)&^3, len(b)):]
	}
	return out, n
}
