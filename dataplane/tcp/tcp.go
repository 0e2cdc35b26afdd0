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
	baseCap      = 64 << 10  // bytes any connection may always have invited: the socket's own buffer takes them
	maxCap       = 1 << 20   // bytes for a bulk connection, backed by the pool
	lowCap       = 16 << 10  // bytes while the pool runs low
	maxCredit    = 32 << 20  // bytes, sum of what capacities exceed baseCap: half the pool
	minMSS       = 88        // the kernel's smallest TCP_MAXSEG
	defaultMSS   = 536       // RFC 9293 s.3.7.1: no option
	maxMSS       = 65472     // 65535 - 40 - 20, a multiple of 4
	turnBudget   = 1 << 20   // bytes of one connection to the guest in one turn
	maxVec       = 256       // vectors of one write
	maxSegs      = 64        // segments of one peek, where segments are small
	ourShift     = 8         // window scale that we offer: windows to 16 MiB
	oldAck       = 16 << 20  // bytes by which an acknowledgement may be old (RFC 5961 s.5.2)
	minRTOMs     = 200       // RFC 6298 says 1 s, but this link is a wire inside one machine
	firstRTOMs   = 1000      // before a round trip was measured
	retriedRTOMs = 3000      // the same when the SYN had to be repeated (RFC 6298 s.5.7)
	giveUpMs     = 247_000   // without progress: reset (1+2+4+8+16+32+64+120 s, spec tcp 9)
	probeMs      = 1000      // first zero-window probe
	linkRetryMs  = 20        // a link that took nothing is tried again so much later at the latest
	keepAliveMs  = 30_000    // silence of the guest before a keep-alive, and between them
	inactivityMs = 7200_000  // silence of both sides before the end
	moreAcks     = 1024      // entries of the list of acknowledgements beyond one for each flow: some are on it twice
	synTries     = 7         // most repetitions of a SYN
	peekScratch  = 1 << 20   // bytes of scratch for kernels without SO_PEEK_OFF
	maxBehind    = 256 << 20 // bytes in flight that vectors of the scratch cover
)

// TCP handles all connections of one loop. Nothing is allocated after New.
type TCP struct {
	env     *flow.Env
	conns   []conn
	pool    pool
	credit  int         // bytes by which capacities exceed baseCap
	vec     []sys.Iovec // payload of the run, towards the socket
	nVec    int
	peekVec []sys.Iovec
	scratch []byte
	noPeek  bool // SO_PEEK_OFF is not to be had
	acks    []flow.Index
	nAcks   int
	waiting []flow.Index // connections that found the link full
	nWait   int
	best    best
	side    flow.Side // key of the run
}

// New maps all tables.
func New(env *flow.Env) *TCP {
	n := env.Table.Cap()
	t := &TCP{env: env, conns: sys.AllocOf[conn](n), vec: sys.AllocOf[sys.Iovec](maxVec),
		peekVec: sys.AllocOf[sys.Iovec](1024), acks: sys.AllocOf[flow.Index](n + moreAcks), waiting: sys.AllocOf[flow.Index](n),
		noPeek: env.Cfg.NoPeekOffset, scratch: sys.Alloc(peekScratch)}
	t.pool.init()
	return t
}

// Opened takes the broker's answer for a connection of the guest.
func (t *TCP) Opened(o *flow.Opened) {
	i := o.Flow
	if o.Errno != 0 {
		if answerOf(o.Errno) == answerReset {
			t.sendReset(i)
		}
		t.env.Drops.Add(wire.DropHostError)
		t.end(i)
		return
	}
	r := &t.env.Table.Rows[i]
	side := 1 - guestSide(r)
	r.FD[side] = o.FD
	r.Side[side].Ep = o.Target
	if t.env.Watch(i, side) != 0 {
		t.abort(i)
		return
	}
	if o.Connected {
		t.connected(i)
	}
}

