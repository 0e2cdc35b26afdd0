// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"passt/dataplane/flow"
	"passt/dataplane/fwd"
	"passt/dataplane/icmp"
	"passt/dataplane/link"
	"passt/dataplane/local"
	"passt/dataplane/splice"
	"passt/dataplane/tcp"
	"passt/dataplane/udp"
	"passt/dataplane/wire"
	"passt/internal/sys"
)

const (
	acceptBudget = 32  // connections taken from one listener in one turn
	retryMs      = 100 // a listener that cannot accept for want of descriptors rests this long
)

// Plane is the data path of one loop.
type Plane struct {
	Env    *flow.Env
	tcp    *tcp.TCP
	udp    *udp.UDP
	icmp   *icmp.ICMP
	splice *splice.Splice
	local  *local.Local
	frags  *wire.Reassembler

	batch link.Batch
	pkts  [link.MaxFrames]wire.Packet
	whole [1]wire.Packet // a reassembled datagram, a rare single

	listeners []flow.Listener
	unused    int   // revoked ones among them
	resting   int64 // ms, when listeners are watched again; 0: none rests
	warnedFDs int64 // ms of the last line about descriptors
	fire, run func(flow.Index)
}

// New builds the data path; env's fields are filled, the link may come later.
func New(env *flow.Env, services local.Config) *Plane {
	p := &Plane{Env: env}
	p.local = local.New(env, services)
	env.SourceMAC = p.local.MACFor
	p.tcp = tcp.New(env)
	p.udp = udp.New(env)
	p.icmp = icmp.New(env)
	p.splice = splice.New(env)
	p.frags = wire.NewReassembler()
	p.fire, p.run = p.timer, p.again
	return p
}

// SetLink takes the guest's link into use; probe sends the first frames that make the guest known.
func (p *Plane) SetLink(l link.Link, probe bool) sys.Errno {
	p.Env.Link = l
	if e := sys.EpollAdd(p.Env.Ep, l.FD(), sys.PollIn, flow.Tag(flow.PollLink, 0, 0)); e != 0 {
		return e
	}
	if probe {
		p.local.Probe()
	}
	return 0
}

// FlowEvent handles a poll event of a flow's socket; index and gen come from the tag.
func (p *Plane) FlowEvent(index, gen, events uint32) {
	i, side := flow.Index(index>>1), int(index&1)
	r := p.Env.Table.Live(i, gen)
	if r == nil {
		return
	}
	switch r.Kind {
	case flow.KindTCP:
		p.tcp.Event(i, side, events)
	case flow.KindSplice:
		p.splice.Event(i, side, events)
	case flow.KindUDP:
		p.udp.Event(i, side, events)
	case flow.KindPing:
		p.icmp.Event(i, side, events)
	}
}

// Opened hands a broker's answer to its flow; descriptors of a flow that ended meanwhile are closed.
func (p *Plane) Opened(o *flow.Opened, gen uint32) {
	r := p.Env.Table.Live(o.Flow, gen)
	if r == nil {
		sys.Close(o.FD)
		sys.Close(o.FD2)
		return
	}
	if o.Errno == sys.EMFILE || o.Errno == sys.ENFILE {
		p.warnDescriptors()
	}
	switch r.Kind {
	case flow.KindTCP:
		p.tcp.Opened(o)
	case flow.KindSplice:
		p.splice.Opened(o)
	case flow.KindUDP:
		p.udp.Opened(o)
	case flow.KindPing:
		p.icmp.Opened(o)
	}
}

func (p *Plane) timer(i flow.Index) {
	switch p.Env.Table.Rows[i].Kind {
	case flow.KindTCP:
		p.tcp.Timer(i)
	case flow.KindSplice:
		p.splice.Timer(i)
	case flow.KindUDP:
		p.udp.Timer(i)
	case flow.KindPing:
		p.icmp.Timer(i)
	}
}

func (p *Plane) again(i flow.Index) {
	switch p.Env.Table.Rows[i].Kind {
	case flow.KindTCP:
		p.tcp.Again(i)
	case flow.KindSplice:
		p.splice.Again(i)
	case flow.KindUDP:
		p.udp.Again(i)
	case flow.KindPing:
		p.icmp.Again(i)
	}
}

// BeginTurn runs what the previous turn left over.
func (p *Plane) BeginTurn() { p.Env.RunAgain(p.run) }

// EndTurn sends what is due, runs timers and frees what ended.
func (p *Plane) EndTurn() {
	p.tcp.EndTurn()
	p.udp.EndTurn()
	p.splice.EndTurn()
	p.Env.RunTimers(p.fire)
	if at, ok := p.local.NextMs(); ok && at <= p.Env.NowMs {
		p.local.Tick()
	}
	if p.resting != 0 && p.Env.NowMs >= p.resting {
		p.wake()
	}
	if p.Env.Link != nil {
		_ = p.Env.Link.Flush() // a link that is gone shows at its next Recv
	}
	p.Env.EndTurn()
}

