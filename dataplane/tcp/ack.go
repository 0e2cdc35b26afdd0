// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"passt/dataplane/flow"
	"passt/dataplane/wire"
	"passt/internal/sys"
)

// best is the newest acknowledgement and window of a run: only that one is acted on.
type best struct {
	ack Seq
	win uint32
	raw uint16
	any bool
	dup bool // a repeated pure acknowledgement: the guest misses something
}

// note weighs the acknowledgement of one segment.
func (b *best) note(c *conn, seg wire.TCP) {
	ack := Seq(seg.Ack())
	if ack.Less(b.ack) {
		return // older than what is known, and so is its window
	}
	pure := len(seg.Payload()) == 0 && seg.Flags()&wire.FIN == 0
	b.dup = pure && ack == b.ack && seg.Window() == b.raw
	b.any, b.ack, b.raw = true, ack, seg.Window()
	b.win = uint32(b.raw) << c.wsGuest
}

// applyAck acts on the run's acknowledgement and window; false when the flow is gone.
func (t *TCP) applyAck(i flow.Index) bool {
	c, b := &t.conns[i], &t.best
	if !b.any {
		return true
	}
	if c.sndUna != b.ack && !t.advance(i, b.ack) {
		return false
	}
	c.lastWin = b.raw
	t.guestWindow(i, b.win)
	if b.dup && c.outstanding() && b.win > 0 && !c.has(fastDone) {
		c.set(fastDone)
		c.clear(timing)
		c.sndNxt = c.sndUna
	}
	return true
}

// advance takes an acknowledgement of new data; false when the flow is gone.
func (t *TCP) advance(i flow.Index, ack Seq) bool {
	c := &t.conns[i]
	n := ack.From(c.sndUna)
	if c.has(finSent) && ack == c.sndMax {
		n-- // the FIN
	}
	c.peekAt -= min(c.peekAt, n) // as the kernel does
	for n > 0 {
		k, e := sys.Discard(t.fd(i), int(n))
		if e != 0 || k == 0 {
			t.abort(i) // the queue does not hold what was sent from it: the peer's reset emptied it
			return false
		}
		n -= uint32(k) // less than asked for at urgent data
	}
	c.sndUna = ack
	if c.sndNxt.Less(ack) {
		c.sndNxt = ack
	}
	c.tries = 0
	c.since = t.env.NowMs
	c.clear(fastDone)
	if c.has(timing) && c.rttSeq.Leq(ack) {
		c.clear(timing)
		t.measured(c)
	}
	if c.outstanding() {
		c.due = t.env.NowMs + t.rto(c)
		t.arm(i)
		return true
	}
	c.due = 0
	if c.has(rdHup | urgent) {
		c.set(readable) // the FIN, or what is behind an urgent byte, waited for this
	}
	return !t.done(i)
}

// measured takes a round trip into the average (RFC 6298 s.2, gain 1/8).
func (t *TCP) measured(c *conn) {
	us := min((t.env.NowNs-c.rttStart)/1000, 10_000_000)
	if c.srttUs == 0 {
		c.srttUs = uint32(max(us, 1))
		return
	}
	old := int64(c.srttUs)
	c.srttUs = uint32(max(old+(us-old)/8, 1))
}

// guestWindow notes the guest's window. When it shuts, nothing outstanding will be kept (kernels do so under memory pressure):
// all of it is sent again when the window opens.
func (t *TCP) guestWindow(i flow.Index, win uint32) {
	c := &t.conns[i]
	switch {
	case win == 0:
		if !c.has(zeroWin) {
			c.set(zeroWin)
			c.clear(timing)
			c.tries, c.due = 0, 0
		}
		c.sndNxt = c.sndUna
		c.since = t.env.NowMs // it answers: probe for ever (RFC 9293 s.3.8.6.1)
		if c.due == 0 && (c.outstanding() || c.has(readable)) {
			t.await(i, probeMs)
		}
	case c.has(zeroWin):
		c.clear(zeroWin)
		c.set(readable)
		c.sndNxt = c.sndUna // a probe was not kept either
		c.tries, c.due = 0, 0
		if c.outstanding() {
			t.await(i, t.rto(c))
		}
	}
	c.sndWnd = win
}
