// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"passt/dataplane/flow"
	"passt/dataplane/fwd"
	"passt/dataplane/wire"
	"passt/internal/sys"
)

// connect begins a connection of the guest.
func (t *TCP) connect(p *wire.Packet, seg wire.TCP) {
	e := t.env
	if !p.Src.IsUnicast() || !p.Dst.IsUnicast() {
		e.Drops.Add(wire.DropAddress)
		return
	}
	if p.SrcPort == 0 || p.DstPort == 0 {
		e.Drops.Add(wire.DropPort)
		return
	}
	target, ok := e.Fwd.Outbound(fwd.ProtoTCP, &p.Dst, p.DstPort)
	if !ok {
		e.Drops.Add(wire.DropNoRule)
		return
	}
	host := flow.Side{Ep: target, EpPort: p.DstPort, Pif: fwd.PifHost}
	i := t.start(&t.side, &host, true)
	if i == flow.NoFlow {
		return
	}
	c := &t.conns[i]
	c.step(EvSyn)
	t.peerSyn(i, seg)
	q := flow.Request{Flow: i, Op: flow.OpTCP, Slot: 1, To: fwd.PifHost, Dst: p.Dst, DstPort: p.DstPort, MSS: c.mss}
	if !e.Ask(&q) {
		t.end(i)
		return
	}
	t.arm(i)
}

// peerSyn takes what the guest's SYN tells: number, window (unscaled by definition), options.
func (t *TCP) peerSyn(i flow.Index, seg wire.TCP) {
	c := &t.conns[i]
	c.rcvNxt = Seq(seg.Seq()) + 1
	c.rcvAcked = c.rcvNxt
	if c.state == StateSynSent {
		c.rcvEdge = c.rcvNxt.Add(65535) // our SYN promised it
	} else {
		c.rcvEdge = c.rcvNxt
	}
	c.sndWnd = uint32(seg.Window())
	o := wire.ParseTCPOptions(seg.Options())
	if o.HasMSS {
		c.mss = min(max(o.MSS, minMSS), t.mssLimit(i))
	}
	if o.HasShift {
		c.set(scaled)
		c.wsGuest = o.Shift
	}
}

// mssLimit bounds the guest's MSS: its segments fit the link's MTU where that is ours to say, and an IP packet always.
func (t *TCP) mssLimit(i flow.Index) uint16 {
	r := &t.env.Table.Rows[i]
	if mtu := t.env.Cfg.MTU; mtu > 0 {
		return uint16(min(max(mtu-wire.IPHeaderLen(&r.Side[guestSide(r)].Our)-wire.TCPSize, minMSS), maxMSS))
	}
	return maxMSS
}

// connected answers the guest's SYN: the host's peer has accepted.
func (t *TCP) connected(i flow.Index) {
	t.conns[i].step(EvConnected)
	t.greet(i)
}

// greet sends the first SYN or SYN,ACK.
func (t *TCP) greet(i flow.Index) {
	c := &t.conns[i]
	c.sndNxt, c.sndMax = c.iss+1, c.iss+1
	c.tries = 0
	t.sendSyn(i)
	c.due = t.env.NowMs + t.synDelay(0)
	t.arm(i)
}

func (t *TCP) sendSyn(i flow.Index) {
	c := &t.conns[i]
	flags := uint8(wire.SYN)
	if c.state == StateSynAckSent {
		flags |= wire.ACK
	}
	t.sendControl(i, flags, c.iss) // lost: the timer sends it again
}

// What a segment of a handshake was.
const (
	shakeDone = iota // used up
	shakeData        // completed the handshake: its payload and FIN are still to be handled
	shakeGone        // ended the flow
)

// handshake handles one segment before the connection is open.
func (t *TCP) handshake(i flow.Index, seg wire.TCP) int {
	c := &t.conns[i]
	switch c.state {
	case StateSynAckSent:
		return t.completes(i, seg)
	case StateSynSent:
		return t.answered(i, seg)
	}
	// Connecting: nothing of ours was sent, so nothing can be acknowledged; the host's socket goes on connecting.
	switch f := seg.Flags(); {
	case f&wire.RST != 0:
		if Seq(seg.Seq()) == c.rcvNxt {
			t.resetHost(i)
			return shakeGone
		}
		t.env.Drops.Add(wire.DropTCPReset)
	case f&wire.ACK != 0:
		t.env.Drops.Add(wire.DropTCPAck)
		t.sendControl(i, wire.RST, Seq(seg.Ack()))
	}
	return shakeDone
}

