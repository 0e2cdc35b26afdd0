// SPDX-License-Identifier: Apache-2.0

package udp

import (
	"passt/dataplane/flow"
	"passt/dataplane/fwd"
	"passt/dataplane/wire"
	"passt/internal/sys"
)

// FromGuest forwards consecutive datagrams of one 5-tuple.
//
//	in: run, at least one packet with Proto UDP; TTL, sizes and GSO may differ
func (u *UDP) FromGuest(run []wire.Packet) {
	if len(run) == 0 {
		return
	}
	p := &run[0]
	key := flow.Side{Our: p.Dst, Ep: p.Src, OurPort: p.DstPort, EpPort: p.SrcPort, Pif: fwd.PifTap}
	i, side, ok := u.env.Table.Lookup(wire.ProtoUDP, &key)
	if !ok {
		d := u.checkNew(p)
		if d == wire.DropNone {
			i, d = u.newFromGuest(&key)
		}
		if i == flow.NoFlow || d != wire.DropNone {
			u.env.Drops[d] += uint64(len(run))
			return
		}
		side = 0
	}
	u.touch(i, side)
	if u.ready(i, 1-side) {
		u.sendRun(i, 1-side, run)
		return
	}
	for k := range run {
		p := &run[k]
		if d := u.wait.push(&u.st[i], wire.UDP(p.L4).Payload(), p.GSOSize, p.TTL); d != wire.DropNone {
			u.env.Drops.Add(d)
		}
	}
}

// ready tells whether datagrams may go out by a side's socket at once.
func (u *UDP) ready(i flow.Index, side int) bool {
	s := &u.st[i]
	return u.env.Table.Rows[i].FD[side] != sys.NoFD && s.head == 0 && s.flags&(flagAsked|flagAsked<<1) == 0
}

// checkNew tells whether a packet may begin a flow.
func (u *UDP) checkNew(p *wire.Packet) wire.Drop {
	switch {
	case !p.Src.IsUnicast() || p.Dst.IsUnspecified() || p.Src.Is4() != p.Dst.Is4():
		return wire.DropAddress
	case p.SrcPort == 0 || p.DstPort == 0:
		return wire.DropPort
	}
	if _, ok := u.env.Fwd.Outbound(wire.ProtoUDP, &p.Dst, p.DstPort); !ok {
		return wire.DropNoRule
	}
	return wire.DropNone
}

// newFromGuest makes a flow and asks the supervisor for its socket. NoFlow: refused and counted already.
func (u *UDP) newFromGuest(key *flow.Side) (flow.Index, wire.Drop) {
	i := u.create()
	if i == flow.NoFlow {
		return i, wire.DropNone
	}
	r := &u.env.Table.Rows[i]
	r.Side[0] = *key
	to, _ := u.env.Fwd.Outbound(wire.ProtoUDP, &key.Our, key.OurPort)
	r.Side[1] = flow.Side{Ep: to, EpPort: key.OurPort, OurPort: key.EpPort, Pif: fwd.PifHost}
	r.MAC = u.env.SourceMAC(&r.Side[0].Our) // in the row: a pointer to the stack would be an allocation
	u.env.Table.Insert(i, 0)
	q := flow.Request{Flow: i, Op: flow.OpUDP, Slot: 1, To: fwd.PifHost, SrcPort: key.EpPort, Dst: key.Our, DstPort: key.OurPort}
	if !u.ask(&q) {
		u.end(i)
		return flow.NoFlow, wire.DropNone
	}
	if key.Our.IsMulticast() || key.Our.IsBroadcast() {
		u.st[i].flags |= flagAnswers
	}
	u.env.Arm(i, u.deadline(&u.st[i]))
	return i, wire.DropNone
}

// ask sends a request and marks its slot.
func (u *UDP) ask(q *flow.Request) bool {
	if !u.env.Ask(q) {
		return false
	}
	u.st[q.Flow].set(flagAsked, int(q.Slot))
	return true
}

// sendRun sends the guest's datagrams, equal neighbours together.
func (u *UDP) sendRun(i flow.Index, side int, run []wire.Packet) {
	s := &u.st[i]
	for k := 0; k < len(run); {
		p := &run[k]
		b := wire.UDP(p.L4).Payload()
		j := k + 1
		if p.GSOSize == 0 && len(b) > 0 && len(b) <= int(s.segMax[side]) {
			j = u.join(run, k)
		}
		if j == k+1 {
			u.send(i, side, b, p.GSOSize, p.TTL)
		} else if !u.sendJoined(i, side, run[k:j]) {
			for ; k < j; k++ {
				u.send(i, side, wire.UDP(run[k].L4).Payload(), 0, run[k].TTL)
			}
		}
		k = j
	}
}

// join tells where the datagrams that can leave together with run[k] end: equal sizes, the last may be shorter.
// It fills u.vec.
func (u *UDP) join(run []wire.Packet, k int) int {
	b := wire.UDP(run[k].L4).Payload()
	size, total, ttl := len(b), len(b), run[k].TTL
	u.vec[0].Set(b)
	j := k + 1
	for ; j < len(run) && j-k < maxSegments; j++ {
		b := wire.UDP(run[j].L4).Payload()
		if run[j].GSOSize != 0 || run[j].TTL != ttl || len(b) == 0 || len(b) > size || total+len(b) > maxPayload {
			break
		}
		u.vec[j-k].Set(b)
		total += len(b)
		if len(b) < size {
			return j + 1
		}
	}
	return j
}

// sendJoined writes the datagrams that join put into u.vec; false when they must leave one by one.
func (u *UDP) sendJoined(i flow.Index, side int, run []wire.Packet) bool {
	s, fd := &u.st[i], u.env.Table.Rows[i].FD[side]
	size := len(run[0].L4) - wire.UDPSize
	u.setTTL(i, side, run[0].TTL)
	if !u.setSegment(i, side, size) {
		return false
	}
	for range maxTries {
		_, e := sys.Writev(fd, u.vec[:len(run)])
		switch {
		case e == 0:
			return true
		case refusesSegments(e) && !u.pending(i, side, e):
			s.segMax[side] = uint16(size - 1)
			return false
		case e == sys.EAGAIN || e == sys.ENOBUFS:
			u.env.Drops[wire.DropHostError] += uint64(len(run))
			return true
		}
		if !refusesSegments(e) && !u.pending(i, side, e) {
			break
		}
	}
	u.env.Drops[wire.DropHostError] += uint64(len(run))
	return true
}
