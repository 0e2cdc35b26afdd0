// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"encoding/binary"

	"passt/dataplane/flow"
	"passt/dataplane/link"
	"passt/dataplane/wire"
)

var be = binary.BigEndian

// header writes Ethernet, IP and TCP header to b, which is exactly their length; TCP options are already in it.
//
//	in:  n, payload bytes; seq and flags as they go out
//	out: the virtio-net header of a frame whose checksum is left to the guest; complete finishes it where it is not
func (t *TCP) header(i flow.Index, b []byte, n int, seq Seq, flags uint8) wire.Vnet {
	e := t.env
	r := &e.Table.Rows[i]
	c := &t.conns[i]
	s := &r.Side[guestSide(r)]
	wire.PutEth(b, &e.Guest.MAC, &r.MAC, wire.EtherTypeOf(&s.Our))
	start := wire.EthSize + wire.IPHeaderLen(&s.Our)
	h := b[start:]
	l4 := len(h)
	wire.PutIP(b[wire.EthSize:], &s.Our, &s.Ep, wire.ProtoTCP, l4+n, c.label)
	be.PutUint16(h[0:], s.OurPort)
	be.PutUint16(h[2:], s.EpPort)
	be.PutUint32(h[4:], uint32(seq))
	ack := Seq(0)
	if flags&wire.ACK != 0 {
		ack = c.rcvNxt
		c.rcvAcked = ack
	}
	be.PutUint32(h[8:], uint32(ack))
	h[12], h[13] = byte(l4/4)<<4, flags
	win := uint16(0)
	if flags&wire.RST == 0 {
		win = t.window(c, flags)
	}
	be.PutUint16(h[14:], win)
	be.PutUint16(h[16:], wire.Fold(wire.PseudoSum(&s.Our, &s.Ep, wire.ProtoTCP, l4+n)))
	h[18], h[19] = 0, 0
	return wire.Vnet{Flags: wire.VnetNeedsCsum, CsumStart: uint16(start), CsumOffset: 16}
}

// complete finishes the checksum where the link takes no partial one.
func (t *TCP) complete(s *link.Seg) {
	if t.env.Link.Features().Csum {
		return
	}
	start := int(s.Vnet.CsumStart)
	sum := uint64(wire.Fold(wire.Sum(s.Hdr[start:], 0))) // headers are an even number of bytes
	left := s.Len
	odd := false
	for k := range s.Vec {
		b := s.Vec[k].Bytes()
		b = b[:min(len(b), left)]
		left -= len(b)
		part := uint64(wire.Fold(wire.Sum(b, 0)))
		if odd {
			part = part>>8 | part&0xff<<8 // RFC 1071 s.2 (B): bytes change places
		}
		sum += part
		odd = odd != (len(b)&1 != 0)
	}
	be.PutUint16(s.Hdr[start+16:], ^wire.Fold(sum))
	s.Vnet = wire.Vnet{}
}

// sendControl sends a segment without payload; false when the link is full.
func (t *TCP) sendControl(i flow.Index, flags uint8, seq Seq) bool {
	e := t.env
	if e.Link == nil {
		return false
	}
	c := &t.conns[i]
	var opts [8]byte
	o := opts[:0]
	if flags&wire.SYN != 0 {
		x := wire.TCPOptions{MSS: c.ownMSS, Shift: ourShift, HasShift: c.state == StateSynSent || c.has(scaled)}
		o = opts[:wire.PutTCPOptions(opts[:], &x)]
	}
	r := &e.Table.Rows[i]
	n := wire.EthSize + wire.IPHeaderLen(&r.Side[guestSide(r)].Our) + wire.TCPSize
	segs := e.Link.Reserve(n+len(o), 0, 1)
	if len(segs) == 0 {
		e.Drops.Add(wire.DropLinkFull)
		return false
	}
	s := &segs[0]
	copy(s.Hdr[n:], o)
	s.Len = 0
	s.Vnet = t.header(i, s.Hdr, 0, seq, flags)
	t.complete(s)
	if k, _ := e.Link.Send(segs[:1]); k == 0 {
		e.Drops.Add(wire.DropLinkFull)
		if flags&wire.ACK != 0 {
			c.set(ackNow) // header has noted it as told
		}
		return false
	}
	if flags&wire.ACK != 0 {
		c.clear(ackNow | ackDue)
	}
	return true
}

// ourMSS is what we take in one segment: the link's MTU, in whole pages where it is large (they copy best; spec tcp 6).
func (t *TCP) ourMSS(a *wire.Addr) int {
	mss := t.env.PathMTU() - wire.TCPSize - wire.IPHeaderLen(a)
	if mss > 4096 {
		mss &^= 4095
	}
	return max(mss, minMSS)
}

// sendReset resets the guest's side.
func (t *TCP) sendReset(i flow.Index) {
	c := &t.conns[i]
	switch c.state {
	case StateConnecting:
		// No SYN of ours was sent: sequence 0, acknowledging the guest's (RFC 9293 s.3.10.7.1).
		t.sendControl(i, wire.RST|wire.ACK, 0)
	case StateSynSent:
		t.sendControl(i, wire.RST, c.sndNxt) // nothing of the guest's to acknowledge
	default:
		t.sendControl(i, wire.RST|wire.ACK, c.sndNxt)
	}
}

// resetUnknown answers a segment of no connection (RFC 9293 s.3.10.7.1).
func (t *TCP) resetUnknown(p *wire.Packet, seg wire.TCP) {
	e := t.env
	if seg.Flags()&wire.RST != 0 || e.Link == nil || !p.Src.IsUnicast() || !p.Dst.IsUnicast() {
		e.Drops.Add(wire.DropNoFlow)
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
	label := uint32(0)
	if p.EtherType == wire.EtherIP6 {
		label = be.Uint32(p.Eth[wire.EthSize:]) // PutIP takes 20 bits
	}
	wire.PutIP(b[wire.EthSize:], &p.Dst, &p.Src, wire.ProtoTCP, wire.TCPSize, label)
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