// completes handles the guest's answer to our SYN,ACK (RFC 9293 s.3.10.7.4, SYN-RECEIVED).
func (t *TCP) completes(i flow.Index, seg wire.TCP) int {
	c := &t.conns[i]
	f, seq := seg.Flags(), Seq(seg.Seq())
	switch {
	case f&wire.RST != 0:
		if seq == c.rcvNxt {
			t.resetHost(i)
			return shakeGone
		}
		t.env.Drops.Add(wire.DropTCPReset)
		return shakeDone
	case f&wire.SYN != 0:
		if f&wire.ACK == 0 && seq+1 == c.rcvNxt {
			t.sendSyn(i) // the guest did not get our answer
		} else {
			t.sendControl(i, wire.ACK, c.sndNxt)
		}
		return shakeDone
	case f&wire.ACK == 0:
		return shakeDone
	case Seq(seg.Ack()) != c.iss+1:
		t.env.Drops.Add(wire.DropTCPAck)
		t.sendControl(i, wire.RST, Seq(seg.Ack()))
		return shakeDone
	case !c.acceptable(seq, seq.Add(int(segLen(seg)))):
		t.env.Drops.Add(wire.DropTCPWindow)
		t.sendControl(i, wire.ACK, c.sndNxt)
		return shakeDone
	}
	c.step(EvAck)
	t.open(i)
	return shakeData
}

// answered handles the guest's answer to our SYN (RFC 9293 s.3.10.7.3, SYN-SENT).
func (t *TCP) answered(i flow.Index, seg wire.TCP) int {
	c := &t.conns[i]
	f := seg.Flags()
	good := f&wire.ACK != 0 && Seq(seg.Ack()) == c.iss+1
	switch {
	case f&wire.RST != 0:
		if good {
			t.resetHost(i)
			return shakeGone
		}
		t.env.Drops.Add(wire.DropTCPReset)
		return shakeDone
	case f&wire.ACK != 0 && !good:
		t.env.Drops.Add(wire.DropTCPAck)
		t.sendControl(i, wire.RST, Seq(seg.Ack()))
		return shakeDone
	case f&(wire.SYN|wire.ACK|wire.FIN) != wire.SYN|wire.ACK:
		t.abort(i)
		return shakeGone
	}
	t.peerSyn(i, seg)
	c.step(EvSynAck)
	t.open(i)
	t.guestWindow(i, uint32(seg.Window())) // it may be shut from the start
	t.later(i, true)
	return shakeDone
}

// open prepares for data after the handshake.
func (t *TCP) open(i flow.Index) {
	c := &t.conns[i]
	c.sndUna, c.sndNxt, c.sndMax = c.iss+1, c.iss+1, c.iss+1
	c.tries, c.due = 0, 0
	c.set(readable) // data may have come before
	c.peekAt = 0
	if t.env.Trace {
		t.trace(i, "open")
	}
	if !t.noPeek && !c.has(urgent) {
		if sys.SetPeekOffset(t.fd(i), 0) == 0 {
			c.set(peekOff)
		} else {
			t.noPeek = true // older kernels have it for IPv4 only: one way for all is simpler
		}
	}
	t.arm(i)
}

// synDelay is the wait after try n of a SYN, ms: linear first, then doubling (tcp_syn_linear_timeouts).
func (t *TCP) synDelay(n int) int64 {
	d := int64(firstRTOMs)
	if k := n - t.env.Cfg.SynLinear; k > 0 {
		d <<= min(k, 20)
	}
	return min(d, t.maxRTO())
}

// synMax is the most repetitions of a SYN.
func (t *TCP) synMax() int {
	n := t.env.Cfg.SynRetries + t.env.Cfg.SynLinear
	if n <= 0 {
		return synTries
	}
	return min(n, synTries)
}
