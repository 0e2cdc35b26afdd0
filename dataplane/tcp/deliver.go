// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"passt/dataplane/flow"
	"passt/dataplane/wire"
	"passt/internal/sys"
)

// flushVec writes the collected payload to the socket; what it does not take becomes pending. An errno other than 0 is final.
func (t *TCP) flushVec(i flow.Index) sys.Errno {
	c := &t.conns[i]
	v := t.vec[:t.nVec]
	t.nVec = 0
	if len(v) > 0 && c.pend.bytes == 0 {
		n, e := write(t.fd(i), v)
		if e != 0 && e != sys.EAGAIN {
			return e
		}
		for e == 0 && len(v) > 0 && n >= v[0].Len() {
			n -= v[0].Len()
			v = v[1:]
		}
		if e == 0 && n > 0 {
			v[0].Advance(n)
		}
	}
	for k := range v {
		b := v[k].Bytes()
		if n := t.pool.add(&c.pend, b); n < len(b) {
			t.lose(i, v[k:], n)
			break
		}
	}
	return 0
}

// write writes the vectors in one call; the plain form is cheaper for one.
func write(fd sys.FD, v []sys.Iovec) (int, sys.Errno) {
	if len(v) == 1 {
		return sys.Write(fd, v[0].Bytes())
	}
	return sys.Writev(fd, v)
}

// lose takes back what found no room, from the n-th byte of v on: the guest has to send it again. It takes more stalled
// connections than the pool has room for baseCaps.
func (t *TCP) lose(i flow.Index, v []sys.Iovec, n int) {
	c := &t.conns[i]
	t.env.Drops.Add(wire.DropPendingFull)
	lost := -n
	for k := range v {
		lost += v[k].Len()
	}
	if c.has(guestFIN) {
		c.clear(guestFIN)
		lost++
	}
	c.rcvNxt = c.rcvNxt.Add(-lost)
	t.later(i, true)
}

// deliver writes what is collected and passes a FIN on; false when the flow is gone.
func (t *TCP) deliver(i flow.Index) bool {
	if t.flushVec(i) != 0 {
		t.abort(i)
		return false
	}
	return t.passFIN(i)
}

// passFIN passes the guest's FIN on once everything before it is in the socket; false when the flow is gone.
func (t *TCP) passFIN(i flow.Index) bool {
	c := &t.conns[i]
	if !c.has(guestFIN) || c.has(shutDone) || c.pend.bytes > 0 {
		return true
	}
	if e := sys.Shutdown(t.fd(i), sys.ShutWr); e != 0 && e != sys.ENOTCONN {
		t.abort(i)
		return false
	}
	c.set(shutDone)
	return !t.done(i)
}

// drain writes pending data as far as the socket takes it; false when the flow is gone.
func (t *TCP) drain(i flow.Index) bool {
	c := &t.conns[i]
	for c.pend.bytes > 0 {
		n := t.pool.vectors(&c.pend, t.vec[:maxVec])
		w, e := write(t.fd(i), t.vec[:n])
		if e == sys.EAGAIN {
			break
		}
		if e != 0 {
			t.abort(i)
			return false
		}
		t.pool.drop(&c.pend, w)
	}
	t.later(i, false) // opens decides whether there is news
	return t.passFIN(i)
}
