// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"passt/dataplane/flow"
	"passt/dataplane/fwd"
	"passt/dataplane/wire"
	"passt/internal/sys"
)

// FromGuest handles consecutive segments of one 4-tuple. Their payload is valid until it returns.
func (t *TCP) FromGuest(run []wire.Packet) {
	p := &run[0]
	t.side = flow.Side{Our: p.Dst, Ep: p.Src, OurPort: p.DstPort, EpPort: p.SrcPort, Pif: fwd.PifTap}
	for len(run) > 0 {
		i, _, ok := t.env.Table.Lookup(wire.ProtoTCP, &t.side)
		if ok {
			run = run[t.segments(i, run):]
			continue
		}
		seg := wire.TCP(run[0].L4)
		if seg.Flags()&(wire.SYN|wire.ACK|wire.RST|wire.FIN) == wire.SYN {
			t.connect(&run[0], seg)
		} else {
			t.resetUnknown(&run[0], seg)
		}
		run = run[1:]
	}
}

// segments handles a run on an existing connection, and tells how much of it: the rest when the flow ended is
// for no or another connection.
func (t *TCP) segments(i flow.Index, run []wire.Packet) int {
	c := &t.conns[i]
	c.lastGuest, c.lastAny = t.env.NowMs, t.env.NowMs
	n := 0
	for ; n < len(run) && c.state != StateOpen; n++ {
		switch t.handshake(i, wire.TCP(run[n].L4)) {
		case shakeGone:
			return n + 1
		case shakeData:
			n-- // the same segment again, as data
		}
	}
	if n < len(run) {
		k, live := t.stream(i, run[n:])
		if n += k; !live {
			return n
		}
	}
	if c.state == StateOpen && (c.has(readable) || c.sndNxt != c.sndMax) {
		t.toGuest(i)
	}
	return n
}

// What one segment was.
const (
	segDone  = iota // nothing for the socket
	segTaken        // advanced rcvNxt
	segHole         // begins beyond rcvNxt
	segReset        // the guest's reset
)

// stream handles segments of an open connection: how many, and whether the flow still lives.
func (t *TCP) stream(i flow.Index, run []wire.Packet) (int, bool) {
	c := &t.conns[i]
	t.nVec = 0
	t.best = best{ack: c.sndUna, win: c.sndWnd, raw: c.lastWin}
	before := c.rcvNxt
	hole, seen := -1, -1
	for k := 0; k < len(run); k++ {
		fresh := k > seen
		seen = max(seen, k)
		switch t.one(i, wire.TCP(run[k].L4), fresh) {
		case segReset:
			t.resetHost(i)
			return k + 1, false
		case segHole:
			if hole < 0 {
				hole = k
			}
		case segTaken:
			if hole >= 0 {
				k, hole = hole-1, -1 // what came too early may fit now
			}
			if t.nVec == maxVec {
				if t.flushVec(i) != 0 {
					t.abort(i)
					return len(run), false
				}
			}
		}
	}
	if !t.deliver(i) || !t.applyAck(i) { // the peer waits for the data, nobody for the acknowledgement
		return len(run), false
	}
	if hole >= 0 {
		// Twice: the second one is a duplicate, which makes the guest repeat what is missing (spec tcp 7.2).
		t.sendControl(i, wire.ACK, c.sndNxt)
		t.sendControl(i, wire.ACK, c.sndNxt)
	}
	if c.rcvNxt != before {
		t.grow(c, c.rcvNxt.From(before))
		if c.rcvNxt.From(c.rcvAcked) >= c.rcvCap/2 {
			t.sendControl(i, wire.ACK, c.sndNxt) // the guest shall not run dry before the end of the turn
		} else {
			t.later(i, false)
		}
	}
	return len(run), true
}

// acceptable is the check of RFC 9293 s.3.10.7.4, first: some of the segment lies in the window or at its edges.
func (c *conn) acceptable(seq, end Seq) bool {
	return c.rcvAcked.Leq(end) && seq.Leq(c.rcvEdge)
}

