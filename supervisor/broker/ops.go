// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"passt/dataplane/fwd"
	"passt/dataplane/wire"
	"passt/internal/sys"
	"passt/ipc"
)

// maxSegLimit is the largest TCP_MAXSEG that the kernel takes (MAX_TCP_WINDOW, tcp(7)); above it the path decides anyway.
const maxSegLimit = 32767

// tcp connects a guest's connection: the destination is translated here, so a loopback address
// can only be reached through the mapped ones.
func (b *Broker) tcp(q *ipc.Connect, r *ipc.Reply) (sys.FD, sys.Errno) {
	dst, ok := b.cfg.Outbound(fwd.ProtoTCP, &q.Dst, q.DstPort)
	if !ok || !dst.IsUnicast() || q.DstPort == 0 {
		return sys.NoFD, sys.EACCES
	}
	r.Target = dst
	fd, e := sys.Socket(family(&dst), sys.SockStream, 0)
	if e != 0 {
		return fd, e
	}
	if e := sys.OptNoDelay.Set(fd, 1); e != 0 {
		return fd, e
	}
	if q.MSS != 0 && q.MSS <= maxSegLimit {
		_ = sys.OptMaxSeg.Set(fd, int(q.MSS)) // the kernel takes 88..32767; outside of it its own choice stands
	}
	if e := b.outbound(fd, &dst); e != 0 {
		return fd, e
	}
	return fd, b.connectTCP(fd, &dst, q.DstPort, r)
}

// connectTCP starts the connection and, where the target answers at once (this host), says how it went.
func (b *Broker) connectTCP(fd sys.FD, dst *wire.Addr, port uint16, r *ipc.Reply) sys.Errno {
	sa := b.sockAddr(dst, port)
	e := sys.Connect(fd, &sa)
	if e != 0 && e != sys.EINPROGRESS {
		return e
	}
	state, se := sys.TCPState(fd)
	switch {
	case se != 0:
		return se
	case state == sys.TCPEstablished:
		r.Flags |= ipc.ReplyConnected
	case state == sys.TCPClose:
		if e := sys.SocketError(fd); e != 0 {
			return e
		}
		return sys.ECONNREFUSED
	}
	if dst.IsLoopback() || b.checkOwn(fd, dst) == 0 {
		r.Flags |= ipc.ReplyLocal
	}
	return 0
}

// udp makes the socket of a guest's flow: the guest's source port where it can be had, connected.
func (b *Broker) udp(q *ipc.Connect, r *ipc.Reply) (sys.FD, sys.Errno) {
	dst, ok := b.cfg.Outbound(fwd.ProtoUDP, &q.Dst, q.DstPort)
	if !ok || dst.IsUnspecified() || q.DstPort == 0 {
		return sys.NoFD, sys.EACCES
	}
	r.Target = dst
	fd, e := b.datagram(&dst, q.TTL)
	if e != 0 {
		return fd, e
	}
	if e := b.outboundIf(fd, &dst); e != 0 {
		return fd, e
	}
	src := b.cfg.Of(&dst).Outbound
	if dst.IsLoopback() {
		src = wire.Addr{}
	}
	if e := b.bindPort(fd, &src, &dst, q.SrcPort); e != 0 {
		return fd, e
	}
	return fd, b.connectUDP(fd, &dst, q.DstPort, r)
}

// udpReply makes the socket for answers to a host-side peer: only from a port that a UDP rule of this side listens on.
func (b *Broker) udpReply(q *ipc.Connect, r *ipc.Reply) (sys.FD, sys.Errno) {
	if !b.listensUDP(q) || !q.Src.IsUnicast() || !q.Dst.IsUnicast() || q.DstPort == 0 || q.Src.Is4() != q.Dst.Is4() {
		return sys.NoFD, sys.EACCES
	}
	r.Target = q.Dst
	fd, e := b.datagram(&q.Dst, 0)
	if e != 0 {
		return fd, e
	}
	if dev := &b.listen[q.Rule].If; *dev != (fwd.IfName{}) {
		// A rule of one device must not lead out of, or to loopback behind, another.
		if e := sys.BindToDevice(fd, (*[16]byte)(dev)); e != 0 {
			return fd, e
		}
	}
	sa := b.sockAddr(&q.Src, q.SrcPort)
	if e := sys.Bind(fd, &sa); e != 0 {
		return fd, e
	}
	return fd, b.connectUDP(fd, &q.Dst, q.DstPort, r)
}

// listensUDP tells whether the request's source is one that the named rule listens on.
func (b *Broker) listensUDP(q *ipc.Connect) bool {
	if int(q.Rule) >= len(b.listen) {
		return false
	}
	l := &b.listen[q.Rule]
	return l.Proto == fwd.ProtoUDP && l.Has(q.SrcPort) && b.cfg.UDP && b.cfg.Of(&q.Dst).On && (l.Addr.IsUnspecified() || l.Addr == q.Src)
}

