// SPDX-License-Identifier: Apache-2.0

package udp

import (
	"encoding/binary"

	"passt/dataplane/flow"
	"passt/dataplane/fwd"
	"passt/dataplane/wire"
	"passt/internal/sys"
)

// errBudget bounds the entries taken off one error queue in one go.
const errBudget = 64

// Layout of UDP.errBuf: what the queue gave, then the packet for the guest.
const (
	icmpAt     = 1536
	errBufSize = icmpAt + 1280
)

// drainErrors empties the error queue of a side's socket and tells the guest about each entry that reports an
// error. True when there was one that came from elsewhere, or a pending error without an entry.
func (u *UDP) drainErrors(i flow.Index, side int) bool {
	fd := u.env.Table.Rows[i].FD[side]
	remote := false
	for range errBudget {
		if _, e := u.errs.Recv(fd, 1, sys.MsgErrQueue); e != 0 {
			break
		}
		x, ok := sys.ParseExtErr(u.errs.Control(0))
		if !ok {
			continue
		}
		remote = remote || x.Origin != sys.ErrOriginLocal
		u.reportError(i, side, &x, u.errBuf[:min(u.errs.Len(0), icmpAt)])
	}
	return sys.SocketError(fd) != 0 || remote
}

// reportError sends one error to the guest, if it is one and the flow leads there.
func (u *UDP) reportError(i flow.Index, side int, x *sys.ExtErr, data []byte) {
	r := &u.env.Table.Rows[i]
	t := &r.Side[1-side]
	if t.Pif != fwd.PifTap || r.Side[side].Pif != fwd.PifHost {
		return
	}
	m := wire.ICMPError{Src: t.Ep, Dst: t.Our, Proto: wire.ProtoUDP, Type: x.Type, Code: x.Code, MTU: x.Info}
	four := t.Ep.Is4()
	switch x.Origin {
	case sys.ErrOriginLocal:
		if x.Errno != sys.EMSGSIZE {
			return
		}
		m.Type, m.Code = wire.ICMP6TooBig, 0
		if four {
			m.Type, m.Code = wire.ICMPUnreachable, wire.ICMPFragNeeded
		}
		m.From = u.env.Fwd.Of(&t.Ep).Our
	case sys.ErrOriginICMP, sys.ErrOriginICMP6:
		if (x.Origin == sys.ErrOriginICMP) != four || !wire.ICMPIsError(four, x.Type) {
			return
		}
		if !x.HasOffender || !u.offender(r, side, (*wire.Addr)(&x.Offender), &m.From) {
			u.env.Drops.Add(wire.DropAddress)
			return
		}
	default:
		return
	}
	if m.From.IsZero() {
		m.From = t.Our
	}
	limit := 8
	if !four {
		limit = wire.ICMPQuote6
	}
	m.Data = data[:min(len(data), limit)]
	u.icmpToGuest(r, t, &m)
}

// offender translates who reported an error to what the guest knows.
func (u *UDP) offender(r *flow.Row, side int, from, out *wire.Addr) bool {
	t := &r.Side[1-side]
	if *from == r.Side[side].Ep {
		*out = t.Our
		return true
	}
	a, ok := u.env.Fwd.Inbound(from, &t.Ep)
	*out = a
	return ok && a.Is4() == t.Ep.Is4()
}

// icmpToGuest completes the quoted UDP header and sends the error.
func (u *UDP) icmpToGuest(r *flow.Row, t *flow.Side, m *wire.ICMPError) {
	if u.env.Link == nil || m.From.Is4() != m.Src.Is4() {
		return
	}
	be := binary.BigEndian
	be.PutUint16(m.L4[0:], t.EpPort)
	be.PutUint16(m.L4[2:], t.OurPort)
	be.PutUint16(m.L4[4:], uint16(wire.UDPSize+len(m.Data)))
	n := m.Put(u.errBuf[icmpAt:])
	segs := u.env.Link.Reserve(wire.EthSize, n, 1)
	if len(segs) == 0 {
		u.env.Drops.Add(wire.DropLinkFull)
		return
	}
	wire.PutEth(segs[0].Hdr, &u.env.Guest.MAC, &r.MAC, wire.EtherTypeOf(&m.Src))
	u.fill(&segs[0], u.errBuf[icmpAt:icmpAt+n])
	u.sendSegs(segs)
}

// tell answers one datagram of the guest that the host would not take, as a router would: no silence where the cause is known.
//
//	in: side, the socket's; e, what the host said; b, the datagram
func (u *UDP) tell(i flow.Index, side int, e sys.Errno, b []byte) {
	r := &u.env.Table.Rows[i]
	t := &r.Side[1-side]
	if t.Pif != fwd.PifTap || t.Our.IsMulticast() || t.Our.IsBroadcast() {
		return
	}
	m := wire.ICMPError{From: u.env.Fwd.Of(&t.Ep).Our, Src: t.Ep, Dst: t.Our, Proto: wire.ProtoUDP, Data: b[:min(8, len(b))]}
	var ok bool
	if m.Type, m.Code, ok = sys.ICMPOf(t.Ep.Is4(), e); !ok {
		return
	}
	if m.From.IsZero() {
		m.From = t.Our
	}
	u.icmpToGuest(r, t, &m)
}
