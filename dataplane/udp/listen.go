// SPDX-License-Identifier: Apache-2.0

package udp

import (
	"passt/dataplane/flow"
	"passt/dataplane/fwd"
	"passt/dataplane/wire"
	"passt/internal/sys"
)

// inbound describes a datagram that came to an unconnected socket, or to a connected one from somebody else.
type inbound struct {
	pif     fwd.Pif
	rule    uint16
	port    uint16    // local port
	local   wire.Addr // our address to answer from; zero: any
	dst     wire.Addr // destination in the packet
	src     wire.Addr
	srcPort uint16
}

// ListenEvent handles readiness of a granted listener, level-triggered. What is left after the budget comes back by itself.
func (u *UDP) ListenEvent(l *flow.Listener, events uint32) {
	if events&sys.PollErr != 0 {
		u.clearErrors(l.FD)
	}
	for range roundBudget {
		k, e := u.gather(l.FD, nil, 0, listenBatch)
		if e == sys.EAGAIN {
			return
		}
		if e != 0 {
			u.clearErrors(l.FD)
			continue
		}
		for j := range k {
			u.listened(l, j)
		}
		if k < listenBatch {
			return
		}
	}
}

// clearErrors takes pending errors off a socket that cannot send: nobody is told.
func (u *UDP) clearErrors(fd sys.FD) {
	for range errBudget {
		if _, e := u.errs.Recv(fd, 1, sys.MsgErrQueue); e != 0 {
			break
		}
	}
	_ = sys.SocketError(fd) // reading clears it
}

// listened forwards datagram j of a listener.
func (u *UDP) listened(l *flow.Listener, j int) {
	from, port, ok := u.msgs.From(j)
	if !ok || u.msgs.Truncated(j) {
		u.env.Drops.Add(wire.DropTruncated)
		return
	}
	m := sys.ParseMeta(u.msgs.Control(j))
	in := inbound{pif: l.Pif, rule: l.Rule, port: l.Port, local: wire.Addr(m.Local), dst: wire.Addr(m.Dst),
		src: wire.Addr(from), srcPort: port}
	if in.dst.IsZero() {
		in.local, in.dst = l.Addr, l.Addr
	}
	if !in.local.IsUnicast() {
		in.local = wire.Addr{}
	}
	u.inbound(&in, u.slot(j)[:u.msgs.Len(j)], m.GRO)
}

// inbound finds or makes the flow of a datagram and forwards it; b is copied.
func (u *UDP) inbound(in *inbound, b []byte, gro int) {
	key := flow.Side{Our: in.local, Ep: in.src, OurPort: in.port, EpPort: in.srcPort, Pif: in.pif}
	i, side, ok := u.env.Table.Lookup(wire.ProtoUDP, &key)
	if !ok {
		var d wire.Drop
		if i, d = u.newInbound(in, &key); d != wire.DropNone || i == flow.NoFlow {
			if d != wire.DropNone {
				u.env.Drops.Add(d)
			}
			return
		}
		side = 0
	}
	u.touch(i, side)
	u.forward(i, 1-side, b, gro)
}

// rules gives the forwarding rule of a listener, nil when there is none.
func (u *UDP) ruleOf(in *inbound) *fwd.Rule {
	rules := u.env.HostRules
	if in.pif == fwd.PifSplice {
		rules = u.env.NsRules
	}
	if int(in.rule) >= len(rules) || !rules[in.rule].Has(in.port) {
		return nil
	}
	return &rules[in.rule]
}

