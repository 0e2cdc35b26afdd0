// SPDX-License-Identifier: Apache-2.0

package udp

import (
	"encoding/binary"

	"passt/dataplane/link"
	"passt/dataplane/wire"
	"passt/internal/sys"
)

// path is one direction towards the guest: addresses and ports of the frames.
type path struct {
	src, dst         wire.Addr
	srcPort, dstPort uint16
	mac              wire.MAC
}

// headLen is the length of the headers of a frame.
func (a *path) headLen() int { return wire.EthSize + wire.IPHeaderLen(&a.src) + wire.UDPSize }

// fits tells whether datagrams of size bytes are within the guest's MTU.
func (u *UDP) fits(a *path, size int) bool {
	return size+a.headLen()-wire.EthSize <= u.env.PathMTU()
}

// toGuest sends a datagram, or an aggregate of datagrams of gro bytes, to the guest; b is copied.
func (u *UDP) toGuest(a *path, b []byte, gro int) {
	if u.env.Link == nil {
		u.env.Drops.Add(wire.DropLinkFull)
		return
	}
	if gro <= 0 || len(b) <= gro {
		u.frame(a, b, 0)
		return
	}
	most := 1
	if u.env.Link.Features().USO && u.fits(a, gro) {
		most = max(1, min(maxSegments, maxPayload/gro))
	}
	for len(b) > 0 {
		n := min(len(b), most*gro)
		size := gro
		if n <= gro {
			size = 0
		}
		u.frame(a, b[:n], size)
		b = b[n:]
	}
}

// frame sends one frame; gso > 0: with datagrams of that size. A datagram beyond the MTU goes out whole where the guest's stack takes
// large frames, else in fragments.
func (u *UDP) frame(a *path, b []byte, gso int) {
	total := a.headLen() - wire.EthSize + len(b)
	if gso == 0 && total > u.env.PathMTU() && (total > 65535 || !u.env.Link.Features().TSO) {
		u.fragments(a, b)
		return
	}
	segs := u.env.Link.Reserve(a.headLen(), len(b), 1)
	if len(segs) == 0 {
		u.env.Drops.Add(wire.DropLinkFull)
		return
	}
	u.fill(&segs[0], b)
	u.head(a, &segs[0], b, gso)
	u.sendSegs(segs)
}

// fill copies a payload into a segment.
func (u *UDP) fill(g *link.Seg, b []byte) {
	if g.Buf != nil {
		g.Len = copy(g.Buf, b)
	} else {
		g.Len = sys.CopyToVec(g.Vec, b)
	}
}

// sendSegs hands segments to the link; what it does not take is lost and counted.
func (u *UDP) sendSegs(segs []link.Seg) {
	if n, _ := u.env.Link.Send(segs); n < len(segs) {
		u.env.Drops[wire.DropLinkFull] += uint64(len(segs) - n)
	}
}

// head writes all headers of a frame whose payload is b, g.Len bytes.
//
//	in: gso, bytes of each datagram; 0: b is one
func (u *UDP) head(a *path, g *link.Seg, b []byte, gso int) {
	n := wire.UDPSize + len(b)
	h := g.Hdr
	wire.PutEth(h, &u.env.Guest.MAC, &a.mac, wire.EtherTypeOf(&a.src))
	ip := wire.PutIP(h[wire.EthSize:], &a.src, &a.dst, wire.ProtoUDP, n, 0)
	at := wire.EthSize + ip
	l4 := h[at : at+wire.UDPSize]
	if !u.env.Link.Features().Csum {
		a.putUDP(l4, b)
		return
	}
	a.putPorts(l4, n)
	binary.BigEndian.PutUint16(l4[6:], wire.Fold(wire.PseudoSum(&a.src, &a.dst, wire.ProtoUDP, n)))
	g.Vnet = wire.Vnet{Flags: wire.VnetNeedsCsum, CsumStart: uint16(at), CsumOffset: 6}
	if gso > 0 {
		g.Vnet.GSOType, g.Vnet.GSOSize, g.Vnet.HdrLen = wire.GSOUDPL4, uint16(gso), uint16(len(h))
	}
}

func (a *path) putPorts(l4 []byte, n int) {
	be := binary.BigEndian
	be.PutUint16(l4[0:], a.srcPort)
	be.PutUint16(l4[2:], a.dstPort)
	be.PutUint16(l4[4:], uint16(n))
	be.PutUint16(l4[6:], 0)
}

// putUDP writes a UDP header with a complete checksum over payload b.
func (a *path) putUDP(l4, b []byte) {
	n := wire.UDPSize + len(b)
	a.putPorts(l4, n)
	sum := wire.Sum(l4[:wire.UDPSize], wire.PseudoSum(&a.src, &a.dst, wire.ProtoUDP, n))
	c := ^wire.Fold(wire.Sum(b, sum))
	if c == 0 {
		c = 0xffff // 0 means no checksum (RFC 768)
	}
	binary.BigEndian.PutUint16(l4[6:], c)
}

// fragments sends one datagram in pieces of the guest's MTU.
func (u *UDP) fragments(a *path, b []byte) {
	if len(b)+wire.UDPSize > 65535 || a.src.Is4() && len(b) > maxPayload {
		u.env.Drops.Add(wire.DropTooBig)
		return
	}
	// The UDP header is part of the first piece: it lies in front of a copy.
	whole := u.frag[:wire.UDPSize+len(b)]
	copy(whole[wire.UDPSize:], b)
	a.putUDP(whole, b)
	u.fragID++
	ipLen := wire.FragHeaderLen(&a.src)
	step := max(8, (u.env.PathMTU()-ipLen)&^7)
	f := wire.Fragment{Src: &a.src, Dst: &a.dst, Proto: wire.ProtoUDP, ID: u.fragID}
	for f.Off = 0; f.Off < len(whole); f.Off += step {
		f.Len = min(step, len(whole)-f.Off)
		f.More = f.Off+f.Len < len(whole)
		segs := u.env.Link.Reserve(wire.EthSize+ipLen, f.Len, 1)
		if len(segs) == 0 {
			u.env.Drops.Add(wire.DropLinkFull)
			return
		}
		u.fill(&segs[0], whole[f.Off:f.Off+f.Len])
		wire.PutEth(segs[0].Hdr, &u.env.Guest.MAC, &a.mac, wire.EtherTypeOf(&a.src))
		wire.PutFragIP(segs[0].Hdr[wire.EthSize:], &f)
		u.sendSegs(segs)
	}
}
