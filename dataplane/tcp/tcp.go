// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"passt/dataplane/flow"
	"passt/dataplane/fwd"
	"passt/dataplane/wire"
	"passt/internal/sys"
)

// Limits and times.
const (
	baseCap       = 64 << 10 // bytes a connection may always send: the socket's own buffer takes them
	maxCap        = 1 << 20  // bytes a bulk connection may have under way, backed by the pending pool
	minMSS        = 88       // the kernel's smallest TCP_MAXSEG
	defaultMSS    = 536      // RFC 9293 s.3.7.1: no option
	turnBudget    = 16       // segments (64 KiB with offload) of one connection in one turn
	maxVec        = 256      // vectors of one write
	ourShift      = 8        // window scale that we offer: windows to 16 MiB
	synWindow     = 65535    // of SYN and SYN,ACK, unscaled
	minRTOMs      = 200      // RFC 6298 says 1 s; this link is a wire inside one machine
	firstRTOMs    = 1000     // before a round trip was measured
	giveUpMs      = 247_000  // no progress for so long: reset (spec tcp 9)
	probeMs       = 1000     // first zero-window probe
	keepAliveMs   = 30_000   // silence of the guest before a keep-alive, and between them
	inactivityMs  = 7200_000 // silence of both sides before the end
	synTries      = 7
	peekScratch   = 1 << 20  // bytes of scratch for kernels without SO_PEEK_OFF
	maxPeekBehind = 16 << 20 // bytes in flight that the scratch can cover, in vectors of it
)

// Flags of a connection.
const (
	readable   = 1 << iota // socket may hold data that was not peeked
	rdHup                  // the peer has closed: read to the end
	hostEOF                // end of the peer's data was seen
	finSent                // our FIN is within sndNxt
	guestFIN               // guest's FIN is within rcvNxt
	shutDone               // guest's FIN was passed on
	ackDue                 // on the list for the end of the turn
	ackNow                 // acknowledge even if nothing changed
	scaled                 // both sides scale windows
	fastDone               // retransmitted at once for this sndUna
	zeroWindow             // guest's window is shut, probing
	keepOpt                // SO_KEEPALIVE is set
	timing                 // a round trip is being measured
	inbound                // the connection came from the host
	again                  // budget used up
)

// conn is one connection, beside flow.Row; no pointers.
type conn struct {
	lastGuest int64 // ms of the last segment from the guest
	lastAny   int64 // ms of the last event of either side
	due       int64 // ms: handshake retry, retransmission or probe; 0: none
	progress  int64 // ms of the last acknowledgement, start of giveUpMs
	rttStart  int64 // ns

	iss, sndUna, sndNxt, sndMax uint32
	sndWnd                      uint32 // bytes, of the guest
	rttSeq                      uint32
	rcvNxt, rcvAcked            uint32
	rcvEdge                     uint32 // right edge that the guest was told
	rcvCap                      uint32 // bytes that may be under way or pending
	sinceGrow                   uint32 // bytes since rcvCap last grew
	peekAt                      uint32 // the kernel's peek offset
	srtt                        uint32 // us, 0: none
	pend                        pending
	label                       uint32 // IPv6 flow label
	mss                         uint16 // of the guest
	flags                       uint16
	state                       State
	wsGuest                     uint8
	tries                       uint8
	lastWin                     uint16 // window field of the last pure acknowledgement
	lastWinAck                  uint32
}

// TCP handles all connections of one loop.
type TCP struct {
	env     *flow.Env
	conns   []conn
	pool    pool
	vec     []sys.Iovec
	vecLen  int
	segs    []sys.Iovec
	scratch []byte
	noPeek  bool // no SO_PEEK_OFF
	acks    []flow.Index
	nAcks   int
	credit  int // bytes by which rcvCaps exceed baseCap
	cur     flow.Side
}

// New maps all tables.
func New(env *flow.Env) *TCP {
	t := &TCP{env: env, conns: sys.AllocOf[conn](env.Table.Cap()), vec: sys.AllocOf[sys.Iovec](maxVec),
		segs: sys.AllocOf[sys.Iovec](1024), acks: sys.AllocOf[flow.Index](env.Table.Cap()), noPeek: env.Cfg.NoPeekOffset}
	t.pool.init()
	t.scratch = sys.Alloc(peekScratch)
	return t
}

func (c *conn) has(f uint16) bool { return c.flags&f != 0 }

