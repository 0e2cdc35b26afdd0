// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"errors"
	"fmt"

	"passt/dataplane/fwd"
	"passt/internal/sys"
	"passt/ipc"
)

// op is one row of the request table.
type op struct {
	name string
	// side on which the operation is served: PifHost, PifSplice, or PifNone for both
	side    fwd.Pif
	handler func(*Broker, *ipc.Connect, *ipc.Reply) (sys.FD, sys.Errno)
}

// ops is what a worker may ask for; anything else ends it.
var ops = [...]op{
	ipc.OpTCP:       {"tcp", fwd.PifHost, (*Broker).tcp},
	ipc.OpUDP:       {"udp", fwd.PifHost, (*Broker).udp},
	ipc.OpPing:      {"ping", fwd.PifHost, (*Broker).ping},
	ipc.OpUDPReply:  {"udp reply", fwd.PifNone, (*Broker).udpReply},
	ipc.OpSpliceTCP: {"splice tcp", fwd.PifNone, (*Broker).spliceTCP},
	ipc.OpSpliceUDP: {"splice udp", fwd.PifNone, (*Broker).spliceUDP},
	ipc.OpUDPListen: {"udp listen", fwd.PifHost, (*Broker).udpListen},
}

// Rate limits of one worker: records per second, and the burst. A host that serves 100,000 new
// connections a second is beyond what one loop can do; more is a broken worker.
const (
	ratePerSecond = 200_000
	rateBurst     = 400_000
)

// PipeSize is what is asked for each pipe of the loopback path, bytes: the usual unprivileged limit.
const PipeSize = 1 << 20

// Broker serves one worker on one side.
type Broker struct {
	conn *ipc.Conn
	side fwd.Pif
	cfg  *fwd.Config
	// listen holds the rules whose listeners are on this side, target those whose targets are.
	listen, target []fwd.Rule

	ready   bool
	msg     ipc.Message
	fds     [ipc.MaxBatch]sys.FD
	nfds    int
	tokens  int
	fillNs  int64
	Served  uint64 // requests answered
	Refused uint64 // answered with an errno
	// Ready runs once, when the worker says that it is locked down. Log gets its lines. Either may be nil where
	// the worker has no business to send them: then they end it.
	Ready func() error
	Log   func(line []byte)
}

// New makes a broker for a side; host and ns are the rules of the two tables.
func New(conn *ipc.Conn, side fwd.Pif, cfg *fwd.Config, host, ns []fwd.Rule) *Broker {
	b := &Broker{conn: conn, side: side, cfg: cfg, listen: host, target: ns, tokens: rateBurst, fillNs: sys.NowNs()}
	if side == fwd.PifSplice {
		b.listen, b.target = ns, host
	}
	return b
}

// SetReady opens the phase of requests; the agent's broker learns from the supervisor that the worker is locked down.
func (b *Broker) SetReady() { b.ready = true }

// ErrWorker is wrapped by errors that are the worker's fault: it must be ended.
var ErrWorker = errors.New("worker broke the protocol")

// turnPackets bounds what one call of Serve answers, so that a worker that never stops asking does not keep the
// supervisor from its signals and children.
const turnPackets = 64

// Serve answers what is queued, at most turnPackets packets; more is true when it did something. The caller's poll is
// level-triggered: what is left brings it back.
//
//	errors: ErrWorker and ipc.ErrFormat say what was wrong; ipc.Gone when the worker closed
func (b *Broker) Serve() (more bool, err error) {
	for range turnPackets {
		ok, err := b.conn.Recv(&b.msg)
		if err != nil || !ok {
			return more, err
		}
		more = true
		if err := b.handle(&b.msg); err != nil {
			for _, f := range b.msg.FDs {
				sys.Close(f)
			}
			return more, err
		}
	}
	return more, nil
}

