// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"passt/dataplane/flow"
	"passt/dataplane/link"
	"passt/dataplane/wire"
	"passt/internal/sys"
)

// acked handles acknowledgement and window of a segment; false when the flow is gone.
func (t *TCP) acked(i flow.Index, seg wire.TCP, keepAlive bool) bool {
	c := &t.conns[i]
	ack := seg.Ack()
	win := uint32(seg.Window()) << c.wsGuest
	pure := len(seg.Payload()) == 0 && seg.Flags()&wire.FIN == 0 && !keepAlive
	switch {
	case less(c.sndMax, ack):
		t.env.Drops.Add(wire.DropTCPAck)
		t.later(i, true)
		return true
	case less(ack, c.sndUna):
		return true // old: its window is old too
	case ack != c.sndUna:
		if !t.advance(i, ack) {
			return false
		}
	case pure && ack == c.lastWinAck && seg.Window() == c.lastWin && less(c.sndUna, c.sndNxt) && !c.has(fastDone) && win > 0:
		// The same acknowledgement and window again while data is out: the guest misses something.
		c.flags |= fastDone
		c.sndNxt = c.sndUna
	}
	c.lastWinAck, c.lastWin = ack, seg.Window()
	t.setWindow(i, win)
	return true
}

// setWindow notes the guest's window. At zero nothing outstanding will be kept: it is sent again when the window opens.
func (t *TCP) setWindow(i flow.Index, win uint32) {
	c := &t.conns[i]
	switch {
	case win == 0 && !c.has(zeroWindow):
		c.flags |= zeroWindow
		c.sndNxt = c.sndUna
		c.tries = 0
		c.due = t.env.NowMs + probeMs
		t.arm(i)
	case win > 0 && c.has(zeroWindow):
		c.flags &^= zeroWindow
		c.tries, c.due = 0, 0
	}
	if c.has(zeroWindow) {
		c.progress = t.env.NowMs // the guest lives
	}
	c.sndWnd = win
}

// advance takes an acknowledgement of new data; false when the flow is gone.
func (t *TCP) advance(i flow.Index, ack uint32) bool {
	c := &t.conns[i]
	n := ack - c.sndUna
	fin := c.has(finSent) && ack == c.sndMax
	if fin {
		n--
	}
	if n > 0 {
		k, e := sys.Discard(t.fd(i), int(n))
		if e != 0 || k != int(n) {
			t.abort(i) // the queue does not hold what we sent from it
			return false
		}
		if c.peekAt >= n {
			c.peekAt -= n
		} else {
			c.peekAt = 0
		}
	}
	c.sndUna = ack
	if less(c.sndNxt, ack) {
		c.sndNxt = ack
	}
	c.progress = t.env.NowMs
	c.tries = 0
	c.flags &^= fastDone
	if c.has(timing) && leq(c.rttSeq, ack) {
		c.flags &^= timing
		us := uint32(min((t.env.NowNs-c.rttStart)/1000, 10_000_000))
		if c.srtt == 0 {
			c.srtt = max(us, 1)
		} else {
			c.srtt += (us - c.srtt) / 8
		}
	}
	if c.sndUna == c.sndMax {
		c.due = 0
		if t.maybeDone(i) {
			return false
		}
		if c.has(rdHup) {
			c.flags |= readable // the FIN waited for this
		}
	} else {
		c.due = t.env.NowMs + t.rto(c)
		t.arm(i)
	}
	return true
}

// rto is the retransmission time-out, ms, with the back-off of the tries so far.
func (t *TCP) rto(c *conn) int64 {
	base := int64(firstRTOMs)
	if c.srtt != 0 {
		base = max(minRTOMs, int64(c.srtt)*4/1000)
	}
	d := base << min(c.tries, 16)
	if m := t.env.Cfg.RTOMaxMs; m > 0 {
		d = min(d, m)
	}
	return d
}

// toGuest sends what the socket holds, as far as the guest's window goes.
func (t *TCP) toGuest(i flow.Index) {
	c := &t.conns[i]
	e := t.env
	if e.Link == nil || c.has(zeroWindow) {
		return
	}
	for range turnBudget {
		behind := c.sndNxt - c.sndUna
		if c.has(finSent) && c.sndNxt == c.sndMax && c.sndMax != c.sndUna {
			return
		}
		if !c.has(readable) && c.sndNxt == c.sndMax {
			return
		}
		if behind >= c.sndWnd {
			return // an acknowledgement or the timer goes on
		}
		room := int(c.sndWnd - behind)
		if room < int(c.mss) && behind > 0 {
			return // silly window: wait for more (RFC 9293 s.3.8.6.2.1)
		}
		n, segs, errno := t.peek(i, room)
		switch {
		case errno == sys.EAGAIN:
			c.flags &^= readable
			if c.sndNxt != c.sndMax && c.has(finSent) {
				t.sendFIN(i)
			}
			return
		case errno == sys.ENOBUFS:
			e.Again(i)
			return
		case errno != 0:
			t.abort(i)
			return
		case n == 0:
			t.endOfData(i)
			return
		}
		asked := 0
		for s := range segs {
			asked += len(segs[s].Buf)
		}
		if !t.send(i, segs, n) {
			return
		}
		if n < asked && !c.has(rdHup) && c.sndNxt == c.sndMax {
			c.flags &^= readable // a short read empties the queue (epoll(7)): what comes later is a new event
			return
		}
	}
	e.Again(i)
}

