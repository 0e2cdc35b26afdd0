// SPDX-License-Identifier: Apache-2.0

package host

import "passt/internal/sys/priv"

// nexthop is one next-hop object (ip-nexthop(8)).
type nexthop struct {
	family  byte
	flags   byte
	oif     uint32
	gateway []byte // 4 or 16 bytes; nil: none
	group   []byte // struct nexthop_grp; nil: a single hop
}

type nexthops map[uint32]nexthop

// dumpNexthops gives all next-hop objects; none where the kernel has none (before Linux 5.3).
func dumpNexthops(n *priv.Netlink) nexthops {
	out := nexthops{}
	list, err := n.Dump(getNexthop, make([]byte, sizeNexthop))
	if err != nil {
		return out // their routes are left out, like all that cannot be used
	}
	for _, m := range list {
		if m.Kind == newNexthop {
			out.add(m.Body)
		}
	}
	return out
}

// add reads struct nhmsg and its attributes.
func (o nexthops) add(b []byte) {
	if len(b) < sizeNexthop {
		return
	}
	h, id, hole := nexthop{family: b[0], flags: byte(ne.Uint32(b[4:]))}, uint32(0), false
	attrs(b[sizeNexthop:], func(a attr) {
		switch a.kind {
		case nhaID:
			id = u32Of(a)
		case nhaOIF:
			h.oif = u32Of(a)
		case nhaGateway:
			h.gateway = a.data
		case nhaGroup:
			h.group = a.data
		case nhaBlackhole:
			hole = true
		}
	})
	if id != 0 && !hole {
		o[id] = h
	}
}

// expand appends the hops of an object to a route that names it; nil when the object is not known.
func (o nexthops) expand(raw []byte, id uint32, family byte) []byte {
	h, ok := o[id]
	if !ok {
		return nil
	}
	out := append([]byte(nil), raw...)
	for len(out)%4 != 0 {
		out = append(out, 0)
	}
	if h.group == nil {
		ne.PutUint32(out[8:], ne.Uint32(out[8:])|uint32(h.flags&rtnhOnlink))
		return h.attrs(put(out, rtaOIF, u32(h.oif)), family)
	}
	var hops []byte
	for g := h.group; len(g) >= sizeNHGroup; g = g[sizeNHGroup:] {
		member, ok := o[ne.Uint32(g)]
		if !ok || member.group != nil {
			continue
		}
		one := member.attrs([]byte{0, 0, member.flags & rtnhOnlink, g[4], 0, 0, 0, 0}, family)
		ne.PutUint16(one, uint16(len(one)))
		ne.PutUint32(one[4:], member.oif)
		hops = append(hops, one...)
	}
	return put(out, rtaMultipath, hops)
}

func (h *nexthop) attrs(b []byte, family byte) []byte {
	switch {
	case h.gateway == nil:
		return b
	case h.family == family:
		return put(b, rtaGateway, h.gateway)
	}
	return put(b, rtaVia, append(ne.AppendUint16(nil, uint16(h.family)), h.gateway...)) // IPv4 by an IPv6 gateway (RFC 5549)
}
