// SPDX-License-Identifier: Apache-2.0

package splice

import (
	"passt/dataplane/flow"
	"passt/dataplane/fwd"
	"passt/dataplane/wire"
	"passt/internal/sys"
)

// conn is what the loopback path knows of a flow besides its row; same index.
type conn struct {
	lane  [2]lane // lane k leads from side k to side 1-k
	state state
	// Edge-triggered readiness by side: set by an event, cleared when a call found the opposite.
	canRead, canWrite [2]bool
	hup               [2]bool // the peer's FIN has come: reading leads to an end of file
	choice            choice
}

// Splice is the loopback path of one loop.
type Splice struct {
	env   *flow.Env
	conns []conn
	live  int // flows
	job   job // of the call under way; here because it would be allocated behind the interface
	copy  copyMover
	pipe  pipeMover
	force choice // tests and measurements: one mover for all; chooseNone: by measurement
}

// New makes the loopback path; tables are mapped, not yet resident.
func New(env *flow.Env) *Splice {
	s := &Splice{env: env, conns: sys.AllocOf[conn](env.Table.Cap())}
	s.copy.buf = sys.Alloc(copyBytes)
	s.pipe.pool.init(env)
	return s
}

// Accept takes a connection of listener l; fd is owned from here on.
//
//	in:     peer, the client's loopback address; our, the address that it connected to
//	errors: a connection that cannot be forwarded is closed with a reset (spec forwarding 6.5)
func (s *Splice) Accept(l *flow.Listener, fd sys.FD, peer, our wire.Addr, peerPort, ourPort uint16) {
	to, drop := s.target(l, &our, ourPort)
	if drop != wire.DropNone {
		s.refuse(fd, drop)
		return
	}
	i := s.env.Table.Alloc(flow.KindSplice)
	if i == flow.NoFlow {
		s.refuse(fd, wire.DropTableFull)
		return
	}
	r := &s.env.Table.Rows[i]
	r.Proto, r.Rule = fwd.ProtoTCP, l.Rule
	r.FD[0] = fd
	r.Side[0] = flow.Side{Our: our, Ep: peer, OurPort: ourPort, EpPort: peerPort, Pif: l.Pif}
	r.Side[1] = to
	s.conns[i] = conn{state: stAsked}
	s.live++
	_ = sys.OptNoDelay.Set(fd, 1) // for latency; a connection without it works too
	_ = sys.OptQuickAck.Set(fd, 1)
	if s.env.Watch(i, 0) != 0 {
		s.env.Drops.Add(wire.DropNoDescriptor)
		s.step(i, evFail)
		return
	}
	if !s.env.Ask(&flow.Request{Flow: i, Op: flow.OpSpliceTCP, Slot: 1, To: to.Pif, Dst: to.Ep, DstPort: to.EpPort, Rule: l.Rule}) {
		s.step(i, evFail)
	}
}

// target decides where a connection leads (spec forwarding 6.2, 6.3).
func (s *Splice) target(l *flow.Listener, our *wire.Addr, ourPort uint16) (flow.Side, wire.Drop) {
	rules, to := s.env.HostRules, flow.Side{Pif: fwd.PifSplice}
	if l.Pif == fwd.PifSplice {
		rules, to.Pif = s.env.NsRules, fwd.PifHost
	}
	if int(l.Rule) >= len(rules) || !rules[l.Rule].Has(ourPort) {
		return to, wire.DropNoRule
	}
	to.EpPort = rules[l.Rule].Map(ourPort)
	g := &s.env.Guest
	switch {
	case to.Pif == fwd.PifHost:
		if !our.IsLoopback() {
			return to, wire.DropNoRule
		}
		to.Ep = *our
	case s.env.Fwd.HostLoToNsLo && our.IsLoopback():
		to.Ep = *our
	case our.Is4():
		to.Ep = g.Seen4
	case !g.Seen6.IsZero():
		to.Ep = g.Seen6
	default:
		to.Ep = g.SeenL
	}
	if !to.Ep.IsUnicast() || to.EpPort == 0 {
		return to, wire.DropAddress
	}
	return to, wire.DropNone
}