// peek reads from the socket beyond what is in flight straight into segments of the link.
func (t *TCP) peek(i flow.Index, room int) (int, []link.Seg, sys.Errno) {
	c := &t.conns[i]
	r := &t.env.Table.Rows[i]
	hdr := wire.EthSize + wire.IPHeaderLen(&r.Side[guestSide(r)].Our) + wire.TCPSize
	f := t.env.Link.Features()
	size, count := int(c.mss), 1
	if f.TSO {
		size = 65535 - hdr + wire.EthSize
		if size > int(c.mss) {
			size -= size % int(c.mss)
		}
		size = min(size, room)
	} else {
		count = max(1, min(64, room/size))
	}
	segs := t.env.Link.Reserve(hdr, min(size, room), count)
	if len(segs) == 0 {
		t.env.Drops.Add(wire.DropLinkFull)
		return 0, nil, sys.ENOBUFS
	}
	behind := c.sndNxt - c.sndUna
	if !t.noPeek && c.peekAt != behind {
		if e := sys.SetPeekOffset(t.fd(i), int(behind)); e != 0 {
			return 0, nil, e
		}
		c.peekAt = behind
	}
	if len(segs) == 1 && segs[0].Buf != nil && !t.noPeek {
		n, e := sys.Recv(t.fd(i), segs[0].Buf, sys.MsgPeek)
		if e == 0 {
			c.peekAt += uint32(n)
		}
		return n, segs, e
	}
	return t.peekVec(i, segs, int(behind))
}

// peekVec is the general form: several segments, or a kernel without SO_PEEK_OFF, where scratch covers what is in flight.
func (t *TCP) peekVec(i flow.Index, segs []link.Seg, behind int) (int, []link.Seg, sys.Errno) {
	k, skip := 0, 0
	if t.noPeek {
		if behind > maxPeekBehind {
			return 0, nil, sys.EMSGSIZE
		}
		for skip = behind; behind > 0; k++ {
			t.segs[k].Set(t.scratch[:min(behind, peekScratch)])
			behind -= min(behind, peekScratch)
		}
	}
	for s := range segs {
		for _, v := range segs[s].Vec {
			if k < len(t.segs) {
				t.segs[k] = v
				k++
			}
		}
	}
	n, e := sys.RecvVec(t.fd(i), t.segs[:k], sys.MsgPeek)
	if e != 0 {
		return 0, segs, e
	}
	if !t.noPeek {
		t.conns[i].peekAt += uint32(n)
		return n, segs, 0
	}
	switch {
	case n > skip:
		return n - skip, segs, 0
	case n == skip && skip > 0:
		// Nothing new; whether that is the end, the next event or acknowledgement tells.
		return 0, segs, sys.EAGAIN
	}
	return 0, segs, 0
}

// send writes headers for n peeked bytes and hands them to the link; false when the connection has to wait.
func (t *TCP) send(i flow.Index, segs []link.Seg, n int) bool {
	c := &t.conns[i]
	e := t.env
	full := 0
	k := 0
	v6 := !e.Table.Rows[i].Side[0].Our.Is4()
	for ; n > full && k < len(segs); k++ {
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
		s.Vnet = t.header(i, s.Hdr, s.Len, c.sndNxt+uint32(full), flags, nil)
		if s.Len > int(c.mss) {
			s.Vnet.GSOType, s.Vnet.GSOSize, s.Vnet.HdrLen = wire.GSOTCP4, c.mss, uint16(len(s.Hdr))
			if v6 {
				s.Vnet.GSOType = wire.GSOTCP6
			}
		} else {
			t.complete(s)
		}
		full += s.Len
	}
	took, _ := e.Link.Send(segs[:k])
	sent := 0
	for s := range took {
		sent += segs[s].Len
	}
	if sent > 0 {
		c.flags &^= ackDue | ackNow
		if !c.has(timing) && c.sndNxt == c.sndMax {
			c.flags |= timing
			c.rttSeq, c.rttStart = c.sndNxt+uint32(sent), e.NowNs
		}
		c.sndNxt += uint32(sent)
		if less(c.sndMax, c.sndNxt) {
			c.sndMax = c.sndNxt
		}
		if c.due == 0 {
			c.due = e.NowMs + t.rto(c)
			t.arm(i)
		}
	}
	if took < k {
		e.Drops.Add(wire.DropLinkFull)
		e.Again(i)
		return false
	}
	return true
}

// endOfData handles the peer's FIN: ours follows when the guest has acknowledged everything.
func (t *TCP) endOfData(i flow.Index) {
	c := &t.conns[i]
	c.flags |= hostEOF
	c.flags &^= readable
	if c.sndUna != c.sndNxt {
		c.flags |= rdHup
		return
	}
	t.sendFIN(i)
}

func (t *TCP) sendFIN(i flow.Index) {
	c := &t.conns[i]
	t.sendControl(i, wire.FIN|wire.ACK, c.sndNxt)
	c.flags |= finSent
	c.sndNxt++
	if less(c.sndMax, c.sndNxt) {
		c.sndMax = c.sndNxt
	}
	if c.due == 0 {
		c.due = t.env.NowMs + t.rto(c)
		t.arm(i)
	}
}
