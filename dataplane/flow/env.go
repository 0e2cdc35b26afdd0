// SPDX-License-Identifier: Apache-2.0

package flow

import (
	"passt/dataplane/fwd"
	"passt/dataplane/link"
	"passt/dataplane/wire"
	"passt/internal/sys"
)

// PollKind is the first byte of a poll tag: kind 8 | generation 24 | index 32.
type PollKind uint8

const (
	PollLink    PollKind = 1 // the guest link
	PollHostIPC PollKind = 2 // supervisor's channel
	PollNsIPC   PollKind = 3 // agent's channel
	PollListen  PollKind = 4 // index: listener
	PollFlow    PollKind = 5 // index: flow*2 + side
)

// Tag packs a poll tag.
func Tag(k PollKind, gen uint32, index uint32) uint64 {
	return uint64(k)<<56 | uint64(gen&GenMask)<<32 | uint64(index)
}

// Op is what a Request asks a broker for; the values are those of ipc.Op.
type Op uint8

const (
	OpTCP       Op = 1
	OpUDP       Op = 2
	OpPing      Op = 3
	OpUDPReply  Op = 4
	OpSpliceTCP Op = 5
	OpSpliceUDP Op = 6
	OpUDPListen Op = 7
	OpPipe      Op = 8
)

// Request asks for one socket (or pipe) for a flow; see ipc.Connect for the meaning of each field.
type Request struct {
	Flow             Index
	Op               Op
	Slot             uint8
	To               fwd.Pif // PifHost: the supervisor; PifSplice: the agent
	TTL              uint8
	Src, Dst         wire.Addr
	SrcPort, DstPort uint16
	MSS              uint16
	Rule             uint16
	gen              uint32
}

// Gen gives the flow's generation at the time of the request.
func (q *Request) Gen() uint32 { return q.gen }

// Opened is a broker's answer. FD is NoFD exactly when Errno is not 0. FD2 is the second descriptor of a pipe.
type Opened struct {
	Flow      Index
	Slot      uint8
	Connected bool // TCP: established already
	Local     bool // target is an address of the host
	Errno     sys.Errno
	FD, FD2   sys.FD
	Target    wire.Addr // what was connected to, after translation
	LocalPort uint16
}

// Listener is a granted listening socket.
type Listener struct {
	FD   sys.FD // NoFD: slot unused
	Pif  fwd.Pif
	UDP  bool
	Rule uint16 // index in Env.HostRules or Env.NsRules
	Port uint16
	ID   uint32    // name on its channel
	Addr wire.Addr // zero: wildcard of both families
}

// Guest is what is known of the other end of the link.
type Guest struct {
	MAC   wire.MAC  // last source seen; broadcast before
	Seen4 wire.Addr // last IPv4 source
	Seen6 wire.Addr // last global IPv6 source
	SeenL wire.Addr // last IPv6 link-local source
}

// Config is what the protocols need besides addresses.
type Config struct {
	MTU          int // bytes; 0 means 1500 towards the guest
	Pasta        bool
	OurMAC       wire.MAC
	SynRetries   int
	SynLinear    int
	RTOMaxMs     int64
	UDPTimeoutS  int64
	UDPStreamS   int64
	NoPeekOffset bool // pretend that SO_PEEK_OFF does not exist for TCP
}

// maxRequests bounds what one turn may ask of the brokers; beyond it Ask refuses.
const maxRequests = 4096

// Env is everything that hangs off one event loop. Handlers get it at construction and keep it. Nothing in it is
// safe for use by another loop.
type Env struct {
	Cfg       Config
	Fwd       *fwd.Config
	HostRules []fwd.Rule // Pif host
	NsRules   []fwd.Rule // Pif splice
	Table     *Table
	Link      link.Link // nil without a tap (--splice-only) and before it is granted
	Guest     Guest
	Ep        sys.FD
	NowNs     int64 // clock of this turn, monotonic
	NowMs     int64
	Drops     wire.Counters
	Trace     bool // say more through Log
	// Log sends one line (≤ 512 bytes) to the supervisor; cold code only. Never nil.
	Log func(level int, line string)
	// SourceMAC gives the Ethernet source for frames from an address (neighbour table of the host, spec addressing 11);
	// asked once per flow and kept in Row.MAC. Never nil.
	SourceMAC func(a *wire.Addr) wire.MAC

	wheel    wheel
	ended    Index // list through Row.queue
	again    []Index
	nAgain   int
	requests []Request
	nReq     int
}

// NewEnv makes an Env around a table; the caller fills the exported fields.
func NewEnv(t *Table, nowNs int64) *Env {
	e := &Env{Table: t, NowNs: nowNs, NowMs: nowNs / 1e6, ended: NoFlow, Log: func(int, string) {}}
	e.wheel.init(e.NowMs)
	e.again = sys.AllocOf[Index](t.Cap())
	e.requests = sys.AllocOf[Request](maxRequests)
	e.Guest.MAC = wire.Broadcast
	e.SourceMAC = func(*wire.Addr) wire.MAC { return e.Cfg.OurMAC }
	return e
}

// Watch adds a flow's descriptor to the loop, edge-triggered, all events: one call for the life of the socket.
func (e *Env) Watch(i Index, side int) sys.Errno {
	r := &e.Table.Rows[i]
	return sys.EpollAdd(e.Ep, r.FD[side], sys.PollIn|sys.PollOut|sys.PollPri|sys.PollRdHup|sys.PollEdge,
		Tag(PollFlow, r.Gen, uint32(i)<<1|uint32(side)))
}

