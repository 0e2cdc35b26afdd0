// SPDX-License-Identifier: Apache-2.0

package udp

import (
	"passt/dataplane/flow"
	"passt/dataplane/wire"
	"passt/internal/sys"
)

// maxTries bounds how often a send is repeated after an error that belonged to an earlier datagram.
const maxTries = 3

// send sends one datagram, or datagrams of gso bytes that lie one behind another, on a side's connected socket.
func (u *UDP) send(i flow.Index, side int, b []byte, gso uint16, ttl uint8) {
	u.setTTL(i, side, ttl)
	s := &u.st[i]
	if gso == 0 || len(b) <= int(gso) {
		u.sendOne(i, side, b)
		return
	}
	most := min(maxSegments, maxPayload/int(gso)) * int(gso)
	for len(b) > 0 {
		n := min(len(b), most)
		if n <= int(gso) || gso > s.segMax[side] || !u.sendMany(i, side, b[:n], int(gso)) {
			for at := 0; at < n; at += int(gso) {
				u.sendOne(i, side, b[at:min(at+int(gso), n)])
			}
		}
		b = b[n:]
	}
}

// sendMany sends with UDP_SEGMENT; false when the datagrams must leave one by one.
func (u *UDP) sendMany(i flow.Index, side int, b []byte, gso int) bool {
	if !u.setSegment(i, side, gso) {
		return false
	}
	for range maxTries {
		_, e := sys.Send(u.env.Table.Rows[i].FD[side], b, 0)
		switch {
		case e == 0:
			return true
		case e == sys.EAGAIN || e == sys.ENOBUFS:
		case u.pending(i, side, e):
			continue
		case refusesSegments(e):
			u.st[i].segMax[side] = uint16(gso - 1)
			return false
		}
		break
	}
	u.env.Drops[wire.DropHostError] += uint64((len(b) + gso - 1) / gso)
	return true
}

// sendOne sends one datagram. An error that an earlier datagram left on the socket costs none: it is taken off and
// the send repeated.
func (u *UDP) sendOne(i flow.Index, side int, b []byte) {
	s := &u.st[i]
	if s.seg[side] != 0 && len(b) > int(s.seg[side]) {
		u.setSegment(i, side, 0)
	}
	var e sys.Errno
	for range maxTries {
		_, e = sys.Send(u.env.Table.Rows[i].FD[side], b, 0)
		switch {
		case e == 0:
			return
		case e == sys.EAGAIN || e == sys.ENOBUFS:
		case refusesSegments(e) && s.seg[side] != 0:
			// A path that got narrower refuses the segment size even for one datagram.
			u.setSegment(i, side, 0)
			u.pending(i, side, e)
			continue
		case u.pending(i, side, e):
			continue
		}
		break
	}
	u.env.Drops.Add(wire.DropHostError)
	u.tell(i, side, e, b)
}

// refusesSegments tells whether an error may mean that UDP_SEGMENT does not work with this size on this path.
func refusesSegments(e sys.Errno) bool {
	return e == sys.EINVAL || e == sys.EMSGSIZE || e == sys.EIO
}

// pending takes errors off the socket after a failed send; true when there was one that another datagram caused, so that sending
// again makes sense.
func (u *UDP) pending(i flow.Index, side int, e sys.Errno) bool {
	remote := u.drainErrors(i, side)
	switch e {
	case sys.EINVAL, sys.EIO, sys.EPERM, sys.EACCES:
		return remote
	case sys.EMSGSIZE:
		return remote // a local refusal would come again
	}
	return true
}

// setTTL makes the socket send with the guest's TTL; 0 is the kernel's default.
func (u *UDP) setTTL(i flow.Index, side int, ttl uint8) {
	s := &u.st[i]
	if s.ttl[side] == ttl {
		return
	}
	s.ttl[side] = ttl
	r := &u.env.Table.Rows[i]
	ep := &r.Side[side].Ep
	v := int(ttl)
	if v == 0 {
		v = -1
	}
	var o sys.Option
	switch four, group := ep.Is4(), ep.IsMulticast(); {
	case four && group:
		o = sys.OptMcastTTL4
	case four:
		o = sys.OptTTL4
	case group:
		o = sys.OptMcastTTL6
	default:
		o = sys.OptTTL6
	}
	// A refusal leaves the default in force: the datagram still goes out.
	_ = o.Set(r.FD[side], v)
}

// setSegment sets UDP_SEGMENT; false when the kernel has none, remembered for the flow.
func (u *UDP) setSegment(i flow.Index, side, size int) bool {
	s := &u.st[i]
	if int(s.seg[side]) == size {
		return true
	}
	if e := sys.OptUDPSegment.Set(u.env.Table.Rows[i].FD[side], size); e != 0 {
		s.segMax[side] = 0
		return false
	}
	s.seg[side] = uint16(size)
	return true
}
