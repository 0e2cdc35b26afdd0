// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"passt/dataplane/fwd"
	"passt/dataplane/wire"
	"passt/internal/sys"
	"passt/ipc"
)

var (
	any4  = ip("0.0.0.0")
	map4  = ip("192.0.2.1")
	map6  = ip("2001:db8::1")
	other = ip("203.0.113.5")
)

// hostRules lead from the host to the namespace, nsRules the other way.
var (
	hostRules = []fwd.Rule{
		{Flags: fwd.RuleDual, First: 8000, Last: 8010, To: 9000, Proto: fwd.ProtoTCP},
		{Flags: fwd.RuleDual, First: 5000, Last: 5010, To: 6000, Proto: fwd.ProtoUDP},
		{Addr: own4, First: 5500, Last: 5500, To: 5500, Proto: fwd.ProtoUDP},
		{Addr: any4, First: 5600, Last: 5600, To: 5600, Proto: fwd.ProtoUDP, If: fwd.IfName{'l', 'o'}},
	}
	nsRules = []fwd.Rule{
		{Flags: fwd.RuleDual, First: 7000, Last: 7010, To: 7100, Proto: fwd.ProtoTCP},
		{Flags: fwd.RuleDual, First: 7000, Last: 7010, To: 7200, Proto: fwd.ProtoUDP},
	}
)

