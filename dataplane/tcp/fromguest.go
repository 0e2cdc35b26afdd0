// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"passt/dataplane/flow"
	"passt/dataplane/fwd"
	"passt/dataplane/wire"
	"passt/internal/sys"
)

// FromGuest handles consecutive segments of one connection.
func (t *TCP) FromGuest(run []wire.Packet) {
	p := &run[0]
	t.cur = flow.Side{Our: p.Dst, Ep: p.Src, OurPort: p.DstPort, EpPort: p.SrcPort, Pif: fwd.PifTap}
	i, _, ok := t.env.Table.Lookup(wire.ProtoTCP, &t.cur)
	for !ok {
		seg := wire.TCP(p.L4)
		if seg.Flags()&(wire.SYN|wire.ACK|wire.RST|wire.FIN) == wire.SYN {
			if i = t.connect(p, seg); i == flow.NoFlow {
				return
			}
			ok = true
		} else {
			t.resetUnknown(p, seg)
		}
		if run = run[1:]; len(run) == 0 {
			return
		}
		p = &run[0]
	}
	if t.env.Table.Rows[i].Kind == flow.KindTCP {
		t.segments(i, run)
	}
}

// connect begins a connection of the guest.
func (t *TCP) connect(p *wire.Packet, seg wire.TCP) flow.Index {
	e := t.env
	if !p.Src.IsUnicast() || !p.Dst.IsUnicast() {
		e.Drops.Add(wire.DropAddress)
		return flow.NoFlow
	}
	if p.SrcPort == 0 || p.DstPort == 0 {
		e.Drops.Add(wire.DropPort)
		return flow.NoFlow
	}
	target, ok := e.Fwd.Outbound(fwd.ProtoTCP, &p.Dst, p.DstPort)
	if !ok {
		e.Drops.Add(wire.DropNoRule)
		return flow.NoFlow
	}
	i := t.start(t.cur, flow.Side{Ep: target, EpPort: p.DstPort, Pif: fwd.PifHost}, true)
	if i == flow.NoFlow {
		return i
	}
	c := &t.conns[i]
	c.state = next[StateClosed][EvSYN]
	c.rcvNxt = seg.Seq() + 1
	c.rcvAcked, c.rcvEdge = c.rcvNxt, c.rcvNxt
	t.options(c, seg)
	c.sndWnd = uint32(seg.Window())
	q := flow.Request{Flow: i, Op: flow.OpTCP, Slot: 1, To: fwd.PifHost, Dst: p.Dst, DstPort: p.DstPort, MSS: c.mss}
	if !e.Ask(&q) {
		t.end(i)
		return flow.NoFlow
	}
	return i
}

// options reads MSS and window scale of a SYN.
func (t *TCP) options(c *conn, seg wire.TCP) {
	mss, shift, hasShift := defaultMSS, 0, false
	for b := seg.Options(); len(b) > 0; {
		if b[0] == 0 {
			break
		}
		if b[0] == 1 {
			b = b[1:]
			continue
		}
		if len(b) < 2 || b[1] < 2 || int(b[1]) > len(b) {
			break
		}
		switch {
		case b[0] == 2 && b[1] == 4:
			mss = int(be.Uint16(b[2:]))
		case b[0] == 3 && b[1] == 3:
			shift, hasShift = min(int(b[2]), 14), true
		}
		b = b[b[1]:]
	}
	c.mss = uint16(max(minMSS, min(mss, 65535-wire.IP6Size-wire.TCPSize-4)))
	if hasShift {
		c.flags |= scaled
		c.wsGuest = uint8(shift)
	}
}

// segments handles a run on an existing connection.
func (t *TCP) segments(i flow.Index, run []wire.Packet) {
	c := &t.conns[i]
	c.lastGuest, c.lastAny = t.env.NowMs, t.env.NowMs
	for len(run) > 0 && c.state != StateOpen {
		seg := wire.TCP(run[0].L4)
		if !t.handshake(i, seg) {
			return
		}
		if c.state == StateOpen && len(seg.Payload()) == 0 && seg.Flags()&wire.FIN == 0 {
			run = run[1:]
			break
		}
		if c.state != StateOpen {
			run = run[1:]
		}
	}
	if len(run) > 0 && !t.stream(i, run) {
		return
	}
	if c.state == StateOpen && (c.has(readable) || c.sndNxt != c.sndMax) {
		t.toGuest(i)
	}
}

// handshake handles one segment before the connection is open; false when the flow is gone.
func (t *TCP) handshake(i flow.Index, seg wire.TCP) bool {
	c := &t.conns[i]
	f := seg.Flags()
	switch c.state {
	case StateConnecting:
		switch {
		case f&wire.RST != 0:
			if seg.Seq() == c.rcvNxt {
				t.resetHost(i)
				return false
			}
		case f&wire.ACK != 0:
			t.abort(i) // nothing of ours could be acknowledged
			return false
		}
		return true // a repeated SYN: the host's socket still connects
	case StateSynAckSent:
		return t.completes(i, seg)
	}
	return t.answered(i, seg)
}

// completes handles the guest's answer to our SYN,ACK.
func (t *TCP) completes(i flow.Index, seg wire.TCP) bool {
	c := &t.conns[i]
	f := seg.Flags()
	switch {
	case f&wire.RST != 0:
		if seg.Seq() == c.rcvNxt {
			t.resetHost(i)
			return false
		}
		return true
	case f&wire.SYN != 0:
		return true // the guest repeats its SYN: ours is on its way again by the timer
	case f&wire.ACK == 0 || seg.Ack() != c.iss+1:
		t.resetUnacceptable(i, seg)
		return false
	}
	c.state = next[c.state][EvACK]
	c.sndWnd = uint32(seg.Window()) << c.wsGuest
	t.open(i)
	return true
}

