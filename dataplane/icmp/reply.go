// SPDX-License-Identifier: Apache-2.0

package icmp

import (
	"encoding/binary"

	"passt/dataplane/flow"
	"passt/dataplane/link"
	"passt/dataplane/wire"
	"passt/internal/sys"
)

// Event handles readiness of a ping socket, edge-triggered.
func (p *ICMP) Event(i flow.Index, side int, events uint32) {
	r := &p.env.Table.Rows[i]
	if r.Kind != flow.KindPing || side != sockSide || r.FD[sockSide] == sys.NoFD {
		return
	}
	if events&sys.PollErr != 0 {
		p.drainErrors(i)
	}
	if p.env.Link == nil {
		return
	}
	for range replyBudget {
		p.msgs.Set(0, p.buf, nil)
		_, e := p.msgs.Recv(r.FD[sockSide], 1, 0)
		if e == sys.EAGAIN {
			return
		}
		if e != 0 {
			p.drainErrors(i)
			continue
		}
		if d := p.reply(i, p.buf[:min(p.msgs.Len(0), len(p.buf))], p.msgs.Truncated(0)); d != wire.DropNone {
			p.env.Drops.Add(d)
		}
	}
	p.env.Again(i)
}

// reply gives one echo reply to the guest, with the guest's identifier.
func (p *ICMP) reply(i flow.Index, m []byte, truncated bool) wire.Drop {
	r, s := &p.env.Table.Rows[i], &p.st[i]
	t := &r.Side[0]
	be := binary.BigEndian
	_, want := echoTypes(t.Ep.Is4())
	ipLen := wire.IPHeaderLen(&t.Ep)
	switch {
	case len(m) < wire.ICMPSize || m[0] != want:
		return wire.DropICMP
	case truncated || ipLen+len(m) > 65535:
		return wire.DropTooBig
	}
	seq := be.Uint16(m[6:])
	// On loopback the host's kernel delivers each reply twice. The second copy follows at once, with no request in between; a
	// request that is repeated with the same number gets its own reply.
	if p.env.Cfg.Pasta && s.replied && seq == s.seq && p.env.NowMs-s.replyMs <= duplicateMs {
		return wire.DropDuplicate
	}
	s.replied, s.seq, s.replyMs = true, seq, p.env.NowMs
	be.PutUint16(m[4:], t.EpPort)
	wire.PutICMPChecksum(m, &t.Our, &t.Ep)
	if ipLen+len(m) > p.env.PathMTU() && !p.env.Link.Features().TSO {
		return p.fragments(r, m)
	}
	segs := p.env.Link.Reserve(wire.EthSize+ipLen, len(m), 1)
	if len(segs) == 0 {
		return wire.DropLinkFull
	}
	wire.PutIP(segs[0].Hdr[wire.EthSize:], &t.Our, &t.Ep, r.Proto, len(m), 0)
	return p.finish(r, segs, m)
}

// finish puts Ethernet header and payload into a reserved segment and sends it.
func (p *ICMP) finish(r *flow.Row, segs []link.Seg, b []byte) wire.Drop {
	g := &segs[0]
	wire.PutEth(g.Hdr, &p.env.Guest.MAC, &r.MAC, wire.EtherTypeOf(&r.Side[0].Ep))
	if g.Buf != nil {
		g.Len = copy(g.Buf, b)
	} else {
		g.Len = sys.CopyToVec(g.Vec, b)
	}
	if n, _ := p.env.Link.Send(segs); n == 0 {
		return wire.DropLinkFull
	}
	return wire.DropNone
}

// fragments sends a reply in pieces of the guest's MTU.
func (p *ICMP) fragments(r *flow.Row, m []byte) wire.Drop {
	t := &r.Side[0]
	p.fragID++
	ipLen := wire.FragHeaderLen(&t.Ep)
	step := max(8, (p.env.PathMTU()-ipLen)&^7)
	f := wire.Fragment{Src: &t.Our, Dst: &t.Ep, Proto: r.Proto, ID: p.fragID}
	for ; f.Off < len(m); f.Off += step {
		f.Len = min(step, len(m)-f.Off)
		f.More = f.Off+f.Len < len(m)
		segs := p.env.Link.Reserve(wire.EthSize+ipLen, f.Len, 1)
		if len(segs) == 0 {
			return wire.DropLinkFull
		}
		wire.PutFragIP(segs[0].Hdr[wire.EthSize:], &f)
		if d := p.finish(r, segs, m[f.Off:f.Off+f.Len]); d != wire.DropNone {
			return d
		}
	}
	return wire.DropNone
}

