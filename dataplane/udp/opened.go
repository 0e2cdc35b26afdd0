// SPDX-License-Identifier: Apache-2.0

package udp

import (
	"passt/dataplane/flow"
	"passt/dataplane/fwd"
	"passt/dataplane/wire"
	"passt/internal/sys"
)

// Opened takes a broker's answer for a live flow: the socket, or why there is none.
func (u *UDP) Opened(o *flow.Opened) {
	i, side := o.Flow, int(o.Slot)
	r := &u.env.Table.Rows[i]
	if r.Kind != flow.KindUDP || side > 1 || r.FD[side] != sys.NoFD || !u.st[i].has(flagAsked, side) {
		sys.Close(o.FD)
		return
	}
	s := &u.st[i]
	s.clear(flagAsked, side)
	if r.Side[side].Pif == fwd.PifTap {
		u.openedAnswers(i, o)
		return
	}
	if o.Errno != 0 {
		u.failed(i, o.Errno)
		return
	}
	r.FD[side] = o.FD
	u.learn(r, i, side, o)
	s.set(flagFresh, side)
	if s.has(flagAnswers, 0) && side == 1 {
		q := flow.Request{Flow: i, Op: flow.OpUDPListen, Slot: 0, To: fwd.PifHost, SrcPort: r.Side[1].OurPort, Dst: r.Side[1].Ep, DstPort: r.Side[1].EpPort}
		if u.ask(&q) {
			return // what waits is sent once answers can be received
		}
	}
	u.start(i)
}

// learn fills in what the broker chose and puts the side into the hash.
func (u *UDP) learn(r *flow.Row, i flow.Index, side int, o *flow.Opened) {
	p := &r.Side[side]
	if side == 0 {
		return // known from the listener, in the hash already
	}
	if !o.Target.IsZero() {
		p.Ep = o.Target
	}
	if a, e := sys.LocalAddr(o.FD); e == 0 {
		if addr, port, ok := a.Get(); ok {
			p.Our, p.OurPort = wire.Addr(addr), port
		}
	}
	u.insert(i, side)
}

// openedAnswers takes the receive-only socket of a multicast or broadcast flow; without it the flow only sends.
func (u *UDP) openedAnswers(i flow.Index, o *flow.Opened) {
	if o.Errno == 0 {
		u.env.Table.Rows[i].FD[0] = o.FD
	}
	u.start(i)
}

// failed ends a flow for which there is no socket; the guest is told about what waited first.
func (u *UDP) failed(i flow.Index, e sys.Errno) {
	d := wire.DropHostError
	if e == sys.EMFILE || e == sys.ENFILE || e == sys.ENOMEM || e == sys.ENOBUFS {
		d = wire.DropNoDescriptor
	}
	s := &u.st[i]
	if b, _, _, ok := u.wait.pop(s, u.run); ok {
		u.env.Drops.Add(d)
		if u.env.Table.Rows[i].Side[0].Pif == fwd.PifTap {
			u.tell(i, 1, e, b)
		}
	}
	u.env.Drops[d] += uint64(u.wait.drop(s))
	u.end(i)
}

// settleTurns is how many turns a flow that came in by a listener waits before its own socket is read: in between the listener is
// read, so that what arrived there first is forwarded first.
const settleTurns = 2

// start begins forwarding when all sockets of the flow are there: what waited leaves, then the sockets are polled.
func (u *UDP) start(i flow.Index) {
	r, s := &u.env.Table.Rows[i], &u.st[i]
	if s.flags&(flagAsked|flagAsked<<1) != 0 {
		return
	}
	to := 1
	if tapSide(r) == 1 {
		to = 0
	}
	for {
		b, gso, ttl, ok := u.wait.pop(s, u.run)
		if !ok {
			break
		}
		u.send(i, to, b, gso, ttl)
	}
	if r.Rule == flow.NoRule {
		u.watch(i)
		return
	}
	s.settle = settleTurns
	u.env.Again(i)
}

// watch adds the flow's sockets to the loop, once for their life. Writability is no news for datagrams: each one sent would
// wake the loop.
func (u *UDP) watch(i flow.Index) {
	r := &u.env.Table.Rows[i]
	for side := range 2 {
		if r.FD[side] == sys.NoFD {
			continue
		}
		tag := flow.Tag(flow.PollFlow, r.Gen, uint32(i)<<1|uint32(side))
		if e := sys.EpollAdd(u.env.Ep, r.FD[side], sys.PollIn|sys.PollEdge, tag); e != 0 {
			u.env.Drops.Add(wire.DropNoDescriptor)
			u.end(i)
			return
		}
	}
}