// spliceTCP connects the second socket of the loopback path on this side.
func (b *Broker) spliceTCP(q *ipc.Connect, r *ipc.Reply) (sys.FD, sys.Errno) {
	if !b.spliceTarget(q, fwd.ProtoTCP) {
		return sys.NoFD, sys.EACCES
	}
	r.Target = q.Dst
	fd, e := sys.Socket(family(&q.Dst), sys.SockStream, 0)
	if e != 0 {
		return fd, e
	}
	if e := sys.OptNoDelay.Set(fd, 1); e != 0 {
		return fd, e
	}
	_ = sys.OptQuickAck.Set(fd, 1) // a hint only
	if e := b.connectTCP(fd, &q.Dst, q.DstPort, r); e != 0 {
		return fd, e
	}
	return fd, b.checkOwn(fd, &q.Dst)
}

// spliceUDP is the same for datagrams; the client's own loopback address and port are kept where they can be.
func (b *Broker) spliceUDP(q *ipc.Connect, r *ipc.Reply) (sys.FD, sys.Errno) {
	if !b.spliceTarget(q, fwd.ProtoUDP) {
		return sys.NoFD, sys.EACCES
	}
	r.Target = q.Dst
	fd, e := b.datagram(&q.Dst, 0)
	if e != 0 {
		return fd, e
	}
	src := q.Src
	if !src.IsLoopback() || !q.Dst.IsLoopback() || src.Is4() != q.Dst.Is4() {
		src = wire.Addr{}
	}
	if e := b.bindPort(fd, &src, &q.Dst, q.SrcPort); e != 0 {
		return fd, e
	}
	if e := b.connectUDP(fd, &q.Dst, q.DstPort, r); e != 0 {
		return fd, e
	}
	return fd, b.checkOwn(fd, &q.Dst)
}

// spliceTarget checks a target of the loopback path: a port that the rule leads to, and on the host side a loopback address.
// In the namespace other addresses are checked after the connect, by checkOwn.
func (b *Broker) spliceTarget(q *ipc.Connect, proto uint8) bool {
	if !b.cfg.Splice || int(q.Rule) >= len(b.target) || !q.Dst.IsUnicast() || !b.cfg.Of(&q.Dst).On {
		return false
	}
	rule := &b.target[q.Rule]
	if rule.Proto != proto || !rule.HasTarget(q.DstPort) {
		return false
	}
	if b.side == fwd.PifHost {
		return q.Dst.IsLoopback()
	}
	return !q.Dst.IsLoopback() || b.cfg.HostLoToNsLo
}

// checkOwn refuses a target that is not this side's own address: a connection to one's own address has that address at both ends.
func (b *Broker) checkOwn(fd sys.FD, dst *wire.Addr) sys.Errno {
	if dst.IsLoopback() {
		return 0
	}
	sa, e := sys.LocalAddr(fd)
	if e != 0 {
		return e
	}
	if a, _, ok := sa.Get(); !ok || wire.Addr(a) != *dst {
		return sys.EACCES
	}
	return 0
}

// ping makes an echo socket ("ping socket", icmp(7)), connected to the translated destination.
func (b *Broker) ping(q *ipc.Connect, r *ipc.Reply) (sys.FD, sys.Errno) {
	proto, kernel := uint8(fwd.ProtoICMP), sys.ProtoICMP
	if !q.Dst.Is4() {
		proto, kernel = fwd.ProtoICMPv6, sys.ProtoICMPv6
	}
	dst, ok := b.cfg.Outbound(proto, &q.Dst, 0)
	if !ok || !dst.IsUnicast() {
		return sys.NoFD, sys.EACCES
	}
	r.Target = dst
	fd, e := sys.Socket(family(&dst), sys.SockDgram, kernel)
	if e != 0 {
		return fd, e
	}
	if e := b.prepare(fd, &dst, q.TTL); e != 0 {
		return fd, e
	}
	if e := b.outbound(fd, &dst); e != 0 {
		return fd, e
	}
	sa := b.sockAddr(&dst, 0)
	return fd, sys.Connect(fd, &sa)
}

