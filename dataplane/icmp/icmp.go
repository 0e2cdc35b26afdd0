// SPDX-License-Identifier: Apache-2.0

package icmp

import (
	"encoding/binary"

	"passt/dataplane/flow"
	"passt/dataplane/fwd"
	"passt/dataplane/wire"
	"passt/internal/sys"
)

const (
	timeoutMs   = 61000 // more than 60 whole seconds after the last request (spec icmp)
	duplicateMs = 5     // the host's second copy of a loopback reply comes at once
	warnMs      = 60000
	sockSide    = 1 // side 0 is the guest
	replyBudget = 64
	errBudget   = 64
)

// state is what this package keeps for each flow, beside flow.Row.
type state struct {
	lastMs  int64  // last request
	replyMs int64  // last reply
	seq     uint16 // of the last reply
	replied bool   // a reply came since the last request
	asked   bool
	ttl     uint8 // in force on the socket, 0: kernel's default
}

// ICMP handles all ping flows of one loop. Not safe for concurrent use.
type ICMP struct {
	env    *flow.Env
	st     []state
	msgs   *sys.Msgs
	buf    []byte // one message from a socket, any size
	out    []byte // one packet for the guest
	wait   waiting
	warned bool
	warnAt int64 // when the last warning went out, ms
	fragID uint32
}

// New makes the handler.
func New(env *flow.Env) *ICMP {
	p := &ICMP{env: env, st: sys.AllocOf[state](env.Table.Cap()), msgs: sys.NewMsgs(1), buf: sys.Alloc(1 << 16), out: sys.Alloc(2048)}
	p.wait.init()
	return p
}

func protoOf(a *wire.Addr) uint8 {
	if a.Is4() {
		return wire.ProtoICMP
	}
	return wire.ProtoICMPv6
}

func echoTypes(four bool) (request, reply uint8) {
	if four {
		return wire.ICMPEcho, wire.ICMPEchoReply
	}
	return wire.ICMP6Echo, wire.ICMP6EchoReply
}

// FromGuest forwards an echo request; anything else is dropped and counted.
func (p *ICMP) FromGuest(k *wire.Packet) {
	i, d := p.fromGuest(k)
	if d != wire.DropNone {
		p.env.Drops.Add(d)
		return
	}
	if i == flow.NoFlow {
		return // counted already
	}
	s := &p.st[i]
	s.lastMs, s.replied = p.env.NowMs, false
	if s.asked {
		if !p.wait.push(i, k.L4, k.TTL) {
			p.env.Drops.Add(wire.DropPendingFull)
		}
		return
	}
	p.send(i, k.L4, k.TTL)
}

// fromGuest checks a request and finds or makes its flow.
func (p *ICMP) fromGuest(k *wire.Packet) (flow.Index, wire.Drop) {
	four := k.Dst.Is4()
	request, _ := echoTypes(four)
	if len(k.L4) < wire.ICMPSize || k.Proto != protoOf(&k.Dst) || k.L4[0] != request || k.L4[1] != 0 {
		return flow.NoFlow, wire.DropICMP
	}
	id := binary.BigEndian.Uint16(k.L4[4:])
	key := flow.Side{Our: k.Dst, Ep: k.Src, OurPort: id, EpPort: id, Pif: fwd.PifTap}
	if i, _, ok := p.env.Table.Lookup(k.Proto, &key); ok {
		return i, wire.DropNone
	}
	if !k.Src.IsUnicast() || k.Dst.IsUnspecified() {
		return flow.NoFlow, wire.DropAddress
	}
	if _, ok := p.env.Fwd.Outbound(k.Proto, &k.Dst, 0); !ok {
		return flow.NoFlow, wire.DropNoRule
	}
	return p.create(k, &key)
}

func (p *ICMP) create(k *wire.Packet, key *flow.Side) (flow.Index, wire.Drop) {
	i := p.env.Table.Alloc(flow.KindPing)
	if i == flow.NoFlow {
		return i, wire.DropTableFull
	}
	p.wait.drop(i)
	r, s := &p.env.Table.Rows[i], &p.st[i]
	*s = state{lastMs: p.env.NowMs, asked: true}
	r.Proto = k.Proto
	r.Side[0] = *key
	r.Side[sockSide] = flow.Side{Ep: k.Dst, Pif: fwd.PifHost}
	r.MAC = p.env.SourceMAC(&r.Side[0].Our) // in the row: a pointer to the stack would be an allocation
	p.env.Table.Insert(i, 0)
	q := flow.Request{Flow: i, Op: flow.OpPing, Slot: sockSide, To: fwd.PifHost, Src: k.Src, SrcPort: key.EpPort, Dst: k.Dst}
	if !p.env.Ask(&q) {
		p.end(i)
		return flow.NoFlow, wire.DropNone
	}
	p.env.Arm(i, s.lastMs+timeoutMs)
	return i, wire.DropNone
}