// less and leq compare sequence numbers (RFC 9293 s.3.4).
func less(a, b uint32) bool { return int32(a-b) < 0 }
func leq(a, b uint32) bool  { return int32(a-b) <= 0 }

// guestSide gives the side of the guest link, hostSide that of the socket.
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

// start makes a flow with its guest side in the hash and an initial sequence number (RFC 6528).
func (t *TCP) start(guest, host flow.Side, fromGuest bool) flow.Index {
	i := t.env.Table.Alloc(flow.KindTCP)
	if i == flow.NoFlow {
		t.env.Drops.Add(wire.DropTableFull)
		return i
	}
	r := &t.env.Table.Rows[i]
	r.Proto = wire.ProtoTCP
	k := 1
	if fromGuest {
		k = 0
	}
	r.Side[k], r.Side[1-k] = guest, host
	r.MAC = t.env.SourceMAC(&guest.Our)
	t.env.Table.Insert(i, k)
	h := t.env.Table.Hash(wire.ProtoTCP, &r.Side[k])
	c := &t.conns[i]
	*c = conn{lastGuest: t.env.NowMs, lastAny: t.env.NowMs, progress: t.env.NowMs, rcvCap: baseCap, mss: defaultMSS, pend: pending{head: noChunk, tail: noChunk}}
	c.iss = uint32(h>>32) ^ uint32(h) + uint32(t.env.NowNs/32)
	c.label = uint32(h) & 0xfffff
	c.sndUna, c.sndNxt, c.sndMax = c.iss, c.iss, c.iss
	if !fromGuest {
		c.flags |= inbound
	}
	return i
}

// end frees what the connection holds; the flow's descriptors close at the end of the turn.
func (t *TCP) end(i flow.Index) {
	c := &t.conns[i]
	t.pool.free(&c.pend)
	t.credit -= int(c.rcvCap - baseCap)
	c.rcvCap = baseCap
	c.state = StateClosed
	t.env.End(i)
}

// abort resets both sides.
func (t *TCP) abort(i flow.Index) {
	c := &t.conns[i]
	if c.state != StateConnecting || c.rcvNxt != 0 {
		t.sendReset(i)
	}
	t.resetHost(i)
}

// resetHost resets the peer and ends the flow.
func (t *TCP) resetHost(i flow.Index) {
	if fd := t.fd(i); fd != sys.NoFD {
		_ = sys.SetLingerZero(fd)
	}
	t.end(i)
}

// maybeDone ends a connection whose both directions are finished.
func (t *TCP) maybeDone(i flow.Index) bool {
	c := &t.conns[i]
	if c.has(finSent) && c.sndUna == c.sndMax && c.has(shutDone) {
		t.end(i)
		return true
	}
	return false
}

// Opened takes the broker's answer for a connection of the guest.
func (t *TCP) Opened(o *flow.Opened) {
	i := o.Flow
	c := &t.conns[i]
	if o.Errno != 0 {
		if answerOf(o.Errno) == answerReset {
			t.sendReset(i)
		}
		t.end(i)
		return
	}
	r := &t.env.Table.Rows[i]
	side := 1 - guestSide(r)
	r.FD[side] = o.FD
	r.Side[side].Ep = o.Target
	if e := t.env.Watch(i, side); e != 0 {
		t.abort(i)
		return
	}
	if o.Connected && c.state == StateConnecting {
		t.synAck(i)
	}
}

// Accept takes a connection of the host for the guest: the peer is accepted before the guest answers.
func (t *TCP) Accept(l *flow.Listener, fd sys.FD, peer, our wire.Addr, peerPort, ourPort uint16) {
	e := t.env
	rule := &e.HostRules[l.Rule]
	f := e.Fwd.Of(&peer)
	seen := e.Guest.Seen4
	if !peer.Is4() {
		seen = e.Guest.Seen6
	}
	src, ok := e.Fwd.Inbound(&peer, &seen)
	dst := rule.Target
	if dst.IsZero() {
		dst = e.GuestAddr(&src)
	}
	if !ok || !f.On || dst.IsZero() || dst.Is4() != src.Is4() || e.Link == nil {
		e.Drops.Add(wire.DropNoRule)
		refuse(fd)
		return
	}
	host := flow.Side{Our: our, Ep: peer, OurPort: ourPort, EpPort: peerPort, Pif: fwd.PifHost}
	guest := flow.Side{Our: src, Ep: dst, OurPort: peerPort, EpPort: rule.Map(l.Port), Pif: fwd.PifTap}
	if _, _, busy := e.Table.Lookup(wire.ProtoTCP, &guest); busy {
		refuse(fd)
		return
	}
	i := t.start(guest, host, false)
	if i == flow.NoFlow {
		refuse(fd)
		return
	}
	r := &e.Table.Rows[i]
	r.FD[0], r.Rule = fd, l.Rule
	_ = sys.OptNoDelay.Set(fd, 1) // a hint
	if e.Watch(i, 0) != 0 {
		t.resetHost(i)
		return
	}
	c := &t.conns[i]
	c.state = next[StateClosed][EvAccept]
	c.sndNxt, c.sndMax = c.iss+1, c.iss+1
	t.sendControl(i, wire.SYN, c.iss)
	c.due = e.NowMs + t.synDelay(0)
	t.arm(i)
}

