// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"encoding/binary"

	"passt/dataplane/flow"
	"passt/dataplane/link"
	"passt/dataplane/wire"
)

var be = binary.BigEndian

// header writes Ethernet, IP and TCP headers to b, whose length is exactly theirs plus that of the options.
//
//	in:  n, payload bytes; seq and flags as they go out; opts, options already padded
//	out: the virtio-net header; with offload the checksum is left to the guest, else b lacks only the payload's sum
func (t *TCP) header(i flow.Index, b []byte, n int, seq uint32, flags uint8, opts []byte) wire.Vnet {
	e := t.env
	r := &e.Table.Rows[i]
	c := &t.conns[i]
	s := &r.Side[guestSide(r)]
	wire.PutEth(b, &e.Guest.MAC, &r.MAC, wire.EtherTypeOf(&s.Our))
	l4 := wire.TCPSize + len(opts)
	ip := wire.PutIP(b[wire.EthSize:], &s.Our, &s.Ep, wire.ProtoTCP, l4+n, c.label)
	h := b[wire.EthSize+ip:]
	be.PutUint16(h[0:], s.OurPort)
	be.PutUint16(h[2:], s.EpPort)
	be.PutUint32(h[4:], seq)
	ack := uint32(0)
	if flags&wire.ACK != 0 {
		ack = c.rcvNxt
		c.rcvAcked = c.rcvNxt
	}
	be.PutUint32(h[8:], ack)
	h[12], h[13] = byte(l4/4)<<4, flags
	be.PutUint16(h[14:], t.window(c, flags))
	h[16], h[17], h[18], h[19] = 0, 0, 0, 0
	copy(h[wire.TCPSize:], opts)
	start := wire.EthSize + ip
	v := wire.Vnet{Flags: wire.VnetNeedsCsum, CsumStart: uint16(start), CsumOffset: 16}
	be.PutUint16(h[16:], wire.Fold(wire.PseudoSum(&s.Our, &s.Ep, wire.ProtoTCP, l4+n)))
	return v
}

// complete finishes the checksum where the link takes no partial one.
func (t *TCP) complete(s *link.Seg) {
	if t.env.Link.Features().Csum {
		return
	}
	start := int(s.Vnet.CsumStart)
	sum := wire.Sum(s.Hdr[start:], 0) // headers are an even number of bytes
	if s.Buf != nil {
		sum = wire.Sum(s.Buf[:s.Len], sum)
	}
	be.PutUint16(s.Hdr[start+16:], ^wire.Fold(sum))
	s.Vnet = wire.Vnet{}
}

// window gives the window field and moves the promised right edge: never back.
func (t *TCP) window(c *conn, flags uint8) uint16 {
	w := uint32(0)
	if c.rcvCap > c.pend.bytes {
		w = c.rcvCap - c.pend.bytes
	}
	if flags&wire.SYN != 0 || !c.has(scaled) {
		w = min(w, 65535)
		if edge := c.rcvNxt + w; less(c.rcvEdge, edge) {
			c.rcvEdge = edge
		}
		return uint16(min(c.rcvEdge-c.rcvNxt, 65535))
	}
	w &^= 1<<ourShift - 1
	if edge := c.rcvNxt + w; less(c.rcvEdge, edge) {
		c.rcvEdge = edge
	}
	return uint16((c.rcvEdge - c.rcvNxt) >> ourShift)
}

// opens tells whether the window has opened enough to be worth a segment of its own (RFC 9293 s.3.8.6.2.2).
func (t *TCP) opens(c *conn) bool {
	if c.pend.bytes >= c.rcvCap {
		return false
	}
	gain := int32(c.rcvNxt + c.rcvCap - c.pend.bytes - c.rcvEdge)
	left := c.rcvEdge - c.rcvNxt
	limit := int32(c.rcvCap / 4)
	if left < uint32(c.mss) {
		limit = min(limit, int32(2*c.mss))
	}
	return gain >= limit && gain > 0
}

