// SPDX-License-Identifier: Apache-2.0

package splice

import (
	"passt/dataplane/flow"
	"passt/dataplane/fwd"
	"passt/dataplane/wire"
	"passt/internal/sys"
)

const (
	// maxPipes bounds the pool. At 1 MiB each that is half of what an ordinary user may have (pipe-user-pages-soft, pipe(7)).
	maxPipes = 32
	// pipeBytes is what one call may move; the pipe's own size bounds it further.
	pipeBytes = 8 << 20
	// refusedMs is how long nothing is asked for after a refusal.
	refusedMs = 1000
)

// pipeMover moves pages through a pipe. It reads only into an empty pipe, so EAGAIN has one meaning in each place.
type pipeMover struct {
	pool pool
}

func (m *pipeMover) move(j *job) {
	l := j.lane
	p := &m.pool.pipes[l.pipe-1]
	for j.canWrite && j.budget > 0 {
		if l.held == 0 {
			if !j.canRead {
				return
			}
			n, e := sys.Splice(j.from, p.w, pipeBytes)
			if e != 0 || n == 0 {
				j.canRead = false
				if e == 0 {
					l.eof = true
				} else if e != sys.EAGAIN {
					j.err = e
				}
				return
			}
			l.held = uint32(n)
		}
		n, e := sys.Splice(p.r, j.to, int(l.held))
		if e != 0 {
			j.canWrite = false
			if e != sys.EAGAIN {
				j.err = e
			}
			return
		}
		l.held -= uint32(n)
		j.moved += n
		j.budget -= n
	}
}

// pipeEnds is one pipe of the pool: read end, write end; NoFD: none.
type pipeEnds struct{ r, w sys.FD }

// pool keeps pipes between their uses. The worker cannot make pipes: the supervisor does, one request each, on the name
// of a row that the pool owns, so that no answer is lost with a flow that ended.
type pool struct {
	env     *flow.Env
	row     flow.Index // NoFlow: nothing was ever asked
	pipes   [maxPipes]pipeEnds
	free    [maxPipes]uint8 // stack of slots with an empty pipe
	nFree   int
	made    int   // pipes that exist
	asked   int   // requests under way
	restsMs int64 // nothing is asked before this time
}

func (p *pool) init(env *flow.Env) {
	p.env, p.row = env, flow.NoFlow
	for k := range p.pipes {
		p.pipes[k] = pipeEnds{sys.NoFD, sys.NoFD}
	}
}

// take gives the lane a pipe; false when none is at hand now. Then one more is asked for and the lane copies meanwhile.
func (p *pool) take(l *lane) bool {
	if l.pipe != 0 {
		return true
	}
	if p.nFree == 0 {
		p.ask()
		return false
	}
	p.nFree--
	l.pipe = p.free[p.nFree] + 1
	return true
}

// put takes the lane's pipe back. A pipe that still holds bytes is closed: they belong to a flow that is gone.
func (p *pool) put(l *lane) {
	if l.pipe == 0 {
		return
	}
	slot := l.pipe - 1
	l.pipe = 0
	if l.held > 0 {
		l.held = 0
		p.close(slot)
		return
	}
	p.free[p.nFree] = slot
	p.nFree++
}

func (p *pool) close(slot uint8) {
	e := &p.pipes[slot]
	sys.Close(e.r)
	sys.Close(e.w)
	*e = pipeEnds{sys.NoFD, sys.NoFD}
	p.made--
}

// rest closes every pipe that is not in use and lets the row go: there is no connection.
func (p *pool) rest() {
	if p.row != flow.NoFlow && p.asked == 0 {
		p.env.End(p.row)
		p.row = flow.NoFlow
	}
	for p.nFree > 0 {
		p.nFree--
		p.close(p.free[p.nFree])
	}
}

func (p *pool) ask() {
	if p.made+p.asked >= maxPipes || p.env.NowMs < p.restsMs {
		return
	}
	if p.row == flow.NoFlow {
		if p.row = p.env.Table.Alloc(flow.KindSplice); p.row == flow.NoFlow {
			return
		}
	}
	if p.env.Ask(&flow.Request{Flow: p.row, Op: flow.OpPipe, To: fwd.PifHost}) {
		p.asked++
	}
}

// opened takes a pipe from the broker; false when the answer is not for the pool.
func (p *pool) opened(o *flow.Opened) bool {
	if p.row == flow.NoFlow || o.Flow != p.row {
		return false
	}
	p.asked--
	if o.Errno != 0 || o.FD == sys.NoFD || o.FD2 == sys.NoFD {
		sys.Close(o.FD)
		sys.Close(o.FD2)
		p.env.Drops.Add(wire.DropNoDescriptor)
		p.restsMs = p.env.NowMs + refusedMs
		return true
	}
	for k := range p.pipes {
		if p.pipes[k].r == sys.NoFD {
			p.pipes[k] = pipeEnds{o.FD, o.FD2}
			p.made++
			p.free[p.nFree] = uint8(k)
			p.nFree++
			return true
		}
	}
	panic("splice: more pipes than were asked for")
}
