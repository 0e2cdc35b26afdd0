// SPDX-License-Identifier: Apache-2.0

package splice

import (
	"passt/dataplane/flow"
	"passt/internal/sys"
)

const (
	// turnBytes bounds what one lane moves in one turn of the loop: about 0.2 ms, so that one bulk flow cannot starve the rest.
	turnBytes = 2 << 20
	// bulkBytes copied in one turn make a lane a bulk lane, for which a pipe may pay; a request or an answer is copied.
	bulkBytes = 128 << 10
	// A lane stays bulk until calmTurns turns in a row have moved less than calmBytes each: under load turns are short.
	calmTurns = 16
	calmBytes = 32 << 10
)

// lane is one direction of a flow.
type lane struct {
	held uint32 // bytes in the pipe, read and not yet written
	want uint32 // bytes that the copy mover asks for next; 0: at its start
	pipe uint8  // pool slot + 1; 0: none
	bulk uint8  // bulk lane: turns that it stays one; 0: no bulk lane
	eof  bool   // the source has ended
	fin  bool   // and the sink was told
}

// job is one lane's work in one turn, as a mover sees it.
type job struct {
	from, to          sys.FD
	lane              *lane
	budget            int  // bytes still allowed
	moved             int  // bytes written to the sink
	canRead, canWrite bool // in: readiness as known; out: as found
	hup               bool // the source's FIN is known: a short read does not mean that it is dry
	err               sys.Errno
}

// mover carries a lane's bytes until the budget is used up, the source is dry or has ended (lane.eof), the sink is full, or err.
type mover interface {
	move(j *job)
}

// choice says by which mover a flow's bulk lanes go.
type choice uint8

const (
	chooseNone choice = iota // not yet measured
	chooseCopy
	choosePipe
)

// pump moves what can be moved, both ways.
func (s *Splice) pump(i flow.Index) {
	for k := range 2 {
		c := &s.conns[i]
		l := &c.lane[k]
		if l.fin {
			continue
		}
		if e := s.run(i, k); e != 0 {
			s.step(i, evFail)
			return
		}
		if !l.eof || l.held > 0 {
			continue
		}
		l.fin = true
		if e := sys.Shutdown(s.env.Table.Rows[i].FD[1-k], sys.ShutWr); e != 0 {
			// Not connected any more: the peer's reset came first.
			s.step(i, evFail)
			return
		}
		if s.step(i, evFin0+event(k)); s.conns[i].state == stNone {
			return
		}
	}
}

// run is one turn of lane k.
func (s *Splice) run(i flow.Index, k int) sys.Errno {
	c, r := &s.conns[i], &s.env.Table.Rows[i]
	l := &c.lane[k]
	if !c.canWrite[1-k] || l.held == 0 && !c.canRead[k] {
		return 0
	}
	j := &s.job
	*j = job{from: r.FD[k], to: r.FD[1-k], lane: l, budget: turnBytes,
		canRead: c.canRead[k], canWrite: c.canWrite[1-k], hup: c.hup[k]}
	var m mover = &s.copy
	if l.held == 0 && l.bulk == 0 {
		j.budget = bulkBytes
		m.move(j)
		if j.moved >= bulkBytes {
			l.bulk = calmTurns
		}
		j.budget = turnBytes - j.moved
	}
	if l.held > 0 || l.bulk > 0 && j.more() {
		if l.held > 0 || s.choose(i) == choosePipe && s.pipe.pool.take(l) {
			m = &s.pipe
		}
		m.move(j)
		if j.moved >= calmBytes {
			l.bulk = calmTurns
		} else if l.bulk > 0 {
			l.bulk--
		}
	}
	c.canRead[k], c.canWrite[1-k] = j.canRead, j.canWrite
	if l.held == 0 {
		s.pipe.pool.put(l)
	}
	if j.more() {
		s.env.Again(i)
	}
	return j.err
}

// more tells whether a job could go on at once.
func (j *job) more() bool {
	return j.err == 0 && j.canWrite && (j.canRead || j.lane.held > 0)
}

// choose tells by which mover a flow's bulk goes: measured, see docs/decisions/0004-splice-or-copy.md.
func (s *Splice) choose(i flow.Index) choice {
	c := &s.conns[i]
	if s.force != chooseNone {
		return s.force
	}
	if c.choice == chooseNone {
		c.choice = choosePipe
		name, e := sys.Congestion(s.env.Table.Rows[i].FD[0])
		if e == 0 && name[0] == 'b' && name[1] == 'b' && name[2] == 'r' {
			c.choice = chooseCopy
		}
	}
	return c.choice
}
