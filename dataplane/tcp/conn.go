// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"strconv"

	"passt/dataplane/flow"
	"passt/dataplane/fwd"
	"passt/dataplane/wire"
	"passt/internal/sys"
)

// Flags of a connection.
const (
	readable = 1 << iota // the socket may hold data that was not peeked
	rdHup                // the peer has closed: after the data comes the end
	finSent              // our FIN is the last number before sndMax
	guestFIN             // the guest's FIN is within rcvNxt
	shutDone             // the guest's FIN was passed on
	ackDue               // on the list for the end of the turn
	ackNow               // acknowledge even if nothing changed
	scaled               // both sides scale windows
	fastDone             // retransmitted at once for this sndUna
	zeroWin              // the guest's window is shut
	keepOpt              // SO_KEEPALIVE is set
	timing               // a round trip is being measured
	linkWait             // the link was full
	peekOff              // the socket has SO_PEEK_OFF in use
	urgent               // the peer has sent urgent data: a short read does not mean an empty queue
	synAgain             // SYN or SYN,ACK was sent more than once (RFC 6298 s.5.7)
)

// conn is one connection, beside its flow.Row; no pointers, ≤ 160 bytes.
//
//	sndX: numbers of our data to the guest; sndUna ≤ sndNxt ≤ sndMax; the socket's queue begins at sndUna
//	rcvX: numbers of the guest's data; rcvAcked ≤ rcvNxt ≤ rcvEdge; rcvNxt - pend.bytes are in the socket
type conn struct {
	lastGuest int64 // ms, last segment of the guest
	lastAny   int64 // ms, last event of either side
	due       int64 // ms, handshake retry, retransmission or probe; 0: none
	since     int64 // ms, last sign of progress while due is set
	rttStart  int64 // ns

	iss, sndUna, sndNxt, sndMax Seq
	rttSeq                      Seq // acknowledging it ends the measurement
	rcvNxt, rcvAcked, rcvEdge   Seq // rcvEdge: highest right edge of the window that the guest was told

	sndWnd    uint32 // bytes that the guest takes beyond sndUna
	rcvCap    uint32 // bytes that may be invited and pending together
	sinceGrow uint32 // bytes since rcvCap last grew
	peekAt    uint32 // the kernel's peek offset, bytes beyond sndUna
	srttUs    uint32 // 0: not measured
	label     uint32 // IPv6 flow label
	pend      pending
	flags     uint32
	mss       uint16 // of the guest, bytes
	ownMSS    uint16 // that we told the guest
	lastWin   uint16 // window field that came with sndUna
	state     State
	wsGuest   uint8
	tries     uint8
}

func (c *conn) has(f uint32) bool { return c.flags&f != 0 }
func (c *conn) set(f uint32)      { c.flags |= f }
func (c *conn) clear(f uint32)    { c.flags &^= f }

// outstanding tells that the guest has not acknowledged everything that was sent.
func (c *conn) outstanding() bool { return c.sndUna != c.sndMax }

// guestSide gives the side of the guest link; the other one is that of the socket.
func guestSide(r *flow.Row) int {
	if r.Side[0].Pif == fwd.PifTap {
		return 0
	}
	return 1
}

func (t *TCP) fd(i flow.Index) sys.FD {
	r := &t.env.Table.Rows[i]
	return r.FD[1-guestSide(r)]
}

// start makes a flow with its guest side in the hash and an initial sequence number (spec tcp 5, RFC 6528).
func (t *TCP) start(guest, host *flow.Side, fromGuest bool) flow.Index {
	e := t.env
	i := e.Table.Alloc(flow.KindTCP)
	if i == flow.NoFlow {
		e.Drops.Add(wire.DropTableFull)
		return i
	}
	r := &e.Table.Rows[i]
	r.Proto = wire.ProtoTCP
	k := 1
	if fromGuest {
		k = 0
	}
	r.Side[k], r.Side[1-k] = *guest, *host
	r.MAC = e.SourceMAC(&guest.Our)
	e.Table.Insert(i, k)
	h := e.Table.Hash(wire.ProtoTCP, guest)
	c := &t.conns[i]
	*c = conn{lastGuest: e.NowMs, lastAny: e.NowMs, rcvCap: baseCap, mss: defaultMSS, pend: pending{head: noChunk, tail: noChunk}}
	c.iss = Seq(uint32(h>>32)^uint32(h)) + Seq(e.NowNs/32)
	c.label = uint32(h) & 0xfffff
	c.ownMSS = uint16(t.ourMSS(&guest.Our))
	c.sndUna, c.sndNxt, c.sndMax = c.iss, c.iss, c.iss
	if e.Trace {
		t.trace(i, "new")
	}
	return i
}

// end frees what the connection holds; the flow's descriptors close at the end of the turn.
func (t *TCP) end(i flow.Index) {
	c := &t.conns[i]
	if t.env.Trace {
		t.trace(i, "closed, was "+c.state.String())
	}
	t.pool.clear(&c.pend)
	t.setCap(c, baseCap)
	c.step(EvClose)
	t.env.End(i)
}

// abort resets both sides.
func (t *TCP) abort(i flow.Index) {
	t.sendReset(i)
	t.resetHost(i)
}

// resetHost resets the peer and ends the flow.
func (t *TCP) resetHost(i flow.Index) {
	if fd := t.fd(i); fd != sys.NoFD {
		_ = sys.SetLingerZero(fd) // without it the peer sees an orderly end: still an end
	}
	t.end(i)
}

// done ends a connection whose directions have both ended; true when it did.
func (t *TCP) done(i flow.Index) bool {
	c := &t.conns[i]
	if !c.has(finSent) || !c.has(shutDone) || c.outstanding() {
		return false
	}
	if c.rcvAcked != c.rcvNxt && !t.sendControl(i, wire.ACK, c.sndNxt) {
		t.later(i, true) // the link is full: EndTurn comes back here
		return false
	}
	t.end(i)
	return true
}

// setCap changes the receive capacity and the sum of what exceeds baseCap, which the pool backs.
func (t *TCP) setCap(c *conn, n uint32) {
	t.credit += int(n) - int(c.rcvCap)
	c.rcvCap = n
}

// levelTrace is Env.Log's level below debug.
const levelTrace = 4

// trace logs a change of state.
func (t *TCP) trace(i flow.Index, what string) {
	s := &t.env.Table.Rows[i].Side[guestSide(&t.env.Table.Rows[i])]
	b := make([]byte, 0, 160)
	b = strconv.AppendUint(append(b, "flow "...), uint64(i), 10)
	b = append(append(b, ": TCP guest "...), s.Ep.String()...)
	b = strconv.AppendUint(append(b, " port "...), uint64(s.EpPort), 10)
	b = append(append(b, " with "...), s.Our.String()...)
	b = strconv.AppendUint(append(b, " port "...), uint64(s.OurPort), 10)
	b = append(append(b, ": "...), what...)
	t.env.Log(levelTrace, string(b))
}