// answered handles the guest's answer to our SYN.
func (t *TCP) answered(i flow.Index, seg wire.TCP) bool {
	c := &t.conns[i]
	f := seg.Flags()
	switch {
	case f&wire.RST != 0:
		if f&wire.ACK != 0 && seg.Ack() == c.iss+1 {
			t.resetHost(i)
			return false
		}
		return true
	case f&(wire.SYN|wire.ACK|wire.FIN) != wire.SYN|wire.ACK || seg.Ack() != c.iss+1:
		t.resetUnacceptable(i, seg)
		return false
	}
	c.rcvNxt = seg.Seq() + 1
	c.rcvAcked, c.rcvEdge = c.rcvNxt, c.rcvNxt
	t.options(c, seg)
	c.state = next[c.state][EvSYNACK]
	c.sndWnd = uint32(seg.Window())
	t.open(i)
	t.later(i, true)
	return true
}

func (t *TCP) resetUnacceptable(i flow.Index, seg wire.TCP) {
	c := &t.conns[i]
	if seg.Flags()&wire.ACK != 0 {
		c.sndNxt = seg.Ack()
	}
	t.sendControl(i, wire.RST, c.sndNxt)
	t.resetHost(i)
}

// open prepares for data after the handshake.
func (t *TCP) open(i flow.Index) {
	c := &t.conns[i]
	c.sndUna, c.sndNxt, c.sndMax = c.iss+1, c.iss+1, c.iss+1
	c.tries, c.due = 0, 0
	c.progress = t.env.NowMs
	c.flags |= readable // data may have come before
	if !t.noPeek && sys.SetPeekOffset(t.fd(i), 0) != 0 {
		t.noPeek = true
	}
	c.peekAt = 0
	t.arm(i)
}

// stream handles segments of an open connection; false when the flow is gone.
func (t *TCP) stream(i flow.Index, run []wire.Packet) bool {
	c := &t.conns[i]
	t.vecLen = 0
	before := c.rcvNxt
	hole := -1
	for k := 0; k < len(run); k++ {
		seg := wire.TCP(run[k].L4)
		switch t.one(i, seg) {
		case segGone:
			return false
		case segHole:
			if hole < 0 {
				hole = k
			}
		case segTaken:
			// What was out of order may fit now.
			if hole >= 0 {
				k, hole = hole-1, -1
			}
		}
		if t.vecLen == maxVec && !t.deliver(i) {
			return false
		}
	}
	if hole >= 0 {
		t.later(i, true)
	}
	if c.rcvNxt != before {
		t.grow(c, c.rcvNxt-before)
		t.later(i, false)
	}
	return t.deliver(i)
}

// What one segment was.
const (
	segDone  = iota // nothing to deliver
	segTaken        // advanced rcvNxt
	segHole         // begins beyond rcvNxt
	segGone         // ended the flow
)

// one handles one segment of an open connection: reset, acknowledgement, payload, FIN.
func (t *TCP) one(i flow.Index, seg wire.TCP) int {
	c := &t.conns[i]
	f := seg.Flags()
	seq, payload := seg.Seq(), seg.Payload()
	if f&wire.RST != 0 {
		return t.reset(i, seq)
	}
	if f&wire.SYN != 0 {
		t.later(i, true) // challenge (RFC 5961 s.4)
		return segDone
	}
	if f&wire.ACK == 0 {
		return segDone
	}
	end := seq + uint32(len(payload))
	if f&wire.FIN != 0 {
		end++
	}
	keepAlive := seq == c.rcvNxt-1 && len(payload) <= 1 && f&wire.FIN == 0
	if !t.acked(i, seg, keepAlive) {
		return segGone
	}
	if keepAlive && !c.has(keepOpt) {
		c.flags |= keepOpt
		_ = sys.OptKeepAlive.Set(t.fd(i), 1) // a hint
	}
	switch {
	case end == seq && seq == c.rcvNxt:
		return segDone
	case leq(end, c.rcvNxt) || c.has(guestFIN):
		t.later(i, true) // old, or a keep-alive: RFC 9293 s.3.10.7.4
		return segDone
	case less(c.rcvNxt, seq):
		if leq(seq, c.rcvEdge) {
			return segHole
		}
		t.env.Drops.Add(wire.DropTCPWindow)
		t.later(i, true)
		return segDone
	}
	payload = payload[c.rcvNxt-seq:]
	if room := c.rcvEdge - c.rcvNxt; uint32(len(payload)) > room {
		t.env.Drops.Add(wire.DropTCPWindow)
		payload, f = payload[:room], f&^wire.FIN
		t.later(i, true)
	}
	if len(payload) > 0 {
		t.vec[t.vecLen].Set(payload)
		t.vecLen++
		c.rcvNxt += uint32(len(payload))
	}
	if f&wire.FIN != 0 {
		c.rcvNxt++
		c.flags |= guestFIN
	}
	return segTaken
}

// reset handles the guest's RST (RFC 5961 s.3).
func (t *TCP) reset(i flow.Index, seq uint32) int {
	c := &t.conns[i]
	switch {
	case seq == c.rcvNxt:
		t.vecLen = 0
		t.resetHost(i)
		return segGone
	case less(c.rcvNxt, seq) && leq(seq, c.rcvEdge):
		t.later(i, true)
	default:
		t.env.Drops.Add(wire.DropTCPReset)
	}
	return segDone
}
