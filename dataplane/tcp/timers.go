// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"passt/dataplane/flow"
	"passt/dataplane/wire"
)

// arm sets the flow's one timer to the earliest of what the connection waits for.
func (t *TCP) arm(i flow.Index) {
	c := &t.conns[i]
	at := c.lastGuest + keepAliveMs
	if c.state != StateOpen {
		at = c.lastAny + inactivityMs
	}
	if c.due != 0 {
		at = min(at, c.due)
	}
	t.env.Arm(i, min(at, c.lastAny+inactivityMs))
}

// Timer handles the flow's timer.
func (t *TCP) Timer(i flow.Index) {
	c := &t.conns[i]
	now := t.env.NowMs
	if now-c.lastAny >= inactivityMs {
		t.abort(i)
		return
	}
	if c.due != 0 && now >= c.due {
		c.due = 0
		if !t.expired(i) {
			return
		}
	}
	if c.state == StateOpen && now-c.lastGuest >= keepAliveMs {
		c.lastGuest = now
		t.sendControl(i, wire.ACK, c.sndUna-1)
	}
	t.arm(i)
}

// expired handles a handshake retry, a probe or a retransmission; false when the flow is gone.
func (t *TCP) expired(i flow.Index) bool {
	c := &t.conns[i]
	now := t.env.NowMs
	switch c.state {
	case StateSynSent, StateSynAckSent:
		if int(c.tries) >= t.synMax() {
			t.abort(i)
			return false
		}
		c.tries++
		flags := uint8(wire.SYN)
		if c.state == StateSynAckSent {
			flags |= wire.ACK
		}
		t.sendControl(i, flags, c.iss)
		c.due = now + t.synDelay(int(c.tries))
		return true
	case StateOpen:
	default:
		return true
	}
	if now-c.progress >= giveUpMs {
		t.abort(i)
		return false
	}
	c.tries++
	c.flags &^= timing
	c.sndNxt = c.sndUna
	if c.has(zeroWindow) {
		t.probe(i)
		c.due = now + min(int64(probeMs)<<min(c.tries, 16), max(t.env.Cfg.RTOMaxMs, probeMs))
		return c.state == StateOpen
	}
	if c.sndUna == c.sndMax {
		return true
	}
	c.due = now + t.rto(c)
	c.flags |= readable
	t.toGuest(i)
	return c.state == StateOpen
}

// probe sends one byte into a window that is shut (RFC 9293 s.3.8.6.1), where there is one to send.
func (t *TCP) probe(i flow.Index) {
	n, segs, e := t.peek(i, 1)
	if e != 0 || n == 0 {
		return
	}
	t.send(i, segs, n)
}