// udpListen makes a socket that can only receive, for unicast answers to a multicast or broadcast question of the
// guest: sending is shut down (Linux honours that on an unconnected datagram socket, although it answers ENOTCONN).
func (b *Broker) udpListen(q *ipc.Connect, r *ipc.Reply) (sys.FD, sys.Errno) {
	if !b.cfg.UDP || !b.cfg.Of(&q.Dst).On || !q.Dst.IsMulticast() && !q.Dst.IsBroadcast() || q.SrcPort == 0 {
		return sys.NoFD, sys.EACCES
	}
	fd, e := b.datagram(&q.Dst, 0)
	if e != 0 {
		return fd, e
	}
	if e := b.outboundIf(fd, &q.Dst); e != 0 {
		return fd, e
	}
	var any wire.Addr
	if e := b.bindPort(fd, &any, &q.Dst, q.SrcPort); e != 0 {
		return fd, e
	}
	_ = sys.Shutdown(fd, sys.ShutWr)
	local, e := sys.LocalAddr(fd)
	if e != 0 {
		return fd, e
	}
	_, r.LocalPort, _ = local.Get()
	return fd, 0
}

// datagram makes a UDP socket with what every flow wants: error queue, aggregation, time to live.
func (b *Broker) datagram(dst *wire.Addr, ttl uint8) (sys.FD, sys.Errno) {
	fd, e := sys.Socket(family(dst), sys.SockDgram, 0)
	if e != 0 {
		return fd, e
	}
	if e := sys.OptReuseAddr.Set(fd, 1); e != 0 {
		return fd, e
	}
	if !dst.Is4() {
		// Bound to the wildcard it would take IPv4 datagrams of that port too, until it is connected.
		if e := sys.OptV6Only.Set(fd, 1); e != 0 {
			return fd, e
		}
	}
	_ = sys.OptUDPGRO.Set(fd, 1) // kernels before 5.0 lack it: datagrams come one by one
	if dst.IsMulticast() || dst.Is4() {
		_ = sys.OptBroadcast.Set(fd, 1) // only a broadcast address makes use of it
	}
	return fd, b.prepare(fd, dst, ttl)
}

func (b *Broker) prepare(fd sys.FD, dst *wire.Addr, ttl uint8) sys.Errno {
	errOpt, ttlOpt := sys.OptRecvErr6, sys.OptTTL6
	if dst.Is4() {
		errOpt, ttlOpt = sys.OptRecvErr4, sys.OptTTL4
	}
	if e := errOpt.Set(fd, 1); e != 0 {
		return e
	}
	if ttl != 0 {
		return ttlOpt.Set(fd, int(ttl))
	}
	return 0
}

// outbound applies -o and --outbound-if4/6; a loopback target is reached from loopback only.
func (b *Broker) outbound(fd sys.FD, dst *wire.Addr) sys.Errno {
	if dst.IsLoopback() {
		return 0
	}
	if e := b.outboundIf(fd, dst); e != 0 {
		return e
	}
	src := b.cfg.Of(dst).Outbound
	if src.IsZero() {
		return 0
	}
	sa := b.sockAddr(&src, 0)
	return sys.Bind(fd, &sa)
}

func (b *Broker) outboundIf(fd sys.FD, dst *wire.Addr) sys.Errno {
	f := b.cfg.Of(dst)
	if f.OutboundIf == (fwd.IfName{}) || dst.IsLoopback() {
		return 0
	}
	return sys.BindToDevice(fd, (*[16]byte)(&f.OutboundIf))
}

// bindPort binds to an address (zero: any) and port; a port that cannot be had is replaced by one of the kernel's choice.
func (b *Broker) bindPort(fd sys.FD, src, dst *wire.Addr, port uint16) sys.Errno {
	a := *src
	if a.IsZero() && dst.Is4() {
		a = wire.Addr4(0, 0, 0, 0)
	}
	sa := b.sockAddr(&a, port)
	e := sys.Bind(fd, &sa)
	if e == sys.EACCES || e == sys.EADDRINUSE || e == sys.EPERM {
		sa = b.sockAddr(&a, 0)
		e = sys.Bind(fd, &sa)
	}
	return e
}

func (b *Broker) connectUDP(fd sys.FD, dst *wire.Addr, port uint16, r *ipc.Reply) sys.Errno {
	sa := b.sockAddr(dst, port)
	if e := sys.Connect(fd, &sa); e != 0 {
		return e
	}
	local, e := sys.LocalAddr(fd)
	if e != 0 {
		return e
	}
	a, p, _ := local.Get()
	r.LocalPort = p
	if wire.Addr(a) == *dst {
		r.Flags |= ipc.ReplyLocal
	}
	return 0
}

// sockAddr builds a kernel address; link-local ones get the scope of the side's interface.
func (b *Broker) sockAddr(a *wire.Addr, port uint16) sys.SockAddr {
	if a.Is4() {
		return sys.MakeSockAddr4(a.V4(), port)
	}
	var scope uint32
	if a.IsLinkLocal() || a.IsMulticast() {
		scope = b.cfg.V6.Scope
	}
	return sys.MakeSockAddr6(*a, port, scope)
}

func family(a *wire.Addr) int {
	if a.Is4() {
		return sys.AFInet
	}
	return sys.AFInet6
}
