// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"passt/dataplane/flow"
	"passt/dataplane/wire"
)

// maxRTO is the longest wait for an answer, ms (tcp_rto_max_ms).
func (t *TCP) maxRTO() int64 {
	if m := t.env.Cfg.RTOMaxMs; m > 0 {
		return m
	}
	return 120_000
}

// rto is the retransmission time-out, ms, with the back-off of the tries so far (RFC 6298 s.5.5).
func (t *TCP) rto(c *conn) int64 {
	base := int64(firstRTOMs)
	switch {
	case c.srttUs != 0:
		base = max(minRTOMs, int64(c.srttUs)*4/1000)
	case c.has(synAgain):
		base = retriedRTOMs
	}
	return min(base<<min(c.tries, 16), t.maxRTO())
}

// await begins to wait for an answer of the guest, unless that was begun before.
func (t *TCP) await(i flow.Index, ms int64) {
	c := &t.conns[i]
	if c.due == 0 {
		c.since = t.env.NowMs
		c.due = t.env.NowMs + ms
		t.arm(i)
	}
}

// arm sets the flow's one timer to the earliest of what the connection waits for.
func (t *TCP) arm(i flow.Index) {
	c := &t.conns[i]
	at := c.lastAny + inactivityMs
	if c.state == StateOpen {
		at = min(at, c.lastGuest+keepAliveMs)
	}
	if c.due != 0 {
		at = min(at, c.due)
	}
	t.env.Arm(i, at)
}

// Timer handles the flow's timer.
func (t *TCP) Timer(i flow.Index) {
	c := &t.conns[i]
	now := t.env.NowMs
	if now-c.lastAny >= inactivityMs {
		t.abort(i)
		return
	}
	if c.due != 0 && now >= c.due && !t.expired(i) {
		return
	}
	if c.state == StateOpen && now-c.lastGuest >= keepAliveMs {
		c.lastGuest = now
		t.sendControl(i, wire.ACK, c.sndUna-1)
		t.shrink(c)
	}
	t.arm(i)
}

// expired handles a handshake retry, a probe or a retransmission; false when the flow is gone.
func (t *TCP) expired(i flow.Index) bool {
	c := &t.conns[i]
	now := t.env.NowMs
	if c.state != StateOpen {
		if int(c.tries) >= t.synMax() {
			t.abort(i)
			return false
		}
		c.tries++
		c.set(synAgain)
		t.sendSyn(i)
		c.due = now + t.synDelay(int(c.tries))
		return true
	}
	if now-c.since >= giveUpMs {
		t.abort(i)
		return false
	}
	if c.has(linkWait) {
		c.clear(linkWait)
		c.due = now + t.rto(c)
	} else {
		c.tries += min(1, 255-c.tries)
		c.clear(timing)
		c.sndNxt = c.sndUna
		c.due = now + t.rto(c)
	}
	if c.has(zeroWin) {
		c.due = now + min(int64(probeMs)<<min(c.tries, 16), t.maxRTO())
		t.probe(i)
	} else {
		c.set(readable)
		t.toGuest(i)
	}
	if c.state != StateOpen {
		return false
	}
	if !c.outstanding() && !c.has(linkWait) {
		c.due = 0
	}
	return true
}

// probe sends one byte, or the FIN, into a window that is shut (RFC 9293 s.3.8.6.1), where there is one to send.
func (t *TCP) probe(i flow.Index) {
	switch n, segs, e := t.peek(i, 1); {
	case e != 0:
		t.stopped(i, e)
	case n == 0:
		t.endOfData(i)
	default:
		t.send(i, segs, n)
	}
}
