// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"passt/dataplane/flow"
	"passt/dataplane/link"
	"passt/dataplane/wire"
	"passt/internal/sys"
)

// toGuest sends what the socket holds, as far as the guest's window and the turn's budget go.
func (t *TCP) toGuest(i flow.Index) {
	c := &t.conns[i]
	if t.env.Link == nil {
		return
	}
	if c.has(zeroWin) {
		t.await(i, probeMs)
		return
	}
	for sent := 0; sent < turnBudget; {
		if c.sndNxt == c.sndMax && (c.has(finSent) || !c.has(readable)) {
			return
		}
		behind := c.sndNxt.From(c.sndUna)
		if behind >= c.sndWnd {
			return // an acknowledgement or the timer goes on
		}
		room := c.sndWnd - behind
		if room < uint32(c.mss) && behind > 0 {
			return // silly window: wait for more (RFC 9293 s.3.8.6.2.1)
		}
		n, segs, e := t.peek(i, int(min(room, turnBudget)))
		if e != 0 {
			t.stopped(i, e)
			return
		}
		if n == 0 {
			t.endOfData(i)
			return
		}
		asked := 0
		for s := range segs {
			for _, v := range segs[s].Vec {
				asked += v.Len()
			}
		}
		if n < asked && !c.has(rdHup|urgent) {
			c.clear(readable) // a short read empties the queue: what comes later is a new event (epoll(7))
		}
		if !t.send(i, segs, n) {
			return
		}
		sent += n
	}
	t.env.Again(i)
}

// stopped acts on an errno of peek: nothing there, link full, or the socket's error.
func (t *TCP) stopped(i flow.Index, e sys.Errno) {
	switch e {
	case sys.EAGAIN:
		t.conns[i].clear(readable)
	case sys.ENOBUFS:
		t.linkFull(i)
	default:
		t.abort(i)
	}
}

// peek reads from the socket, beyond what is in flight, straight into segments of the link.
//
//	in:     room, most bytes, > 0
//	out:    bytes, and the segments that hold them; 0 is the end of the peer's data
//	errors: EAGAIN: nothing new; ENOBUFS: the link is full; others are the socket's
func (t *TCP) peek(i flow.Index, room int) (int, []link.Seg, sys.Errno) {
	c := &t.conns[i]
	r := &t.env.Table.Rows[i]
	ip := wire.IPHeaderLen(&r.Side[guestSide(r)].Our)
	size, count := int(c.mss), 1
	if t.env.Link.Features().TSO {
		// As much as an IP packet holds, in whole segments.
		size = max(size, (65535-ip-wire.TCPSize)/size*size)
		if mss := int(c.mss); room < size && room >= 2*mss {
			room -= room % mss // the rest follows the acknowledgement, which two segments draw at once
		}
	} else {
		count = max(1, min(maxSegs, room/size))
	}
	segs := t.env.Link.Reserve(wire.EthSize+ip+wire.TCPSize, min(size, room), count)
	if len(segs) == 0 {
		return 0, nil, sys.ENOBUFS
	}
	behind := c.sndNxt.From(c.sndUna)
	if !c.has(peekOff) {
		return t.peekOver(i, segs, int(behind))
	}
	if c.peekAt != behind {
		if e := sys.SetPeekOffset(t.fd(i), int(behind)); e != 0 {
			return 0, nil, e
		}
		c.peekAt = behind
	}
	var n int
	var e sys.Errno
	if len(segs) == 1 && segs[0].Buf != nil {
		n, e = sys.Recv(t.fd(i), segs[0].Buf, sys.MsgPeek)
	} else {
		n, e = sys.RecvVec(t.fd(i), t.peekVec[:t.vectors(segs, 0)], sys.MsgPeek)
	}
	if e != 0 {
		return 0, nil, e
	}
	c.peekAt += uint32(n)
	return n, segs, 0
}

// urgentData handles the peer's urgent data. Reads stop in front of such a byte and then leave it out (tcp(7)), but the
// kernel's peek offset counts it: from now on this connection peeks without one. It is rare, and never worth speed.
func (t *TCP) urgentData(i flow.Index) {
	c := &t.conns[i]
	c.set(readable | urgent)
	if c.has(peekOff) && sys.SetPeekOffset(t.fd(i), -1) == 0 {
		c.clear(peekOff)
	}
}