// Ask queues a request for the end of this turn; false when the queue is full (nothing was queued).
func (e *Env) Ask(q *Request) bool {
	if e.nReq == len(e.requests) {
		e.Drops.Add(wire.DropBrokerBusy)
		return false
	}
	q.gen = e.Table.Rows[q.Flow].Gen
	e.requests[e.nReq] = *q
	e.nReq++
	return true
}

// TakeRequests hands the queued requests over (valid until the next Ask) and empties the queue.
func (e *Env) TakeRequests() []Request {
	q := e.requests[:e.nReq]
	e.nReq = 0
	return q
}

// Arm sets the flow's one timer to deadlineMs (on the clock of NowMs). An earlier deadline moves it, a later one is
// noted and costs nothing. The handler's Timer runs once, at or after the deadline, disarmed.
func (e *Env) Arm(i Index, deadlineMs int64) {
	r := &e.Table.Rows[i]
	old := r.deadline
	r.deadline = deadlineMs
	if r.tslot != 0 {
		if deadlineMs >= old {
			return
		}
		e.Table.unlink(&e.wheel, i)
	}
	e.Table.link(&e.wheel, i, e.wheel.place(deadlineMs))
}

// Disarm stops the flow's timer.
func (e *Env) Disarm(i Index) { e.Table.unlink(&e.wheel, i) }

// Armed gives the flow's deadline; false when disarmed.
func (e *Env) Armed(i Index) (int64, bool) {
	r := &e.Table.Rows[i]
	return r.deadline, r.tslot != 0
}

// RunTimers calls fire for each flow whose deadline has passed. fire may arm, end and start flows.
func (e *Env) RunTimers(fire func(i Index)) {
	w := &e.wheel
	for {
		at, ok := w.next()
		if !ok || at > e.NowMs {
			break
		}
		w.now = at
		for l := range wheelLevels {
			if l > 0 && at&(1<<(6*l)-1) != 0 {
				break
			}
			slot := l*wheelSlots + int(at>>(6*l))&(wheelSlots-1)
			for w.head[slot] != NoFlow {
				i := w.head[slot]
				e.Table.unlink(w, i)
				r := &e.Table.Rows[i]
				if r.deadline > at {
					e.Table.link(w, i, w.place(r.deadline))
					continue
				}
				fire(i)
			}
		}
	}
	w.now = max(w.now, e.NowMs)
}

// NextTimer gives the time at which RunTimers has something to look at, ms; false when nothing is armed.
func (e *Env) NextTimer() (int64, bool) { return e.wheel.next() }

// Again asks for the flow's handler to be run once more at the start of the next turn: it used up its budget.
func (e *Env) Again(i Index) {
	r := &e.Table.Rows[i]
	if !r.again && e.nAgain < len(e.again) {
		r.again = true
		e.again[e.nAgain] = i
		e.nAgain++
	}
}

// Pending tells whether a flow waits for its next turn.
func (e *Env) Pending() bool { return e.nAgain > 0 }

// RunAgain runs the flows that asked for it in the previous turn, once each.
func (e *Env) RunAgain(run func(i Index)) {
	n := e.nAgain
	for k := range n {
		i := e.again[k]
		r := &e.Table.Rows[i]
		r.again = false
		if r.Kind != KindEnded && r.Kind != KindFree {
			run(i)
		}
	}
	copy(e.again, e.again[n:e.nAgain])
	e.nAgain -= n
}

// End ends a flow: hash, timer and generation at once, descriptors and row at the end of the turn. The
// second call does nothing.
func (e *Env) End(i Index) {
	r := &e.Table.Rows[i]
	if r.Kind == KindEnded || r.Kind == KindFree {
		return
	}
	e.Table.Remove(i, 0)
	e.Table.Remove(i, 1)
	e.Table.unlink(&e.wheel, i)
	r.Kind = KindEnded
	r.Gen = (r.Gen + 1) & GenMask
	r.queue = e.ended
	e.ended = i
}

// EndTurn closes the descriptors of ended flows and frees their rows.
func (e *Env) EndTurn() {
	for e.ended != NoFlow {
		i := e.ended
		r := &e.Table.Rows[i]
		e.ended = r.queue
		sys.Close(r.FD[0])
		if r.FD[1] != r.FD[0] {
			sys.Close(r.FD[1])
		}
		r.FD = [2]sys.FD{sys.NoFD, sys.NoFD}
		if r.again {
			// Still in the list of the next turn: take it out there by its kind.
			e.dropAgain(i)
		}
		e.Table.release(i)
	}
}

// dropAgain removes a freed row from the list of the next turn.
func (e *Env) dropAgain(i Index) {
	e.Table.Rows[i].again = false
	for k := range e.nAgain {
		if e.again[k] == i {
			e.nAgain--
			e.again[k] = e.again[e.nAgain]
			return
		}
	}
}

// GuestAddr gives the guest's address for inbound traffic from a (translated) source; zero when none is known.
func (e *Env) GuestAddr(src *wire.Addr) wire.Addr {
	switch {
	case src.Is4():
		return e.Guest.Seen4
	case src.IsLinkLocal():
		return e.Guest.SeenL
	}
	return e.Guest.Seen6
}

// PathMTU gives the largest IP packet for the guest, bytes.
func (e *Env) PathMTU() int {
	if e.Cfg.MTU == 0 {
		return 1500
	}
	return e.Cfg.MTU
}
