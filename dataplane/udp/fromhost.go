// SPDX-License-Identifier: Apache-2.0

package udp

import (
	"passt/dataplane/flow"
	"passt/dataplane/fwd"
	"passt/dataplane/link"
	"passt/dataplane/wire"
	"passt/internal/sys"
)

// Event handles readiness of a side's socket, edge-triggered.
func (u *UDP) Event(i flow.Index, side int, events uint32) {
	r := &u.env.Table.Rows[i]
	if r.Kind != flow.KindUDP || r.FD[side] == sys.NoFD {
		return
	}
	if events&sys.PollErr != 0 {
		u.drainErrors(i, side)
	}
	if events&(sys.PollIn|sys.PollErr|sys.PollHup) == 0 {
		return
	}
	s := &u.st[i]
	if s.has(flagFresh, side) || r.Side[side].Pif == fwd.PifTap {
		u.receiveMixed(i, side)
		return
	}
	n := 0
	for round := 0; ; round++ {
		if round == roundBudget {
			u.later(i, side)
			break
		}
		got, more := u.receive(i, side)
		if n += got; n > 1 {
			s.set(flagBusy, side) // worth asking for many at once, now and at the next event
		}
		if !more {
			break
		}
	}
	if n <= 1 {
		s.clear(flagBusy, side)
	}
	if n > 0 && r.Kind == flow.KindUDP {
		u.touch(i, side)
	}
}

// later has the socket looked at again in the next turn.
func (u *UDP) later(i flow.Index, side int) {
	u.st[i].set(flagMore, side)
	u.env.Again(i)
}

// path gives addresses and ports of frames of a flow to the guest.
func (u *UDP) path(r *flow.Row, tap int) path {
	t := &r.Side[tap]
	return path{src: t.Our, dst: t.Ep, srcPort: t.OurPort, dstPort: t.EpPort, mac: r.MAC}
}

// receive makes one receive call on a connected socket and forwards what came. Equal datagrams land one behind another,
// in the link's own segment where that is possible, and leave as one frame or one write.
//
//	out: got, datagrams or aggregates; more, whether the socket may hold more
func (u *UDP) receive(i flow.Index, side int) (got int, more bool) {
	r, s := &u.env.Table.Rows[i], &u.st[i]
	tap := r.Side[1-side].Pif == fwd.PifTap
	buf := u.run[:slotSize]
	a := &u.cur
	var segs []link.Seg
	size, joins := int(s.pred[side]), true
	if tap {
		if u.env.Link == nil {
			return u.discard(i, side)
		}
		*a = u.path(r, 1-side)
		f := u.env.Link.Features()
		joins = f.USO && u.fits(a, size)
		if f.Csum && f.TSO {
			segs = u.env.Link.Reserve(a.headLen(), maxPayload, 1)
			if len(segs) == 0 {
				// The link is full: the datagrams wait in the socket.
				u.later(i, side)
				return 0, false
			}
			if segs[0].Buf != nil {
				buf = segs[0].Buf
			} else {
				segs = nil
			}
		}
	}
	n := 1
	if s.has(flagBusy, side) {
		n = listenBatch
		if joins && size > 0 {
			n = max(1, min(maxSegments, min(len(buf), maxPayload)/size))
		} else {
			size = 0
		}
	}
	k, e := u.gather(r.FD[side], buf, size, n)
	if e != 0 {
		if e == sys.EAGAIN {
			return 0, false
		}
		u.drainErrors(i, side)
		return 0, true
	}
	u.spread(i, side, buf, size, spreadTo{n: n, got: k, tap: tap, segs: segs, path: a})
	return k, k == n
}

// gather receives up to n datagrams. With size > 0 those of size bytes lie one behind another in buf, the rest of a longer one
// is in its slot from size on; with size 0 (or n 1) see spread.
func (u *UDP) gather(fd sys.FD, buf []byte, size, n int) (int, sys.Errno) {
	switch {
	case n == 1:
		u.msgs.Set(0, buf, nil)
	case size == 0:
		for k := range n {
			u.msgs.Set(k, u.slot(k), nil)
		}
	default:
		for k := range n {
			u.msgs.Set(k, buf[k*size:(k+1)*size], u.slot(k)[size:])
		}
	}
	return u.msgs.Recv(fd, n, 0)
}

// spreadTo is where a receive call's datagrams go.
type spreadTo struct {
	n, got int
	tap    bool
	segs   []link.Seg // the segment whose Buf was received into, or none
	path   *path
}

// spread forwards the datagrams of one gather.
func (u *UDP) spread(i flow.Index, side int, buf []byte, size int, to spreadTo) {
	s := &u.st[i]
	last := to.got - 1
	if n := u.msgs.Len(last); n < 65536 {
		s.pred[side] = uint16(n)
	}
	gro := sys.ParseMeta(u.msgs.Control(0)).GRO
	if to.n == 1 {
		n := u.msgs.Len(0)
		if gro > 0 {
			s.pred[side] = uint16(gro)
		}
		u.inPlace(i, side, buf[:n], gro, &to, u.msgs.Truncated(0))
		return
	}
	k, total := 0, 0
	if size > 0 {
		k, total = u.equal(size, to.got)
		for j := k; j < to.got; j++ {
			copy(u.slot(j)[:size], buf[j*size:(j+1)*size])
		}
		if k > 0 {
			g := size
			if k == 1 {
				g = 0
			}
			u.inPlace(i, side, buf[:total], g, &to, false)
		}
	}
	for ; k < to.got; k++ {
		if u.msgs.Truncated(k) {
			u.env.Drops.Add(wire.DropTruncated)
			continue
		}
		m := sys.ParseMeta(u.msgs.Control(k))
		u.forward(i, 1-side, u.slot(k)[:u.msgs.Len(k)], m.GRO)
	}
}