func (s *Splice) refuse(fd sys.FD, d wire.Drop) {
	s.env.Drops.Add(d)
	_ = sys.SetLingerZero(fd) // a socket that is broken already is closed all the same
	sys.Close(fd)
}

// Opened takes a broker's answer: side 1 of a flow, or a pipe for the pool.
func (s *Splice) Opened(o *flow.Opened) {
	if s.pipe.pool.opened(o) {
		if s.live == 0 {
			s.pipe.pool.rest()
		}
		return
	}
	c, r := &s.conns[o.Flow], &s.env.Table.Rows[o.Flow]
	if o.Errno != 0 || o.FD == sys.NoFD || c.state != stAsked {
		sys.Close(o.FD)
		sys.Close(o.FD2)
		s.step(o.Flow, evFail)
		return
	}
	sys.Close(o.FD2) // none is expected
	r.FD[1] = o.FD
	if s.env.Watch(o.Flow, 1) != 0 {
		s.env.Drops.Add(wire.DropNoDescriptor)
		s.step(o.Flow, evFail)
		return
	}
	if !o.Connected {
		s.step(o.Flow, evOpening)
		return
	}
	c.canWrite[1] = true
	s.step(o.Flow, evConnected)
	s.pump(o.Flow)
}

// Event handles readiness of one side.
func (s *Splice) Event(i flow.Index, side int, events uint32) {
	c := &s.conns[i]
	if c.state == stNone {
		return
	}
	if events&sys.PollErr != 0 {
		// Reset by the peer, or (while connecting) refused.
		s.step(i, evFail)
		return
	}
	if events&(sys.PollRdHup|sys.PollHup) != 0 {
		c.hup[side] = true
	}
	if events&(sys.PollIn|sys.PollRdHup|sys.PollHup) != 0 {
		c.canRead[side] = true
	}
	if events&sys.PollOut != 0 {
		c.canWrite[side] = true
	}
	switch c.state {
	case stAsked:
		return
	case stConnect:
		if side == 0 || events&sys.PollOut == 0 {
			return
		}
		s.step(i, evConnected)
	}
	s.pump(i)
}

// Again goes on with a flow that used up its budget.
func (s *Splice) Again(i flow.Index) {
	if c := &s.conns[i]; c.state >= stOpen && c.state <= stHalf1 {
		s.pump(i)
	}
}

// Timer does nothing: no flow of this kind arms one (no idle limit, spec tcp 14; the kernel times the handshake).
func (s *Splice) Timer(flow.Index) {}

// EndTurn gives back memory and pipes once the last connection is gone.
func (s *Splice) EndTurn() {
	if s.live == 0 && s.copy.used {
		s.copy.used = false
		sys.Release(s.copy.buf)
		s.pipe.pool.rest()
	}
}

// step makes one transition and does what the new state asks for.
func (s *Splice) step(i flow.Index, ev event) {
	c := &s.conns[i]
	from := c.state
	c.state = next[from][ev]
	switch c.state {
	case stNone:
		panic("splice: illegal event in state " + from.String())
	case stReset:
		r := &s.env.Table.Rows[i]
		for _, fd := range r.FD {
			if fd != sys.NoFD {
				_ = sys.SetLingerZero(fd) // fails only on a socket that is gone already
			}
		}
		s.end(i)
	case stClosed:
		s.end(i)
	}
}

// end lets a flow go; its descriptors close at the end of the turn.
func (s *Splice) end(i flow.Index) {
	c := &s.conns[i]
	for k := range c.lane {
		s.pipe.pool.put(&c.lane[k])
	}
	*c = conn{}
	s.live--
	s.env.End(i)
}