func refuse(fd sys.FD) {
	_ = sys.SetLingerZero(fd)
	sys.Close(fd)
}

// synDelay is the wait after try n of a SYN, ms: linear first, then doubling (tcp_syn_linear_timeouts).
func (t *TCP) synDelay(n int) int64 {
	d := int64(1000)
	if k := n - t.env.Cfg.SynLinear; k > 0 {
		d <<= min(k, 20)
	}
	if m := t.env.Cfg.RTOMaxMs; m > 0 {
		d = min(d, m)
	}
	return d
}

func (t *TCP) synMax() int {
	n := t.env.Cfg.SynRetries + t.env.Cfg.SynLinear
	if n <= 0 {
		n = synTries
	}
	return min(n, synTries)
}

// synAck answers the guest's SYN: the peer has accepted.
func (t *TCP) synAck(i flow.Index) {
	c := &t.conns[i]
	c.state = next[c.state][EvConnected]
	c.sndNxt, c.sndMax = c.iss+1, c.iss+1
	t.sendControl(i, wire.SYN|wire.ACK, c.iss)
	c.tries = 0
	c.due = t.env.NowMs + t.synDelay(0)
	t.arm(i)
}

// Event handles a poll event of the socket.
func (t *TCP) Event(i flow.Index, side int, events uint32) {
	c := &t.conns[i]
	c.lastAny = t.env.NowMs
	if events&sys.PollIn != 0 {
		c.flags |= readable
	}
	if events&(sys.PollRdHup|sys.PollHup) != 0 {
		c.flags |= readable | rdHup
	}
	if c.state == StateConnecting {
		if events&(sys.PollErr|sys.PollHup) != 0 || events&sys.PollOut != 0 && sys.SocketError(t.fd(i)) != 0 {
			t.abort(i)
			return
		}
		if events&sys.PollOut != 0 {
			t.synAck(i)
		}
		return
	}
	if events&sys.PollErr != 0 {
		t.abort(i)
		return
	}
	if events&sys.PollOut != 0 && c.pend.bytes > 0 && !t.drain(i) {
		return
	}
	if c.state == StateOpen && c.has(readable) {
		t.toGuest(i)
	}
}

// Again goes on where the budget of the last turn ended.
func (t *TCP) Again(i flow.Index) {
	if t.conns[i].state == StateOpen {
		t.toGuest(i)
	}
}

// LinkReady is called when the link takes frames again: connections that found no room ask again by themselves.
func (t *TCP) LinkReady() {}

// later puts a connection on the list for the end of the turn.
func (t *TCP) later(i flow.Index, now bool) {
	c := &t.conns[i]
	if now {
		c.flags |= ackNow
	}
	if !c.has(ackDue) && t.nAcks < len(t.acks) {
		c.flags |= ackDue
		t.acks[t.nAcks] = i
		t.nAcks++
	}
}

// EndTurn sends acknowledgements and window updates that are due.
func (t *TCP) EndTurn() {
	for k := range t.nAcks {
		i := t.acks[k]
		c := &t.conns[i]
		if !c.has(ackDue) {
			continue
		}
		c.flags &^= ackDue
		if c.state != StateOpen || t.env.Table.Rows[i].Kind != flow.KindTCP {
			continue
		}
		if c.has(ackNow) || c.rcvAcked != c.rcvNxt || t.opens(c) {
			t.sendControl(i, wire.ACK, c.sndNxt)
		}
	}
	t.nAcks = 0
	t.pool.rest()
}