// newInbound makes a flow for a peer's first datagram. NoFlow with DropNone: refused and counted already.
func (u *UDP) newInbound(in *inbound, key *flow.Side) (flow.Index, wire.Drop) {
	if !in.src.IsUnicast() {
		return flow.NoFlow, wire.DropAddress
	}
	if in.srcPort == 0 || in.port == 0 {
		return flow.NoFlow, wire.DropPort
	}
	rule := u.ruleOf(in)
	if rule == nil {
		return flow.NoFlow, wire.DropNoFlow
	}
	target, d := u.target(in, rule)
	if d != wire.DropNone {
		return flow.NoFlow, d
	}
	i := u.create()
	if i == flow.NoFlow {
		return i, wire.DropNone
	}
	r := &u.env.Table.Rows[i]
	r.Rule = in.rule
	r.Side[0], r.Side[1] = *key, target
	u.env.Table.Insert(i, 0)
	if target.Pif == fwd.PifTap {
		r.MAC = u.env.SourceMAC(&r.Side[1].Our)
		u.insert(i, 1)
	} else if !u.askSplice(i, in) {
		u.end(i)
		return flow.NoFlow, wire.DropNone
	}
	q := flow.Request{Flow: i, Op: flow.OpUDPReply, Slot: 0, To: in.pif, Src: key.Our, SrcPort: key.OurPort,
		Dst: key.Ep, DstPort: key.EpPort, Rule: in.rule}
	if !u.ask(&q) {
		u.end(i)
		return flow.NoFlow, wire.DropNone
	}
	u.env.Arm(i, u.deadline(&u.st[i]))
	return i, wire.DropNone
}

// insert puts a side into the hash unless another flow already has the same key, which then keeps it.
func (u *UDP) insert(i flow.Index, side int) {
	if _, _, taken := u.env.Table.Lookup(wire.ProtoUDP, &u.env.Table.Rows[i].Side[side]); !taken {
		u.env.Table.Insert(i, side)
	}
}

// target decides where a new inbound flow leads (spec forwarding 6.2, 6.3).
func (u *UDP) target(in *inbound, rule *fwd.Rule) (flow.Side, wire.Drop) {
	f := u.env.Fwd
	to := flow.Side{EpPort: rule.Map(in.port), OurPort: in.srcPort}
	switch {
	case in.pif == fwd.PifSplice:
		// Both ends must be loopback; the host's socket keeps the client's address.
		if !in.src.IsLoopback() || !in.dst.IsLoopback() || !f.Splice {
			return to, wire.DropNoRule
		}
		to.Pif, to.Ep, to.Our = fwd.PifHost, in.dst, in.src
	case in.pif != fwd.PifHost:
		return to, wire.DropNoRule
	case in.src.IsLoopback() && f.Splice && rule.Target.IsZero():
		to.Pif = fwd.PifSplice
		switch {
		case f.HostLoToNsLo && in.dst.IsLoopback(), in.dst.IsMulticast():
			to.Ep = in.dst
		case in.src.Is4():
			to.Ep = u.env.Guest.Seen4
		default:
			to.Ep = u.env.Guest.Seen6
		}
	case f.SpliceOnly:
		return to, wire.DropNoRule
	default:
		return u.targetTap(in, rule, to)
	}
	if to.Ep.IsZero() {
		return to, wire.DropAddress
	}
	return to, wire.DropNone
}

func (u *UDP) targetTap(in *inbound, rule *fwd.Rule, to flow.Side) (flow.Side, wire.Drop) {
	seen := u.env.GuestAddr(&in.src)
	our, ok := u.env.Fwd.Inbound(&in.src, &seen)
	if !ok {
		return to, wire.DropAddress
	}
	to.Pif, to.Our = fwd.PifTap, our
	switch {
	case !rule.Target.IsZero():
		to.Ep = rule.Target
	case in.dst.IsMulticast():
		to.Ep = in.dst
	default:
		to.Ep = u.env.GuestAddr(&our)
		if to.Ep.IsZero() && !our.Is4() {
			to.Ep = u.env.Guest.Seen6 // no link-local address seen so far
		}
	}
	if to.Ep.IsZero() || to.Ep.Is4() != our.Is4() {
		return to, wire.DropAddress
	}
	return to, wire.DropNone
}

// askSplice asks for the socket on the other side of a loopback flow. The client's port is kept where it can be, its
// address where it means something there.
func (u *UDP) askSplice(i flow.Index, in *inbound) bool {
	t := &u.env.Table.Rows[i].Side[1]
	return u.ask(&flow.Request{Flow: i, Op: flow.OpSpliceUDP, Slot: 1, To: t.Pif, Src: t.Our, SrcPort: in.srcPort,
		Dst: t.Ep, DstPort: t.EpPort, Rule: in.rule})
}