func TestConnect_Refusals_EACCES(t *testing.T) {
	needNS(t)
	noMap := with(func(c *fwd.Config) { c.V4.MapLoop, c.V6.MapLoop = wire.Addr{}, wire.Addr{} })
	noDNS := with(func(c *fwd.Config) { c.V4.DNSHost = wire.Addr{} })
	off := func(f func(c *fwd.Config)) *fwd.Config { return with(f) }
	mcast := ip("224.0.0.251")
	for _, c := range []struct {
		name string
		cfg  *fwd.Config
		side fwd.Pif
		q    ipc.Connect
	}{
		{"check 12: loopback, no map", noMap, fwd.PifHost, ipc.Connect{Op: ipc.OpTCP, Dst: lo4, DstPort: 22}},
		{"loopback with map", usual(), fwd.PifHost, ipc.Connect{Op: ipc.OpTCP, Dst: lo4, DstPort: 22}},
		{"loopback net", usual(), fwd.PifHost, ipc.Connect{Op: ipc.OpUDP, Dst: ip("127.0.0.53"), DstPort: 53}},
		{"loopback IPv6", usual(), fwd.PifHost, ipc.Connect{Op: ipc.OpTCP, Dst: lo6, DstPort: 22}},
		{"loopback echo", usual(), fwd.PifHost, ipc.Connect{Op: ipc.OpPing, Dst: lo4}},
		{"unspecified", usual(), fwd.PifHost, ipc.Connect{Op: ipc.OpTCP, Dst: any4, DstPort: 22}},
		{"unspecified IPv6", usual(), fwd.PifHost, ipc.Connect{Op: ipc.OpUDP, Dst: wire.Addr{}, DstPort: 22}},
		{"resolver without one", noDNS, fwd.PifHost, ipc.Connect{Op: ipc.OpUDP, Dst: ip("192.0.2.53"), DstPort: 53}},
		{"TCP to multicast", usual(), fwd.PifHost, ipc.Connect{Op: ipc.OpTCP, Dst: mcast, DstPort: 80}},
		{"TCP to broadcast", usual(), fwd.PifHost, ipc.Connect{Op: ipc.OpTCP, Dst: ip("255.255.255.255"), DstPort: 80}},
		{"echo to multicast", usual(), fwd.PifHost, ipc.Connect{Op: ipc.OpPing, Dst: ip("ff02::1")}},
		{"TCP port 0", usual(), fwd.PifHost, ipc.Connect{Op: ipc.OpTCP, Dst: map4}},
		{"UDP port 0", usual(), fwd.PifHost, ipc.Connect{Op: ipc.OpUDP, Dst: map4}},
		{"IPv4 off", off(func(c *fwd.Config) { c.V4.On = false }), fwd.PifHost, ipc.Connect{Op: ipc.OpTCP, Dst: map4, DstPort: 80}},
		{"TCP off", off(func(c *fwd.Config) { c.TCP = false }), fwd.PifHost, ipc.Connect{Op: ipc.OpTCP, Dst: map4, DstPort: 80}},
		{"UDP off", off(func(c *fwd.Config) { c.UDP = false }), fwd.PifHost, ipc.Connect{Op: ipc.OpUDP, Dst: map4, DstPort: 80}},
		{"ICMP off", off(func(c *fwd.Config) { c.ICMP = false }), fwd.PifHost, ipc.Connect{Op: ipc.OpPing, Dst: map4}},

		{"reply: no such rule", usual(), fwd.PifHost, ipc.Connect{Op: ipc.OpUDPReply, Rule: 4, Src: own4, SrcPort: 5000, Dst: other, DstPort: 9}},
		{"reply: TCP rule", usual(), fwd.PifHost, ipc.Connect{Op: ipc.OpUDPReply, Rule: 0, Src: own4, SrcPort: 8000, Dst: other, DstPort: 9}},
		{"reply: port of no rule", usual(), fwd.PifHost, ipc.Connect{Op: ipc.OpUDPReply, Rule: 1, Src: own4, SrcPort: 5011, Dst: other, DstPort: 9}},
		{"reply: target port", usual(), fwd.PifHost, ipc.Connect{Op: ipc.OpUDPReply, Rule: 1, Src: own4, SrcPort: 6000, Dst: other, DstPort: 9}},
		{"reply: rule's address", usual(), fwd.PifHost, ipc.Connect{Op: ipc.OpUDPReply, Rule: 2, Src: lo4, SrcPort: 5500, Dst: lo4, DstPort: 9}},
		{"reply: families mixed", usual(), fwd.PifHost, ipc.Connect{Op: ipc.OpUDPReply, Rule: 1, Src: own4, SrcPort: 5000, Dst: lo6, DstPort: 9}},
		{"reply: source unset", usual(), fwd.PifHost, ipc.Connect{Op: ipc.OpUDPReply, Rule: 1, SrcPort: 5000, Dst: lo6, DstPort: 9}},
		{"reply: to multicast", usual(), fwd.PifHost, ipc.Connect{Op: ipc.OpUDPReply, Rule: 1, Src: own4, SrcPort: 5000, Dst: mcast, DstPort: 9}},
		{"reply: to port 0", usual(), fwd.PifHost, ipc.Connect{Op: ipc.OpUDPReply, Rule: 1, Src: own4, SrcPort: 5000, Dst: lo4}},
		{"reply: UDP off", off(func(c *fwd.Config) { c.UDP = false }), fwd.PifHost, ipc.Connect{Op: ipc.OpUDPReply, Rule: 1, Src: own4, SrcPort: 5000, Dst: own4, DstPort: 9}},
		{"reply: other side's table", usual(), fwd.PifSplice, ipc.Connect{Op: ipc.OpUDPReply, Rule: 1, Src: own4, SrcPort: 5000, Dst: own4, DstPort: 9}},

		{"splice: off", off(func(c *fwd.Config) { c.Splice = false }), fwd.PifHost, ipc.Connect{Op: ipc.OpSpliceTCP, Dst: lo4, DstPort: 7100}},
		{"splice: no such rule", usual(), fwd.PifHost, ipc.Connect{Op: ipc.OpSpliceTCP, Rule: 2, Dst: lo4, DstPort: 7100}},
		{"splice: listening port", usual(), fwd.PifHost, ipc.Connect{Op: ipc.OpSpliceTCP, Dst: lo4, DstPort: 7000}},
		{"splice: beyond the range", usual(), fwd.PifHost, ipc.Connect{Op: ipc.OpSpliceTCP, Dst: lo4, DstPort: 7111}},
		{"splice: UDP rule for TCP", usual(), fwd.PifHost, ipc.Connect{Op: ipc.OpSpliceTCP, Rule: 1, Dst: lo4, DstPort: 7200}},
		{"splice: TCP rule for UDP", usual(), fwd.PifHost, ipc.Connect{Op: ipc.OpSpliceUDP, Rule: 0, Dst: lo4, DstPort: 7100}},
		{"splice: host's own address", usual(), fwd.PifHost, ipc.Connect{Op: ipc.OpSpliceTCP, Dst: own4, DstPort: 7100}},
		{"splice: elsewhere", usual(), fwd.PifHost, ipc.Connect{Op: ipc.OpSpliceUDP, Rule: 1, Dst: other, DstPort: 7200}},
		{"splice: family off", off(func(c *fwd.Config) { c.V6.On = false }), fwd.PifHost, ipc.Connect{Op: ipc.OpSpliceTCP, Dst: lo6, DstPort: 7100}},
		{"splice: namespace's loopback", usual(), fwd.PifSplice, ipc.Connect{Op: ipc.OpSpliceTCP, Dst: lo4, DstPort: 9000}},
		{"splice: multicast", usual(), fwd.PifSplice, ipc.Connect{Op: ipc.OpSpliceUDP, Rule: 1, Dst: mcast, DstPort: 6000}},

		{"listen: unicast", usual(), fwd.PifHost, ipc.Connect{Op: ipc.OpUDPListen, Dst: own4, SrcPort: 5353}},
		{"listen: port 0", usual(), fwd.PifHost, ipc.Connect{Op: ipc.OpUDPListen, Dst: mcast}},
		{"listen: UDP off", off(func(c *fwd.Config) { c.UDP = false }), fwd.PifHost, ipc.Connect{Op: ipc.OpUDPListen, Dst: mcast, SrcPort: 5353}},
		{"listen: family off", off(func(c *fwd.Config) { c.V4.On = false }), fwd.PifHost, ipc.Connect{Op: ipc.OpUDPListen, Dst: mcast, SrcPort: 5353}},
	} {
		before := openFDs(t)
		s := newSession(t, c.side, c.cfg, hostRules, nsRules)
		if a := s.one(t, c.q); a.Errno != uint16(sys.EACCES) {
			t.Errorf("%s: errno %d, %d descriptors", c.name, a.Errno, len(a.fds))
		}
		if s.b.Served != 1 || s.b.Refused != 1 {
			t.Errorf("%s: %d served, %d refused", c.name, s.b.Served, s.b.Refused)
		}
		s.close()
		if n := openFDs(t); n != before {
			t.Errorf("%s: %d descriptors left", c.name, n-before)
		}
	}
}