func (b *Broker) handle(m *ipc.Message) error {
	if m.Header.FDs > 0 {
		return fmt.Errorf("%w: kind %d came with %d descriptors, none are allowed", ErrWorker, m.Kind, m.Header.FDs)
	}
	if !b.ready && m.Kind != ipc.KindReady && m.Kind != ipc.KindLog {
		return fmt.Errorf("%w: kind %d before ready", ErrWorker, m.Kind)
	}
	if err := b.spend(int(m.Count)); err != nil {
		return err
	}
	switch m.Kind {
	case ipc.KindReady:
		if b.ready || b.Ready == nil || len(m.Body) != 4 {
			return fmt.Errorf("%w: ready out of turn (%d bytes)", ErrWorker, len(m.Body))
		}
		b.ready = true
		return b.Ready()
	case ipc.KindLog:
		if b.Log == nil || len(m.Body) > ipc.MaxLog {
			return fmt.Errorf("%w: log line of %d bytes, at most %d", ErrWorker, len(m.Body), ipc.MaxLog)
		}
		b.Log(m.Body)
		return nil
	case ipc.KindConnect:
		return b.connects(m)
	case ipc.KindPipe:
		return b.pipes(m)
	}
	return fmt.Errorf("%w: kind %d is not a request", ErrWorker, m.Kind)
}

// spend takes n tokens from the bucket.
func (b *Broker) spend(n int) error {
	if b.tokens < n {
		now := sys.NowNs()
		b.tokens = int(min(int64(b.tokens)+(now-b.fillNs)/(1e9/ratePerSecond), rateBurst))
		b.fillNs = now
		if b.tokens < n {
			return fmt.Errorf("%w: more than %d requests a second", ErrWorker, ratePerSecond)
		}
	}
	b.tokens -= n
	return nil
}

func (b *Broker) connects(m *ipc.Message) error {
	n := int(m.Count)
	out := b.conn.Body(n * ipc.ReplySize)
	for i := range n {
		var q ipc.Connect
		if !q.Parse(m.Record(i)) {
			b.closeMade()
			return fmt.Errorf("%w: connect: unknown operation or reserved byte: %x", ErrWorker, m.Record(i)[8:12])
		}
		o := &ops[q.Op]
		if o.side != fwd.PifNone && o.side != b.side {
			b.closeMade()
			return fmt.Errorf("%w: %s is not served on this side", ErrWorker, o.name)
		}
		r := ipc.Reply{Flow: q.Flow, Gen: q.Gen, Slot: q.Slot}
		fd, e := o.handler(b, &q, &r)
		b.Served++
		if e != 0 {
			b.Refused++
			r.Errno = uint16(e)
			sys.Close(fd)
		} else {
			r.FDs = 1
			b.fds[b.nfds] = fd
			b.nfds++
		}
		r.Put(out[i*ipc.ReplySize:])
	}
	return b.reply(n)
}

func (b *Broker) pipes(m *ipc.Message) error {
	if m.Count != 1 {
		return fmt.Errorf("%w: pipe: %d records, one at a time", ErrWorker, m.Count)
	}
	rec := m.Record(0)
	q := ipc.Reply{Flow: be32(rec), Gen: be32(rec[4:]), Slot: rec[8], FDs: 2}
	r, w, e := sys.Pipe(PipeSize)
	if e != 0 {
		q.FDs, q.Errno = 0, uint16(e)
	} else {
		b.fds[0], b.fds[1], b.nfds = r, w, 2
	}
	q.Put(b.conn.Body(ipc.ReplySize))
	return b.reply(1)
}

// reply sends what was made and closes our copies. A worker that does not read its replies is broken: its queue holds more
// than it may have in flight.
func (b *Broker) reply(n int) error {
	e := b.conn.Send(ipc.KindReply, n, n*ipc.ReplySize, b.fds[:b.nfds])
	b.closeMade()
	if e == sys.EPIPE || e == sys.ECONNRESET {
		return nil // the next Recv says that it is gone
	}
	if e != 0 {
		return fmt.Errorf("%w: it does not take its replies: %w", ErrWorker, e)
	}
	return nil
}

func (b *Broker) closeMade() {
	for _, f := range b.fds[:b.nfds] {
		sys.Close(f)
	}
	b.nfds = 0
}

func be32(b []byte) uint32 {
	return uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
}
