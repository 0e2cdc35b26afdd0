// SPDX-License-Identifier: Apache-2.0

package tcp

import "passt/dataplane/wire"

// The window towards the guest is that of an ordinary receiver: rcvCap bytes less what is pending. It invites
// only what socket and pool take, its right edge never moves back, and it opens in steps worth a segment.

// room gives how far beyond rcvNxt the right edge may lie, bytes.
func (t *TCP) room(c *conn) uint32 {
	w := c.rcvCap
	if t.pool.low() {
		if c.pend.bytes > 0 {
			return 0
		}
		w = lowCap
	}
	if !c.has(scaled) {
		w = min(w, 65535)
	}
	if c.pend.bytes >= w {
		return 0
	}
	return w - c.pend.bytes
}

// worth is the least useful movement of the right edge (RFC 9293 s.3.8.6.2.2).
func (t *TCP) worth(c *conn) uint32 {
	w := c.rcvCap
	if t.pool.low() {
		w = lowCap // else a large MSS were never reached
	}
	return min(uint32(c.ownMSS), w/2)
}

// window gives the window field and moves the right edge that it promises.
func (t *TCP) window(c *conn, flags uint8) uint16 {
	if flags&wire.SYN != 0 {
		c.rcvEdge = c.rcvNxt.Add(65535) // never scaled (RFC 7323 s.2.2); baseCap is more
		return 65535
	}
	left := c.rcvEdge.From(c.rcvNxt)
	if room := t.room(c); room > left && (room-left >= t.worth(c) || left == 0 && c.pend.bytes == 0) {
		if c.has(scaled) {
			room &^= 1<<ourShift - 1
		}
		if room > left {
			left = room
			c.rcvEdge = c.rcvNxt.Add(int(room))
		}
	}
	if c.has(scaled) {
		return uint16(min(left>>ourShift, 65535))
	}
	return uint16(min(left, 65535))
}

// opens tells whether the window may open so far that it is worth a segment of its own.
func (t *TCP) opens(c *conn, room uint32) bool {
	left := c.rcvEdge.From(c.rcvNxt)
	if room <= left {
		return false
	}
	gain := room - left
	if left == 0 && c.pend.bytes == 0 {
		return true
	}
	return gain >= max(2*uint32(c.ownMSS), c.rcvCap/4) || left < uint32(c.ownMSS) && gain >= t.worth(c)
}

// grow lets a bulk connection have more under way, as long as the pool can back it; the socket's own
// buffer has to keep up for more than a quarter of the limit.
func (t *TCP) grow(c *conn, n uint32) {
	c.sinceGrow += n
	if c.sinceGrow < c.rcvCap || c.rcvCap >= maxCap || !c.has(scaled) || c.pend.bytes > 0 && c.rcvCap >= maxCap/4 {
		return
	}
	if t.pool.low() || t.credit+int(c.rcvCap) > maxCredit {
		return
	}
	t.setCap(c, 2*c.rcvCap)
	c.sinceGrow = 0
}

// shrink takes back what an idle connection no longer needs.
func (t *TCP) shrink(c *conn) {
	if c.rcvCap > baseCap && c.pend.bytes == 0 {
		t.setCap(c, baseCap)
		c.sinceGrow = 0
	}
}