// Deadline gives the time at which EndTurn has something to do, ms; false when there is none.
func (p *Plane) Deadline() (int64, bool) {
	at, ok := p.Env.NextTimer()
	if t, k := p.local.NextMs(); k && (!ok || t < at) {
		at, ok = t, true
	}
	if p.resting != 0 && (!ok || p.resting < at) {
		at, ok = p.resting, true
	}
	return at, ok
}

// SetNeigh notes a neighbour of the host (zero MAC: gone).
func (p *Plane) SetNeigh(a wire.Addr, m wire.MAC) { p.local.SetNeigh(a, m) }

// Grant takes a listener into use.
func (p *Plane) Grant(l flow.Listener) sys.Errno {
	slot := len(p.listeners)
	for i := 0; p.unused > 0 && i < len(p.listeners); i++ { // tens of thousands come at start: no search then
		if p.listeners[i].FD == sys.NoFD {
			slot = i
			break
		}
	}
	if slot == len(p.listeners) {
		p.listeners = append(p.listeners, l)
	} else {
		p.listeners[slot] = l
		p.unused--
	}
	return sys.EpollAdd(p.Env.Ep, l.FD, sys.PollIn, flow.Tag(flow.PollListen, l.ID, uint32(slot)))
}

// Revoke closes a listener; flows that came in by it go on.
func (p *Plane) Revoke(pif fwd.Pif, id uint32) {
	for i := range p.listeners {
		l := &p.listeners[i]
		if l.FD != sys.NoFD && l.Pif == pif && l.ID == id&flow.GenMask {
			sys.Close(l.FD)
			l.FD = sys.NoFD
			p.unused++
			return
		}
	}
}

// ListenEvent handles a poll event of a listener.
func (p *Plane) ListenEvent(slot, gen, events uint32) {
	if int(slot) >= len(p.listeners) {
		return
	}
	l := &p.listeners[slot]
	if l.FD == sys.NoFD || l.ID&flow.GenMask != gen {
		return
	}
	if l.UDP {
		p.udp.ListenEvent(l, events)
		return
	}
	for range acceptBudget {
		fd, from, e := sys.Accept(l.FD)
		if e != 0 {
			if e == sys.EMFILE || e == sys.ENFILE || e == sys.ENOBUFS || e == sys.ENOMEM {
				p.rest()
			}
			return
		}
		p.accepted(l, fd, &from)
	}
}

func (p *Plane) accepted(l *flow.Listener, fd sys.FD, from *sys.SockAddr) {
	to, e := sys.LocalAddr(fd)
	pa, pport, ok1 := from.Get()
	oa, oport, ok2 := to.Get()
	peer, our := wire.Addr(pa), wire.Addr(oa)
	if e != 0 || !ok1 || !ok2 || !peer.IsUnicast() || pport == 0 {
		refuse(fd)
		return
	}
	switch p.route(l, &peer, &our) {
	case fwd.PifTap:
		p.tcp.Accept(l, fd, peer, our, pport, oport)
	case fwd.PifSplice:
		p.splice.Accept(l, fd, peer, our, pport, oport)
	default:
		p.Env.Drops.Add(wire.DropNoRule)
		refuse(fd)
	}
}

// route decides whether a connection goes over the tap or socket to socket (spec forwarding 6.2, 6.3).
func (p *Plane) route(l *flow.Listener, peer, our *wire.Addr) fwd.Pif {
	e := p.Env
	if l.Pif == fwd.PifSplice {
		if peer.IsLoopback() && our.IsLoopback() && int(l.Rule) < len(e.NsRules) {
			return fwd.PifSplice
		}
		return fwd.PifNone
	}
	if int(l.Rule) >= len(e.HostRules) {
		return fwd.PifNone
	}
	if e.Fwd.Splice && peer.IsLoopback() && e.HostRules[l.Rule].Target.IsZero() {
		return fwd.PifSplice
	}
	if e.Link == nil {
		return fwd.PifNone
	}
	return fwd.PifTap
}

// refuse closes an accepted connection with a reset.
func refuse(fd sys.FD) {
	_ = sys.SetLingerZero(fd)
	sys.Close(fd)
}

// rest stops watching TCP listeners for a moment: without descriptors a level-triggered listener would spin.
func (p *Plane) rest() {
	p.warnDescriptors()
	if p.resting != 0 {
		return
	}
	p.resting = p.Env.NowMs + retryMs
	p.watchListeners(0)
}

func (p *Plane) wake() {
	p.resting = 0
	p.watchListeners(sys.PollIn)
}

func (p *Plane) watchListeners(events uint32) {
	for i := range p.listeners {
		if l := &p.listeners[i]; l.FD != sys.NoFD && !l.UDP {
			_ = sys.EpollMod(p.Env.Ep, l.FD, events, flow.Tag(flow.PollListen, l.ID, uint32(i)))
		}
	}
}

func (p *Plane) warnDescriptors() {
	if p.warnedFDs == 0 || p.Env.NowMs-p.warnedFDs > 60_000 {
		p.warnedFDs = p.Env.NowMs
		p.Env.Log(LevelWarn, "out of file descriptors: new connections are refused; raise the open-files limit (ulimit -Hn)")
	}
}

// Levels of Env.Log.
const (
	LevelError = 0
	LevelWarn  = 1
	LevelInfo  = 2
	LevelDebug = 3
)