// sendControl sends a segment without payload.
func (t *TCP) sendControl(i flow.Index, flags uint8, seq uint32) bool {
	e := t.env
	if e.Link == nil {
		return false
	}
	c := &t.conns[i]
	var opts [8]byte
	o := opts[:0]
	if flags&wire.SYN != 0 {
		o = t.synOptions(i, &opts)
	}
	r := &e.Table.Rows[i]
	n := wire.EthSize + wire.IPHeaderLen(&r.Side[guestSide(r)].Our) + wire.TCPSize + len(o)
	segs := e.Link.Reserve(n, 0, 1)
	if len(segs) == 0 {
		e.Drops.Add(wire.DropLinkFull)
		return false
	}
	segs[0].Vnet = t.header(i, segs[0].Hdr, 0, seq, flags, o)
	segs[0].Len = 0
	t.complete(&segs[0])
	c.flags &^= ackNow | ackDue
	if k, _ := e.Link.Send(segs[:1]); k == 0 {
		e.Drops.Add(wire.DropLinkFull)
		return false
	}
	return true
}

// synOptions writes MSS and, where the guest scales too, window scale (RFC 7323): 8 bytes or 4.
func (t *TCP) synOptions(i flow.Index, b *[8]byte) []byte {
	c := &t.conns[i]
	mss := t.ourMSS(i)
	b[0], b[1] = 2, 4
	be.PutUint16(b[2:], uint16(mss))
	if c.state != StateSynSent && !c.has(scaled) {
		return b[:4]
	}
	b[4], b[5], b[6], b[7] = 1, 3, 3, ourShift
	return b[:8]
}

// ourMSS is what we can take in one segment: the link's MTU, whole pages where it is large (they copy best).
func (t *TCP) ourMSS(i flow.Index) int {
	r := &t.env.Table.Rows[i]
	mss := t.env.PathMTU() - wire.TCPSize - wire.IPHeaderLen(&r.Side[guestSide(r)].Our)
	if mss > 4096 {
		mss &^= 4095
	}
	return mss
}

// sendReset resets the guest's side.
func (t *TCP) sendReset(i flow.Index) {
	c := &t.conns[i]
	if c.state == StateConnecting {
		// No SYN of ours was sent: sequence 0, acknowledging the guest's (RFC 9293 s.3.10.7.1).
		t.sendControl(i, wire.RST|wire.ACK, 0)
		return
	}
	t.sendControl(i, wire.RST|wire.ACK, c.sndNxt)
}

// resetUnknown answers a segment of no connection (RFC 9293 s.3.10.7.1).
func (t *TCP) resetUnknown(p *wire.Packet, seg wire.TCP) {
	e := t.env
	if seg.Flags()&wire.RST != 0 || e.Link == nil {
		return
	}
	ip := wire.IPHeaderLen(&p.Dst)
	segs := e.Link.Reserve(wire.EthSize+ip+wire.TCPSize, 0, 1)
	if len(segs) == 0 {
		return
	}
	b := segs[0].Hdr
	mac := p.SrcMAC()
	wire.PutEth(b, &mac, &e.Cfg.OurMAC, wire.EtherTypeOf(&p.Dst))
	wire.PutIP(b[wire.EthSize:], &p.Dst, &p.Src, wire.ProtoTCP, wire.TCPSize, 0)
	h := b[wire.EthSize+ip:]
	clear(h)
	be.PutUint16(h[0:], p.DstPort)
	be.PutUint16(h[2:], p.SrcPort)
	h[12] = 5 << 4
	if seg.Flags()&wire.ACK != 0 {
		be.PutUint32(h[4:], seg.Ack())
		h[13] = wire.RST
	} else {
		be.PutUint32(h[8:], seg.Seq()+segLen(seg))
		h[13] = wire.RST | wire.ACK
	}
	be.PutUint16(h[16:], wire.L4Checksum(&p.Dst, &p.Src, wire.ProtoTCP, h))
	segs[0].Len = 0
	_, _ = e.Link.Send(segs[:1]) // lost: the guest asks again
}

// segLen is the sequence space that a segment takes.
func segLen(s wire.TCP) uint32 {
	n := uint32(len(s.Payload()))
	if s.Flags()&wire.SYN != 0 {
		n++
	}
	if s.Flags()&wire.FIN != 0 {
		n++
	}
	return n
}