func TestConnectTCP_MappedAddresses_ReachLoopback(t *testing.T) {
	needNS(t)
	for _, c := range []struct{ dst, want wire.Addr }{{map4, lo4}, {map6, lo6}, {ip("192.0.2.2"), own4}, {ip("2001:db8::2"), own6}} {
		_, port := server(t, sys.SockStream, c.want, 0)
		a := newSession(t, fwd.PifHost, usual(), hostRules, nsRules).one(t, ipc.Connect{Op: ipc.OpTCP, Dst: c.dst, DstPort: port, MSS: 1000})
		if a.Errno != 0 || a.Target != c.want || a.Flags != ipc.ReplyConnected|ipc.ReplyLocal {
			t.Fatalf("%v: %+v", c.dst, a)
		}
		if p, pp, err := peerOf(a.fds[0]); err != nil || p != c.want || pp != port {
			t.Errorf("%v: peer %v %d %v", c.dst, p, pp, err)
		}
		if option(t, a.fds[0], unix.IPPROTO_TCP, unix.TCP_NODELAY) != 1 {
			t.Error("no-delay is off")
		}
		if fl, err := unix.FcntlInt(uintptr(a.fds[0]), unix.F_GETFL, 0); err != nil || fl&unix.O_NONBLOCK == 0 {
			t.Error("blocking socket")
		}
	}
}

func TestConnectTCP_ClosedPort_RefusedAtOnce(t *testing.T) {
	needNS(t)
	s := newSession(t, fwd.PifHost, usual(), nil, nil)
	for _, dst := range []wire.Addr{map4, map6} {
		if a := s.one(t, ipc.Connect{Op: ipc.OpTCP, Dst: dst, DstPort: 1}); a.Errno != uint16(sys.ECONNREFUSED) {
			t.Errorf("%v: %d", dst, a.Errno)
		}
	}
	if a := s.one(t, ipc.Connect{Op: ipc.OpTCP, Dst: other, DstPort: 1}); a.Errno != uint16(sys.ENETUNREACH) {
		t.Errorf("no route: %d", a.Errno)
	}
}

func TestConnectDNS_OnlyItsPorts_ReachResolver(t *testing.T) {
	needNS(t)
	server(t, sys.SockStream, ip("127.0.0.53"), 53)
	s := newSession(t, fwd.PifHost, usual(), nil, nil)
	for _, q := range []ipc.Connect{{Op: ipc.OpUDP, SrcPort: 5555}, {Op: ipc.OpTCP}} {
		q.Dst, q.DstPort = ip("192.0.2.53"), 53
		a := s.one(t, q)
		if p, port, err := peerOf(mustFD(t, a)); err != nil || p != ip("127.0.0.53") || port != 53 {
			t.Errorf("op %d: peer %v %d %v", q.Op, p, port, err)
		}
		q.DstPort = 54
		if a := s.one(t, q); a.Errno != uint16(sys.ENETUNREACH) {
			t.Errorf("op %d, port 54: %d to %v", q.Op, a.Errno, a.Target)
		}
	}
}