// one handles one segment of an open connection; fresh is false when it is looked at again for its payload.
func (t *TCP) one(i flow.Index, seg wire.TCP, fresh bool) int {
	c := &t.conns[i]
	f, seq, payload := seg.Flags(), Seq(seg.Seq()), seg.Payload()
	end := seq.Add(int(segLen(seg)))
	switch {
	case f&wire.RST != 0:
		return t.reset(i, seq)
	case c.isKeepAlive(seq, end, f):
		if fresh { // else a single byte that was taken the first time
			t.keepAlive(i, seg)
		}
		return segDone
	case !c.acceptable(seq, end):
		t.later(i, true)
		if c.rcvEdge.Less(seq) {
			t.env.Drops.Add(wire.DropTCPWindow)
		}
		return segDone
	case f&wire.SYN != 0: // RFC 5961 s.4
		t.later(i, true)
		return segDone
	case f&wire.ACK == 0:
		return segDone
	}
	if !t.ackInRange(c, Seq(seg.Ack())) {
		t.later(i, true)
		return segDone
	}
	if fresh {
		t.best.note(c, seg)
	}
	switch {
	case end == seq && seq.Leq(c.rcvNxt):
		return segDone
	case end.Leq(c.rcvNxt) || c.has(guestFIN):
		t.later(i, true) // old: the guest missed our acknowledgement
		return segDone
	case c.rcvNxt.Less(seq):
		if end == seq {
			return segDone
		}
		return segHole
	}
	t.take(c, payload[c.rcvNxt.From(seq):], f, i)
	return segTaken
}

// take accepts payload that begins at rcvNxt, as far as the window goes, and FIN.
func (t *TCP) take(c *conn, payload []byte, f uint8, i flow.Index) {
	if room := c.rcvEdge.From(c.rcvNxt); uint32(len(payload)) > room {
		t.env.Drops.Add(wire.DropTCPWindow)
		payload, f = payload[:room], f&^wire.FIN
		t.later(i, true)
	}
	if len(payload) > 0 {
		t.vec[t.nVec].Set(payload)
		t.nVec++
		c.rcvNxt = c.rcvNxt.Add(len(payload))
	}
	if f&wire.FIN != 0 {
		c.rcvNxt++
		c.set(guestFIN)
		if c.rcvEdge.Less(c.rcvNxt) {
			c.rcvEdge = c.rcvNxt // it takes no room; what the guest says from now on begins here
		}
	}
}

// ackInRange tells an acknowledgement of something that was sent, and not too long ago (RFC 5961 s.5).
func (t *TCP) ackInRange(c *conn, ack Seq) bool {
	if c.sndMax.Less(ack) || ack.Less(c.sndUna.Add(-oldAck)) {
		t.env.Drops.Add(wire.DropTCPAck)
		return false
	}
	return true
}

// isKeepAlive tells a keep-alive, or the probe of a guest that takes our window for shut: before rcvNxt, nothing or one byte of
// junk (RFC 9293 s.3.8.4).
func (c *conn) isKeepAlive(seq, end Seq, f uint8) bool {
	return seq.Less(c.rcvNxt) && seq.Less(c.rcvEdge) && end-seq <= 1 && end.Leq(c.rcvNxt) &&
		f&(wire.SYN|wire.FIN|wire.ACK) == wire.ACK && c.rcvNxt-seq <= oldAck
}

// keepAlive answers one. Its acknowledgement and window count as any, but it never stands for a missing segment.
func (t *TCP) keepAlive(i flow.Index, seg wire.TCP) {
	c := &t.conns[i]
	t.later(i, true)
	if Seq(seg.Seq())+1 != c.rcvNxt {
		return // the acknowledgement of single bytes was lost
	}
	if t.ackInRange(c, Seq(seg.Ack())) {
		t.best.note(c, seg)
		t.best.dup = false
	}
	if !c.has(keepOpt) {
		c.set(keepOpt)
		_ = sys.OptKeepAlive.Set(t.fd(i), 1) // a hint
	}
}

// reset handles the guest's RST (RFC 5961 s.3).
func (t *TCP) reset(i flow.Index, seq Seq) int {
	c := &t.conns[i]
	if seq == c.rcvNxt {
		return segReset
	}
	t.env.Drops.Add(wire.DropTCPReset)
	if c.rcvNxt.Less(seq) && seq.Leq(c.rcvEdge) {
		t.later(i, true)
	}
	return segDone
}
