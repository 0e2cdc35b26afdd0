// SPDX-License-Identifier: Apache-2.0

package udp

import (
	"passt/dataplane/flow"
	"passt/dataplane/fwd"
	"passt/dataplane/wire"
	"passt/internal/sys"
)

const (
	maxSegments = 64    // datagrams of one GSO write or frame (UDP_MAX_SEGMENTS of kernels before 6.9)
	maxPayload  = 65507 // bytes of one IPv4 datagram: 65535 - 20 - 8
	slotSize    = 65536 // one datagram, or one aggregate, of any size
	numSlots    = 64
	listenBatch = 16 // datagrams of one recvmmsg where senders are mixed
	roundBudget = 16 // receive calls for one socket in one turn

	defaultTimeoutS = 30  // spec udp 3
	defaultStreamS  = 120 // the same
)

// Bits of state.flags; those for a side are shifted by the side's number.
const (
	flagFresh   = 1 << iota // socket may hold datagrams of other peers
	_                       // of side 1
	flagBusy                // last receive call found several datagrams
	_                       //
	flagMore                // budget used up: go on in the next turn
	_                       //
	flagAsked               // request for the socket is under way
	_                       //
	flagAnswers             // multicast or broadcast: FD[0] only receives, matched by port
)

// state is what this package keeps for each flow, beside flow.Row.
type state struct {
	lastMs     int64 // last activity
	head, tail uint32
	waitBytes  uint32
	pred       [2]uint16 // size of the last datagram received from a side's socket
	seg        [2]uint16 // UDP_SEGMENT in force
	segMax     [2]uint16 // largest segment size not refused
	ttl        [2]uint8  // in force, 0: kernel's default
	batches    [2]uint8  // saturating; batches that came from a side
	flags      uint16
	settle     uint8 // turns until the sockets are polled
}

// UDP handles all UDP flows of one loop. Not safe for concurrent use.
type UDP struct {
	env    *flow.Env
	st     []state
	msgs   *sys.Msgs
	slots  []byte // numSlots of slotSize: where datagrams land that do not go straight into a link's segment
	run    []byte // one run of equal datagrams for the loopback path, or what waited
	frag   []byte // UDP header and payload of a datagram that is cut into fragments
	vec    []sys.Iovec
	errs   *sys.Msgs // one message: error queue
	errBuf []byte
	wait   waitQueue
	fragID uint32
	dirty  bool // buffers were used since they were last released
	cur    path // addresses of the frames being made: not on the stack, where taking its address would allocate
}

// New makes the handler; about 9 MiB of address space, touched only as traffic needs it.
func New(env *flow.Env) *UDP {
	u := &UDP{
		env: env, st: sys.AllocOf[state](env.Table.Cap()), msgs: sys.NewMsgs(numSlots), slots: sys.Alloc(numSlots * slotSize),
		run: sys.Alloc(slotSize), frag: sys.Alloc(slotSize + wire.UDPSize), vec: sys.AllocOf[sys.Iovec](maxSegments), errs: sys.NewMsgs(1), errBuf: sys.Alloc(errBufSize),
	}
	u.wait.init()
	u.errs.Set(0, u.errBuf[:icmpAt], nil)
	return u
}

func (u *UDP) slot(k int) []byte { return u.slots[k*slotSize : (k+1)*slotSize : (k+1)*slotSize] }

// side bits of a flag.
func (s *state) has(flag uint16, side int) bool { return s.flags&(flag<<side) != 0 }
func (s *state) set(flag uint16, side int)      { s.flags |= flag << side }
func (s *state) clear(flag uint16, side int)    { s.flags &^= flag << side }

// tapSide gives which side of a flow is the guest link, -1: none.
func tapSide(r *flow.Row) int {
	switch fwd.PifTap {
	case r.Side[0].Pif:
		return 0
	case r.Side[1].Pif:
		return 1
	}
	return -1
}

// create takes a row and resets its state; NoFlow (counted) when the table is full.
func (u *UDP) create() flow.Index {
	i := u.env.Table.Alloc(flow.KindUDP)
	if i == flow.NoFlow {
		u.env.Drops.Add(wire.DropTableFull)
		return i
	}
	u.dirty = true
	u.wait.drop(&u.st[i])
	u.st[i] = state{lastMs: u.env.NowMs, segMax: [2]uint16{65535, 65535}}
	u.env.Table.Rows[i].Proto = wire.ProtoUDP
	return i
}

// end ends a flow and frees what waits for it.
func (u *UDP) end(i flow.Index) {
	u.wait.drop(&u.st[i])
	u.env.End(i)
}

// touch notes one batch that came from a side.
func (u *UDP) touch(i flow.Index, side int) {
	s := &u.st[i]
	s.lastMs = u.env.NowMs
	if s.batches[side] < 255 {
		s.batches[side]++
	}
}

// deadline gives when the flow ends if nothing more happens, ms: whole seconds must have passed (spec udp 3).
func (u *UDP) deadline(s *state) int64 {
	t, stream := u.env.Cfg.UDPTimeoutS, u.env.Cfg.UDPStreamS
	if t <= 0 {
		t = defaultTimeoutS
	}
	if stream <= 0 {
		stream = defaultStreamS
	}
	if s.batches[1] > 0 && (s.batches[0] > 1 || s.batches[1] > 1) {
		t = stream
	}
	return s.lastMs + (t+1)*1000
}

// Timer ends the flow when it was idle long enough, else looks again later.
func (u *UDP) Timer(i flow.Index) {
	at := u.deadline(&u.st[i])
	if at <= u.env.NowMs {
		u.end(i)
		return
	}
	u.env.Arm(i, at)
}

// Again goes on where the budget of the last turn ended, or counts the turns until a new flow's sockets are polled.
func (u *UDP) Again(i flow.Index) {
	if s := &u.st[i]; s.settle > 0 {
		if s.settle--; s.settle == 0 {
			u.watch(i)
		} else {
			u.env.Again(i)
		}
		return
	}
	for side := range 2 {
		if s := &u.st[i]; s.has(flagMore, side) {
			s.clear(flagMore, side)
			u.Event(i, side, sys.PollIn)
		}
	}
}

// EndTurn ends one turn of the loop. Nothing is held back between turns: every batch left when it was handled. When the last flow is
// gone the buffers' pages go back to the kernel.
func (u *UDP) EndTurn() {
	if !u.dirty || u.env.Table.Used() > 0 {
		return
	}
	u.dirty = false
	sys.Release(u.slots)
	sys.Release(u.run)
	sys.Release(u.frag)
	u.wait.release()
}