func mustFD(t *testing.T, a answer) sys.FD {
	t.Helper()
	if a.Errno != 0 {
		t.Fatalf("refused: %v", sys.Errno(a.Errno))
	}
	return a.fds[0]
}

// withoutBindRight runs f on a thread that may not bind ports below 1024.
func withoutBindRight(t *testing.T, f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var d, less [2]unix.CapUserData
	if err := unix.Capget(&h, &d[0]); err != nil {
		t.Fatal(err)
	}
	less = d
	less[0].Effective &^= 1 << unix.CAP_NET_BIND_SERVICE
	if err := unix.Capset(&h, &less[0]); err != nil {
		t.Skip("cannot give the right up: " + err.Error())
	}
	defer func() {
		if err := unix.Capset(&h, &d[0]); err != nil {
			t.Error(err)
		}
	}()
	f()
}

func TestConnectUDP_SourcePort_KeptOrReplaced(t *testing.T) {
	needNS(t)
	_, port := server(t, sys.SockDgram, lo4, 0)
	_, port6 := server(t, sys.SockDgram, lo6, 0)
	_, taken := server(t, sys.SockDgram, any4, 0)
	s := newSession(t, fwd.PifHost, usual(), nil, nil)
	withoutBindRight(t, func() {
		for _, c := range []struct {
			name string
			dst  wire.Addr
			port uint16
			src  uint16
			kept bool
		}{
			{"free", map4, port, 5555, true}, {"free IPv6", map6, port6, 5555, true},
			{"123 as ordinary user", map4, port, 123, false}, {"123 IPv6", map6, port6, 123, false},
			{"in use", map4, port, taken, false}, {"in use by IPv4 only", map6, port6, taken, true}, {"none", map4, port, 0, false},
		} {
			a := s.one(t, ipc.Connect{Op: ipc.OpUDP, Dst: c.dst, DstPort: c.port, SrcPort: c.src, TTL: 7})
			fd := mustFD(t, a)
			_, got := localOf(t, fd)
			if got != a.LocalPort || got == 0 || (got == c.src) != c.kept {
				t.Errorf("%s: port %d (reply %d) for %d", c.name, got, a.LocalPort, c.src)
			}
			o := sys.OptTTL6
			if c.dst.Is4() {
				o = sys.OptTTL4
			}
			if option(t, fd, o.Level, o.Name) != 7 {
				t.Errorf("%s: TTL is not kept", c.name)
			}
			if a.Flags&ipc.ReplyLocal == 0 {
				t.Errorf("%s: not seen as local", c.name)
			}
		}
	})
}

// TestConnectUDP_IPv6Wildcard_TakesNoIPv4: a socket bound to [::] must not catch the IPv4 datagrams of its port.
func TestConnectUDP_IPv6Wildcard_TakesNoIPv4(t *testing.T) {
	needNS(t)
	a := newSession(t, fwd.PifHost, usual(), nil, nil).one(t, ipc.Connect{Op: ipc.OpUDPListen, Dst: ip("ff02::fb"), SrcPort: 5353})
	if option(t, mustFD(t, a), unix.IPPROTO_IPV6, unix.IPV6_V6ONLY) != 1 {
		t.Error("socket takes both families")
	}
}

func TestConnectUDP_TwoFlowsOneSourcePort_BothAtOnce(t *testing.T) {
	needNS(t)
	s := newSession(t, fwd.PifHost, usual(), nil, nil)
	_, p1 := server(t, sys.SockDgram, lo4, 0)
	_, p2 := server(t, sys.SockDgram, lo4, 0)
	for _, p := range []uint16{p1, p2} {
		if a := s.one(t, ipc.Connect{Op: ipc.OpUDP, Dst: map4, DstPort: p, SrcPort: 4444}); a.LocalPort != 4444 {
			t.Errorf("port %d", a.LocalPort)
		}
	}
}

func TestConnectPing_Mapped_Connected(t *testing.T) {
	needNS(t)
	s := newSession(t, fwd.PifHost, usual(), nil, nil)
	for _, c := range []struct{ dst, want wire.Addr }{{map4, lo4}, {map6, lo6}} {
		a := s.one(t, ipc.Connect{Op: ipc.OpPing, Dst: c.dst, TTL: 3})
		fd := mustFD(t, a)
		if p := pingPeer(t, fd); p != c.want {
			t.Errorf("%v: answer from %v", c.dst, p)
		}
		if option(t, fd, unix.SOL_SOCKET, unix.SO_TYPE) != unix.SOCK_DGRAM {
			t.Error("not a ping socket")
		}
	}
}