// Accept takes a connection of the host for the guest: the peer is accepted before the guest answers.
func (t *TCP) Accept(l *flow.Listener, fd sys.FD, peer, our wire.Addr, peerPort, ourPort uint16) {
	e := t.env
	rule := &e.HostRules[l.Rule]
	seen := &e.Guest.Seen4
	if !peer.Is4() {
		seen = &e.Guest.Seen6
	}
	src, ok := e.Fwd.Inbound(&peer, seen)
	dst := rule.Target
	if dst.IsZero() && ok {
		dst = e.GuestAddr(&src)
	}
	if !ok || !e.Fwd.Of(&peer).On || dst.IsZero() || dst.Is4() != src.Is4() || e.Link == nil {
		e.Drops.Add(wire.DropNoRule)
		refuse(fd)
		return
	}
	host := flow.Side{Our: our, Ep: peer, OurPort: ourPort, EpPort: peerPort, Pif: fwd.PifHost}
	guest := flow.Side{Our: src, Ep: dst, OurPort: peerPort, EpPort: rule.Map(l.Port), Pif: fwd.PifTap}
	if _, _, busy := e.Table.Lookup(wire.ProtoTCP, &guest); busy {
		e.Drops.Add(wire.DropDuplicate)
		refuse(fd)
		return
	}
	i := t.start(&guest, &host, false)
	if i == flow.NoFlow {
		refuse(fd)
		return
	}
	r := &e.Table.Rows[i]
	r.FD[0], r.Rule = fd, l.Rule
	c := &t.conns[i]
	c.step(EvAccept)
	_ = sys.OptNoDelay.Set(fd, 1) // a hint
	if e.Watch(i, 0) != 0 {
		t.resetHost(i)
		return
	}
	t.greet(i)
}

// refuse closes an accepted connection with a reset.
func refuse(fd sys.FD) {
	_ = sys.SetLingerZero(fd)
	sys.Close(fd)
}

// Event handles a poll event of the socket.
func (t *TCP) Event(i flow.Index, _ int, events uint32) {
	c := &t.conns[i]
	c.lastAny = t.env.NowMs
	if events&sys.PollIn != 0 {
		c.set(readable)
	}
	if events&sys.PollPri != 0 {
		t.urgentData(i)
	}
	if events&(sys.PollRdHup|sys.PollHup) != 0 {
		c.set(readable | rdHup)
	}
	if events&sys.PollErr != 0 || c.state == StateConnecting && events&sys.PollHup != 0 {
		t.abort(i)
		return
	}
	switch c.state {
	case StateConnecting:
		if events&sys.PollOut != 0 {
			t.connected(i)
		}
	case StateOpen:
		if events&sys.PollOut != 0 && c.pend.bytes > 0 && !t.drain(i) {
			return
		}
		if c.has(readable) {
			t.toGuest(i)
		}
	}
}

// Again goes on where the budget of the last turn ended.
func (t *TCP) Again(i flow.Index) {
	if t.conns[i].state == StateOpen {
		t.toGuest(i)
	}
}

// LinkReady is called when the link takes frames again: connections that found it full go on in the next turn.
func (t *TCP) LinkReady() {
	for _, i := range t.waiting[:t.nWait] {
		c := &t.conns[i]
		if c.state != StateOpen || !c.has(linkWait) {
			continue // ended, or went on by itself
		}
		c.clear(linkWait)
		c.due = 0 // not the short wait for the link any more
		if c.outstanding() {
			c.due = t.env.NowMs + t.rto(c)
		}
		t.arm(i)
		t.env.Again(i)
	}
	t.nWait = 0
}

// later puts a connection on the list for the end of the turn.
func (t *TCP) later(i flow.Index, now bool) {
	c := &t.conns[i]
	if now {
		c.set(ackNow)
	}
	if !c.has(ackDue) && t.nAcks < len(t.acks) {
		c.set(ackDue)
		t.acks[t.nAcks] = i
		t.nAcks++
	}
}

// EndTurn sends acknowledgements and window updates that are due.
func (t *TCP) EndTurn() {
	kept := 0
	for k := range t.nAcks {
		i := t.acks[k]
		c := &t.conns[i]
		if c.state != StateOpen || !c.has(ackDue) {
			continue // ended, or a data segment carried it
		}
		c.clear(ackDue)
		if !c.has(ackNow) && c.rcvAcked == c.rcvNxt && !t.opens(c, t.room(c)) {
			continue
		}
		if !t.sendControl(i, wire.ACK, c.sndNxt) {
			c.set(ackDue) // the link is full: next turn
			t.acks[kept] = i
			kept++
			continue
		}
		t.done(i) // a connection may have waited for this acknowledgement only
	}
	t.nAcks = kept
	t.pool.rest(t.env.NowMs)
}