func (p *ICMP) end(i flow.Index) {
	p.wait.drop(i)
	p.env.End(i)
}

// send sends one request; the kernel puts its own identifier and checksum in.
func (p *ICMP) send(i flow.Index, m []byte, ttl uint8) {
	fd, s := p.env.Table.Rows[i].FD[sockSide], &p.st[i]
	if s.ttl != ttl {
		s.ttl = ttl
		o, v := sys.OptTTL4, int(ttl)
		if p.env.Table.Rows[i].Proto == wire.ProtoICMPv6 {
			o = sys.OptTTL6
		}
		if v == 0 {
			v = -1
		}
		_ = o.Set(fd, v) // a refusal leaves the default in force
	}
	// An error that an earlier request left on the socket costs none.
	var e sys.Errno
	for range 3 {
		_, e = sys.Send(fd, m, 0)
		if e == 0 {
			return
		}
		if e == sys.EINVAL || e == sys.EAGAIN || e == sys.ENOBUFS {
			break
		}
		if !p.drainErrors(i) && e == sys.EMSGSIZE {
			break
		}
	}
	p.env.Drops.Add(wire.DropHostError)
	p.tell(i, e, m)
}

// tell answers a request that the host would not take, as a router would; silence where it has no name for the cause.
func (p *ICMP) tell(i flow.Index, e sys.Errno, m []byte) {
	r := &p.env.Table.Rows[i]
	t := &r.Side[0]
	if kind, code, ok := sys.ICMPOf(t.Ep.Is4(), e); ok {
		p.errorToGuest(r, &wire.ICMPError{From: p.env.Fwd.Of(&t.Ep).Our, Type: kind, Code: code}, m)
	}
}

// Opened takes the broker's answer for a live flow.
func (p *ICMP) Opened(o *flow.Opened) {
	i := o.Flow
	r, s := &p.env.Table.Rows[i], &p.st[i]
	if r.Kind != flow.KindPing || !s.asked || r.FD[sockSide] != sys.NoFD {
		sys.Close(o.FD)
		return
	}
	s.asked = false
	if o.Errno != 0 {
		p.failed(i, o.Errno)
		return
	}
	r.FD[sockSide] = o.FD
	if !o.Target.IsZero() {
		r.Side[sockSide].Ep = o.Target
	}
	// As for UDP: writability is no news.
	tag := flow.Tag(flow.PollFlow, r.Gen, uint32(i)<<1|sockSide)
	if e := sys.EpollAdd(p.env.Ep, o.FD, sys.PollIn|sys.PollEdge, tag); e != 0 {
		p.env.Drops.Add(wire.DropNoDescriptor)
		p.end(i)
		return
	}
	for {
		m, ttl, ok := p.wait.pop(i)
		if !ok {
			return
		}
		p.send(i, m, ttl)
	}
}

// failed tells user and guest why there is no ping socket.
func (p *ICMP) failed(i flow.Index, e sys.Errno) {
	if e == sys.EACCES || e == sys.EPERM {
		if !p.warned || p.env.NowMs-p.warnAt >= warnMs {
			p.warned, p.warnAt = true, p.env.NowMs
			p.env.Log(levelWarning, "ping: no permission to make a ping socket: sysctl net.ipv4.ping_group_range must include the group of this process")
		}
	}
	if m, _, ok := p.wait.pop(i); ok {
		p.tell(i, e, m)
	}
	p.env.Drops[wire.DropHostError]++
	p.end(i)
}

// levelWarning is syslog's number, as Env.Log wants it.
const levelWarning = 4

// Timer ends the flow 60 s after its last request.
func (p *ICMP) Timer(i flow.Index) {
	at := p.st[i].lastMs + timeoutMs
	if at <= p.env.NowMs {
		p.end(i)
		return
	}
	p.env.Arm(i, at)
}

// Again goes on where the budget of the last turn ended.
func (p *ICMP) Again(i flow.Index) { p.Event(i, sockSide, sys.PollIn) }