// equal counts the datagrams at the head of a gather that lie one behind another: each of size bytes, the last
// may be shorter.
func (u *UDP) equal(size, got int) (k, total int) {
	for ; k < got; k++ {
		n := u.msgs.Len(k)
		if n == 0 || n > size || u.msgs.Truncated(k) {
			break
		}
		if g := sys.ParseMeta(u.msgs.Control(k)).GRO; g > 0 && g < n {
			break
		}
		total += n
		if n < size {
			return k + 1, total
		}
	}
	return k, total
}

// inPlace forwards a run that may already lie in a segment of the link.
func (u *UDP) inPlace(i flow.Index, side int, b []byte, gso int, to *spreadTo, truncated bool) {
	if truncated {
		u.env.Drops.Add(wire.DropTruncated)
		return
	}
	if gso >= len(b) {
		gso = 0
	}
	if len(to.segs) == 0 {
		u.forward(i, 1-side, b, gso)
		return
	}
	if gso > 0 && (!u.env.Link.Features().USO || !u.fits(to.path, gso) || len(b) > maxSegments*gso) ||
		to.path.headLen()-wire.EthSize+len(b) > 65535 {
		// It has to be cut: from a copy, as the link reuses the segment.
		n := copy(u.run, b)
		u.toGuest(to.path, u.run[:n], gso)
		return
	}
	g := &to.segs[0]
	g.Len = len(b)
	u.head(to.path, g, b, gso)
	u.sendSegs(to.segs)
}

// forward sends a datagram or aggregate to a side of the flow; b is copied.
func (u *UDP) forward(i flow.Index, side int, b []byte, gro int) {
	r, s := &u.env.Table.Rows[i], &u.st[i]
	if r.Side[side].Pif == fwd.PifTap {
		a := u.path(r, side)
		u.toGuest(&a, b, gro)
		return
	}
	if u.ready(i, side) {
		u.send(i, side, b, uint16(gro), s.ttl[side])
		return
	}
	if d := u.wait.push(s, b, uint16(gro), 0); d != wire.DropNone {
		u.env.Drops.Add(d)
	}
}

// discard empties a socket that leads to a guest without a link.
func (u *UDP) discard(i flow.Index, side int) (got int, more bool) {
	k, e := u.gather(u.env.Table.Rows[i].FD[side], nil, 0, listenBatch)
	u.env.Drops[wire.DropLinkFull] += uint64(k)
	return k, e == 0 && k == listenBatch
}

// receiveMixed empties a socket that may hold datagrams of others than the flow's peer: one that is fresh (it was
// bound before it was connected) or one that only waits for answers from anybody.
func (u *UDP) receiveMixed(i flow.Index, side int) {
	r, s := &u.env.Table.Rows[i], &u.st[i]
	gen, came := r.Gen, false
	for round := 0; ; round++ {
		if round == roundBudget {
			u.later(i, side)
			break
		}
		k, e := u.gather(r.FD[side], nil, 0, listenBatch)
		if e != 0 && e != sys.EAGAIN {
			u.drainErrors(i, side)
			continue
		}
		for j := range k {
			came = u.mixed(i, side, j) || came
			if r.Gen != gen || r.Kind != flow.KindUDP {
				return
			}
		}
		if e != 0 || k < listenBatch {
			s.clear(flagFresh, side)
			break
		}
	}
	if came {
		u.touch(i, side)
	}
}

// mixed forwards datagram j of a mixed receive; true when it belonged to the flow.
func (u *UDP) mixed(i flow.Index, side, j int) bool {
	r := &u.env.Table.Rows[i]
	from, port, ok := u.msgs.From(j)
	if !ok || u.msgs.Truncated(j) {
		u.env.Drops.Add(wire.DropTruncated)
		return false
	}
	src := wire.Addr(from)
	b := u.slot(j)[:u.msgs.Len(j)]
	m := sys.ParseMeta(u.msgs.Control(j))
	if r.Side[side].Pif == fwd.PifTap {
		return u.answer(r, &src, port, b, m.GRO)
	}
	p := &r.Side[side]
	if src == p.Ep && port == p.EpPort {
		u.forward(i, 1-side, b, m.GRO)
		return true
	}
	rule := uint16(flow.NoRule)
	if side == 0 {
		rule = r.Rule // the flow came in here by it; on the other side only known flows count
	}
	in := inbound{pif: p.Pif, rule: rule, port: p.OurPort, local: p.Our, dst: p.Our, src: src, srcPort: port}
	u.inbound(&in, b, m.GRO)
	return false
}

// answer gives the guest what came to the receive-only socket of a multicast or broadcast flow, as its sender's.
func (u *UDP) answer(r *flow.Row, src *wire.Addr, port uint16, b []byte, gro int) bool {
	t := &r.Side[0]
	from, ok := u.env.Fwd.Inbound(src, &t.Ep)
	if !ok || from.Is4() != t.Ep.Is4() || !src.IsUnicast() || port == 0 {
		u.env.Drops.Add(wire.DropAddress)
		return false
	}
	a := &u.cur
	*a = path{src: from, dst: t.Ep, srcPort: port, dstPort: t.EpPort}
	a.mac = u.env.SourceMAC(&a.src)
	u.toGuest(a, b, gro)
	return true
}
