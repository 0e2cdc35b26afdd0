// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"fmt"

	"passt/dataplane"
	"passt/dataplane/flow"
	"passt/dataplane/fwd"
	"passt/dataplane/wire"
	"passt/internal/sys"
	"passt/ipc"
)

// loop runs until the supervisor is gone or the link ends.
func (w *Worker) loop() {
	wait := sys.Waiter{Ep: w.ep}
	// The channels are watched by edges, and one may have passed while Boot was awaited.
	w.fromBroker(&w.host)
	w.fromBroker(&w.ns)
	for w.done == nil && !w.host.gone {
		n, now, e := wait.Wait(w.events[:], w.timeout())
		if e != 0 {
			w.done = e
			return
		}
		w.env.NowNs, w.env.NowMs = now, now/1e6
		w.plane.BeginTurn()
		for k := range n {
			w.dispatch(&w.events[k])
		}
		w.plane.EndTurn()
		w.ask()
		w.report()
	}
}

// timeout is how long the loop may sleep, ms; -1: until something happens.
func (w *Worker) timeout() int {
	if w.env.Pending() {
		return 0
	}
	if at, ok := w.plane.Deadline(); ok {
		return int(min(max(at-w.env.NowMs, 0), 1<<30))
	}
	return -1
}

// report says what a user should know and no packet may say: once that the capture ended, and at debug level once a
// minute, while there is traffic, what was dropped since.
func (w *Worker) report() {
	if c := w.tap.Capture; c != nil && c.Err != 0 && !w.captureEnded {
		w.captureEnded = true
		w.log(dataplane.LevelError, "capture ended, traffic goes on: write: "+c.Err.Error())
	}
	if w.logLevel < dataplane.LevelDebug || w.env.NowMs-w.dropsAt < 60_000 {
		return
	}
	w.dropsAt = w.env.NowMs
	for d, n := range w.env.Drops {
		if n != w.drops[d] {
			w.log(dataplane.LevelDebug, fmt.Sprintf("dropped: %s: %d", wire.Drop(d), n-w.drops[d]))
		}
	}
	w.drops = w.env.Drops
}

func (w *Worker) dispatch(ev *sys.PollEvent) {
	tag := ev.Data()
	index, gen := uint32(tag), uint32(tag>>32)&flow.GenMask
	switch flow.PollKind(tag >> 56) {
	case flow.PollFlow:
		w.plane.FlowEvent(index, gen, ev.Events)
	case flow.PollLink:
		if e := w.plane.LinkEvent(ev.Events); e != 0 {
			w.linkError(e)
		}
	case flow.PollListen:
		w.plane.ListenEvent(index, gen, ev.Events)
	case flow.PollHostIPC:
		w.host.full = false
		w.fromBroker(&w.host)
	case flow.PollNsIPC:
		w.ns.full = false
		w.fromBroker(&w.ns)
	}
}

// linkError ends the process for an error of the tap that does not pass. A tap that is down (EIO) comes up again: it is
// not watched by reading it over and over, the kernel signals readiness.
func (w *Worker) linkError(e sys.Errno) {
	if e == sys.EIO || e == sys.ENOBUFS || e == sys.ENOMEM {
		return
	}
	w.log(dataplane.LevelError, "guest link failed: "+e.Error())
	w.done = e
}

// ask sends this turn's requests to the brokers, up to 16 in a packet.
func (w *Worker) ask() {
	reqs := w.env.TakeRequests()
	if len(reqs) == 0 && w.host.n == 0 && w.ns.n == 0 {
		return
	}
	for k := range reqs {
		p := &w.host
		if reqs[k].To == fwd.PifSplice {
			p = &w.ns
		}
		if p.gone || p.n == len(p.held) {
			w.fail(&reqs[k])
			continue
		}
		p.held[p.n] = reqs[k]
		p.n++
	}
	w.send(&w.host)
	w.send(&w.ns)
}

// fail answers a request that no broker can serve.
func (w *Worker) fail(q *flow.Request) {
	w.plane.Opened(&flow.Opened{Flow: q.Flow, Slot: q.Slot, Errno: sys.ENOBUFS, FD: sys.NoFD, FD2: sys.NoFD}, q.Gen())
}

func (w *Worker) send(p *peer) {
	at := 0
	for at < p.n && !p.full {
		var took int
		var e sys.Errno
		if p.held[at].Op == flow.OpPipe {
			took, e = 1, sendPipe(p.conn, &p.held[at])
		} else {
			took, e = sendConnects(p.conn, p.held[at:p.n])
		}
		if e == sys.EAGAIN {
			p.full = true
			break
		}
		if e != 0 {
			p.gone = true
			if p == &w.host && e != sys.EPIPE && e != sys.ECONNRESET {
				w.done = e
			}
			break
		}
		at += took
	}
	if p.gone {
		for ; at < p.n; at++ {
			w.fail(&p.held[at])
		}
	}
	if at > 0 {
		copy(p.held, p.held[at:p.n])
		p.n -= at
	}
}

func sendPipe(c *ipc.Conn, q *flow.Request) sys.Errno {
	b := c.Body(16)
	clear(b)
	put32(b[0:], uint32(q.Flow))
	put32(b[4:], q.Gen())
	b[8] = q.Slot
	return c.Send(ipc.KindPipe, 1, 16, nil)
}

func sendConnects(c *ipc.Conn, reqs []flow.Request) (int, sys.Errno) {
	n := 0
	body := c.Body(ipc.MaxBatch * ipc.ConnectSize)
	for n < len(reqs) && n < ipc.MaxBatch && reqs[n].Op != flow.OpPipe {
		q := &reqs[n]
		r := ipc.Connect{Flow: uint32(q.Flow), Gen: q.Gen(), Op: ipc.Op(q.Op), Slot: q.Slot, TTL: q.TTL, Src: q.Src, Dst: q.Dst,
			SrcPort: q.SrcPort, DstPort: q.DstPort, MSS: q.MSS, Rule: q.Rule}
		r.Put(body[n*ipc.ConnectSize:])
		n++
	}
	return n, c.Send(ipc.KindConnect, n, n*ipc.ConnectSize, nil)
}

func put32(b []byte, v uint32) {
	b[0], b[1], b[2], b[3] = byte(v>>24), byte(v>>16), byte(v>>8), byte(v)
}
