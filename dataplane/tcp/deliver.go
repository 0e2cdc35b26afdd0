// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"passt/dataplane/flow"
	"passt/dataplane/wire"
	"passt/internal/sys"
)

// deliver gives the collected payload to the socket; what it does not take becomes pending. False when the flow is gone.
func (t *TCP) deliver(i flow.Index) bool {
	c := &t.conns[i]
	v := t.vec[:t.vecLen]
	t.vecLen = 0
	if len(v) > 0 && c.pend.bytes == 0 {
		n, e := sys.Writev(t.fd(i), v)
		if e != 0 && e != sys.EAGAIN {
			t.abort(i)
			return false
		}
		for n > 0 && len(v) > 0 {
			k := min(n, v[0].Len())
			v[0].Advance(k)
			n -= k
			if v[0].Len() == 0 {
				v = v[1:]
			}
		}
	}
	for k := range v {
		b := v[k].Bytes()
		if n := t.pool.add(&c.pend, b); n < len(b) {
			// Cannot happen while windows keep to the pool's credit; then the guest sends it again.
			t.env.Drops.Add(wire.DropPendingFull)
			lost := uint32(len(b) - n)
			for _, x := range v[k+1:] {
				lost += uint32(x.Len())
			}
			if c.has(guestFIN) {
				c.flags &^= guestFIN
				lost++
			}
			c.rcvNxt -= lost
			t.later(i, true)
			return true
		}
	}
	return t.passFIN(i)
}

// passFIN passes the guest's FIN on once everything before it is in the socket.
func (t *TCP) passFIN(i flow.Index) bool {
	c := &t.conns[i]
	if !c.has(guestFIN) || c.has(shutDone) || c.pend.bytes > 0 {
		return true
	}
	c.flags |= shutDone
	if e := sys.Shutdown(t.fd(i), sys.ShutWr); e != 0 && e != sys.ENOTCONN {
		t.abort(i)
		return false
	}
	if c.has(finSent) && c.sndUna == c.sndMax {
		t.sendControl(i, wire.ACK, c.sndNxt)
		t.end(i)
		return false
	}
	return true
}

// drain writes pending data as far as the socket takes it; false when the flow is gone.
func (t *TCP) drain(i flow.Index) bool {
	c := &t.conns[i]
	for c.pend.bytes > 0 {
		n := t.pool.vectors(&c.pend, t.vec[:64])
		w, e := sys.Writev(t.fd(i), t.vec[:n])
		if e == sys.EAGAIN {
			break
		}
		if e != 0 {
			t.abort(i)
			return false
		}
		t.pool.drop(&c.pend, w)
	}
	if t.opens(c) {
		t.later(i, false)
	}
	return t.passFIN(i)
}

// grow lets a bulk connection have more under way, as long as the pool can back it.
func (t *TCP) grow(c *conn, n uint32) {
	c.sinceGrow += n
	if c.sinceGrow < c.rcvCap || c.rcvCap >= maxCap || c.pend.bytes > 0 && c.rcvCap >= 4*baseCap {
		return
	}
	if t.credit+int(c.rcvCap) > numChunks*chunkSize/2 {
		return
	}
	t.credit += int(c.rcvCap)
	c.rcvCap *= 2
	c.sinceGrow = 0
}