// vectors appends the segments' room to the first k of peekVec.
func (t *TCP) vectors(segs []link.Seg, k int) int {
	for s := range segs {
		for _, v := range segs[s].Vec {
			if k < len(t.peekVec) {
				t.peekVec[k] = v
				k++
			}
		}
	}
	return k
}

// peekOver is peek for kernels without SO_PEEK_OFF: scratch takes what is in flight.
func (t *TCP) peekOver(i flow.Index, segs []link.Seg, behind int) (int, []link.Seg, sys.Errno) {
	if behind > maxBehind {
		return 0, nil, sys.EMSGSIZE
	}
	k := 0
	for skip := behind; skip > 0; k++ {
		m := min(skip, peekScratch)
		t.peekVec[k].Set(t.scratch[:m])
		skip -= m
	}
	n, e := sys.RecvVec(t.fd(i), t.peekVec[:t.vectors(segs, k)], sys.MsgPeek)
	switch {
	case e != 0:
		return 0, nil, e
	case n > behind || behind == 0:
		return n - behind, segs, 0
	}
	return 0, nil, sys.EAGAIN // whether that is the end shows when the guest has acknowledged everything
}

// send writes headers for n peeked bytes and hands them to the link; false when it is full.
func (t *TCP) send(i flow.Index, segs []link.Seg, n int) bool {
	c := &t.conns[i]
	full, k := 0, 0
	for ; full < n && k < len(segs); k++ {
		s := &segs[k]
		room := 0
		for _, v := range s.Vec {
			room += v.Len()
		}
		s.Len = min(n-full, room)
		flags := uint8(wire.ACK)
		if full+s.Len == n {
			flags |= wire.PSH
		}
		s.Vnet = t.header(i, s.Hdr, s.Len, c.sndNxt.Add(full), flags)
		if s.Len > int(c.mss) {
			s.Vnet.GSOType, s.Vnet.GSOSize, s.Vnet.HdrLen = wire.GSOTCP4, c.mss, uint16(len(s.Hdr))
			if len(s.Hdr) > wire.EthSize+wire.IP4Size+wire.TCPSize {
				s.Vnet.GSOType = wire.GSOTCP6
			}
		} else {
			t.complete(s)
		}
		full += s.Len
	}
	took, _ := t.env.Link.Send(segs[:k]) // an error means that the rest was not sent
	sent := 0
	for s := range took {
		sent += segs[s].Len
	}
	t.sentData(i, sent)
	if took < k {
		if took == 0 {
			t.later(i, true) // the acknowledgement that they carried is noted as told
		}
		t.linkFull(i)
		return false
	}
	return true
}

// sentData accounts for n bytes from sndNxt on.
func (t *TCP) sentData(i flow.Index, n int) {
	if n == 0 {
		return
	}
	c := &t.conns[i]
	c.clear(ackDue | ackNow) // they carried it
	fresh := c.sndNxt == c.sndMax
	c.sndNxt = c.sndNxt.Add(n)
	if c.sndMax.Less(c.sndNxt) {
		c.sndMax = c.sndNxt
	}
	if fresh && !c.has(timing|zeroWin) {
		c.set(timing)
		c.rttSeq, c.rttStart = c.sndNxt, t.env.NowNs
	}
	t.await(i, t.rto(c))
}

// linkFull waits for LinkReady, or a short while where the link never says that it is ready.
func (t *TCP) linkFull(i flow.Index) {
	c := &t.conns[i]
	t.env.Drops.Add(wire.DropLinkFull)
	if !c.has(linkWait) && t.nWait < len(t.waiting) {
		t.waiting[t.nWait] = i
		t.nWait++
	}
	c.set(linkWait | readable) // what was peeked last is in the queue, whatever the peek told
	if c.due == 0 {
		c.since = t.env.NowMs
	}
	c.due = t.env.NowMs + linkRetryMs
	t.arm(i)
}

// endOfData handles the peer's FIN: ours follows when the guest has acknowledged everything.
func (t *TCP) endOfData(i flow.Index) {
	c := &t.conns[i]
	c.set(rdHup)
	c.clear(readable)
	fin := c.sndMax
	if c.has(finSent) {
		fin--
	}
	if c.sndUna != fin {
		return
	}
	if !t.sendControl(i, wire.FIN|wire.ACK, fin) {
		t.linkFull(i)
		return
	}
	c.set(finSent)
	c.sndNxt, c.sndMax = fin+1, fin+1
	t.await(i, t.rto(c))
}
