// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"

	"passt/dataplane/wire"
	"passt/internal/sys"
	"passt/internal/sys/priv"
)

// Route is one unicast route of the main table as the kernel dumped it: struct rtmsg and attributes.
type Route struct {
	Raw      []byte    // kept whole, so that a copy loses nothing that we do not know
	Prefix   int       // length of the destination; 0 is a default route
	Dst      wire.Addr // zero for a default route
	IfIndex  int       // of the first hop of the greatest weight
	Gateway  wire.Addr // of the same hop; zero: none
	PrefSrc  wire.Addr // zero: none
	Priority uint32    // metric
	Protocol uint8     // RTPROT_*
	hops     []hop     // of a multipath route; nil: one hop, above
}

// hop is one next hop of a multipath route.
type hop struct {
	index   int
	weight  int // 0 to 255, one less than ip-route(8) shows
	dead    bool
	gateway wire.Addr
}

// dumpRoutes gives the unicast routes of the main table that leave through any interface but lo, in the kernel's order.
func dumpRoutes(n *priv.Netlink, family byte) ([]Route, error) {
	body := make([]byte, sizeRoute)
	body[0] = family
	list, err := n.Dump(getRoute, put(body, rtaTable, u32(tableMain)))
	if errors.Is(err, sys.EINVAL) { // a kernel that takes no filter
		list, err = n.Dump(getRoute, body)
	}
	if err != nil {
		return nil, err
	}
	out := make([]Route, 0, len(list))
	var objects nexthops
	for _, m := range list {
		if m.Kind != newRoute {
			continue
		}
		r, id, ok := parseRoute(m.Body, family)
		if ok && r.IfIndex == 0 && id != 0 {
			// net.ipv4.nexthop_compat_mode 0: the route names an object instead of its hops.
			if objects == nil {
				objects = dumpNexthops(n)
			}
			r, _, ok = parseRoute(objects.expand(r.Raw, id, family), family)
		}
		if ok && r.usable() {
			out = append(out, r)
		}
	}
	return out, nil
}

// parseRoute reads struct rtmsg and its attributes; false when it is none of the main table's unicast routes. id is the
// next-hop object, 0 when there is none.
func parseRoute(b []byte, family byte) (r Route, id uint32, ok bool) {
	if len(b) < sizeRoute || b[0] != family || b[7] != unicast || ne.Uint32(b[8:])&rtmCloned != 0 {
		return Route{}, 0, false
	}
	table := uint32(b[4])
	r = Route{Raw: b, Prefix: int(b[1]), Protocol: b[5]}
	attrs(b[sizeRoute:], func(a attr) {
		switch a.kind {
		case rtaTable:
			table = u32Of(a)
		case rtaDst:
			r.Dst = addrOf(a.data)
		case rtaOIF:
			r.IfIndex = int(u32Of(a))
		case rtaGateway:
			r.Gateway = addrOf(a.data)
		case rtaPrefSrc:
			r.PrefSrc = addrOf(a.data)
		case rtaPriority:
			r.Priority = u32Of(a)
		case rtaMultipath:
			r.hops = parseHops(a.data)
		case rtaNHID:
			id = u32Of(a)
		}
	})
	if r.hops != nil {
		r.IfIndex, r.Gateway, _ = r.through(0)
	}
	return r, id, table == tableMain
}

func (r *Route) usable() bool {
	if r.hops == nil {
		return r.IfIndex > loopback
	}
	for i := range r.hops {
		if r.hops[i].index > loopback {
			return true
		}
	}
	return false
}

// parseHops reads RTA_MULTIPATH: struct rtnexthop, each with attributes.
func parseHops(b []byte) (out []hop) {
	for len(b) >= sizeHop {
		l := int(ne.Uint16(b))
		if l < sizeHop || l > len(b) {
			return out
		}
		h := hop{index: int(ne.Uint32(b[4:])), weight: int(b[3]), dead: b[2]&rtnhDead != 0}
		attrs(b[sizeHop:l], func(a attr) {
			if a.kind == rtaGateway {
				h.gateway = addrOf(a.data)
			}
		})
		out = append(out, h)
		b = b[min((l+3)&^3, len(b)):]
	}
	return out
}

// through gives interface and gateway of one and the same hop: the first of the greatest weight, living ones before dead
// ones, over the interface index (0: over any but lo). false when no hop leaves there.
func (r *Route) through(index int) (int, wire.Addr, bool) {
	if r.hops == nil {
		return r.IfIndex, r.Gateway, r.IfIndex > loopback && (index == 0 || index == r.IfIndex)
	}
	best := -1
	for i := range r.hops {
		h := &r.hops[i]
		if h.index <= loopback || index != 0 && h.index != index {
			continue
		}
		if best >= 0 {
			b := &r.hops[best]
			if h.dead && !b.dead || h.dead == b.dead && h.weight <= b.weight {
				continue
			}
		}
		best = i
	}
	if best < 0 {
		return 0, wire.Addr{}, false
	}
	return r.hops[best].index, r.hops[best].gateway, true
}