// drainErrors empties the socket's error queue and passes each error on, with the guest's own identifier in the quoted
// header. True when there was an error that came from elsewhere.
func (p *ICMP) drainErrors(i flow.Index) bool {
	fd := p.env.Table.Rows[i].FD[sockSide]
	remote := false
	for range errBudget {
		p.msgs.Set(0, p.buf[:errMost], nil)
		if _, e := p.msgs.Recv(fd, 1, sys.MsgErrQueue); e != 0 {
			break
		}
		x, ok := sys.ParseExtErr(p.msgs.Control(0))
		if !ok {
			continue
		}
		remote = remote || x.Origin != sys.ErrOriginLocal
		p.reportError(i, &x, p.buf[:min(p.msgs.Len(0), errMost)])
	}
	return sys.SocketError(fd) != 0 || remote
}

// errMost bounds what is kept of an original message, bytes.
const errMost = 1280

// reportError gives one entry of the error queue to the guest.
//
//	in: m, the original ICMP message as the host sent it, perhaps cut
func (p *ICMP) reportError(i flow.Index, x *sys.ExtErr, m []byte) {
	r := &p.env.Table.Rows[i]
	t := &r.Side[0]
	four := t.Ep.Is4()
	e := wire.ICMPError{Type: x.Type, Code: x.Code, MTU: x.Info}
	switch x.Origin {
	case sys.ErrOriginLocal:
		if x.Errno != sys.EMSGSIZE {
			return
		}
		e.Type, e.Code = wire.ICMP6TooBig, 0
		if four {
			e.Type, e.Code = wire.ICMPUnreachable, wire.ICMPFragNeeded
		}
		e.From = p.env.Fwd.Of(&t.Ep).Our
		m = nil // a local error quotes what is behind the IP header, or nothing: not relied on
	case sys.ErrOriginICMP, sys.ErrOriginICMP6:
		if (x.Origin == sys.ErrOriginICMP) != four || !wire.ICMPIsError(four, x.Type) || !x.HasOffender {
			return
		}
		from := wire.Addr(x.Offender)
		if from == r.Side[sockSide].Ep {
			e.From = t.Our
		} else if a, ok := p.env.Fwd.Inbound(&from, &t.Ep); ok {
			e.From = a
		} else {
			p.env.Drops.Add(wire.DropAddress)
			return
		}
	default:
		return
	}
	p.errorToGuest(r, &e, m)
}

// errorToGuest completes an error about the echo request m (8 bytes or more count, else the identifier alone is
// told) and sends it.
func (p *ICMP) errorToGuest(r *flow.Row, e *wire.ICMPError, m []byte) {
	t := &r.Side[0]
	if e.From.IsZero() {
		e.From = t.Our
	}
	if p.env.Link == nil || e.From.Is4() != t.Ep.Is4() {
		return
	}
	e.Src, e.Dst, e.Proto = t.Ep, t.Our, r.Proto
	request, _ := echoTypes(t.Ep.Is4())
	e.L4 = [8]byte{request}
	if len(m) >= wire.ICMPSize && m[0] == request {
		copy(e.L4[:], m)
		e.Data = m[wire.ICMPSize:]
	}
	be := binary.BigEndian
	// The identifier changed from the kernel's to the guest's: so does the checksum (RFC 1624 eqn 3).
	old := be.Uint16(e.L4[4:])
	sum := uint64(^be.Uint16(e.L4[2:])) + uint64(^old) + uint64(t.EpPort)
	be.PutUint16(e.L4[2:], ^wire.Fold(sum))
	be.PutUint16(e.L4[4:], t.EpPort)
	n := e.Put(p.out)
	segs := p.env.Link.Reserve(wire.EthSize, n, 1)
	if len(segs) == 0 {
		p.env.Drops.Add(wire.DropLinkFull)
		return
	}
	if d := p.finish(r, segs, p.out[:n]); d != wire.DropNone {
		p.env.Drops.Add(d)
	}
}
