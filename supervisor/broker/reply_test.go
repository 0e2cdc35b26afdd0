// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"passt/dataplane/fwd"
	"passt/dataplane/wire"
	"passt/internal/sys"
	"passt/ipc"
)

func TestConnectReply_RuleSource_BoundAndConnected(t *testing.T) {
	needNS(t)
	s := newSession(t, fwd.PifHost, usual(), hostRules, nsRules)
	for _, q := range []ipc.Connect{
		{Rule: 1, Src: lo4, SrcPort: 5000, Dst: lo4, DstPort: 40001}, {Rule: 1, Src: own6, SrcPort: 5010, Dst: own6, DstPort: 40001},
		{Rule: 2, Src: own4, SrcPort: 5500, Dst: own4, DstPort: 40001}, {Rule: 3, Src: lo4, SrcPort: 5600, Dst: lo4, DstPort: 40001},
	} {
		q.Op = ipc.OpUDPReply
		fd := mustFD(t, s.one(t, q))
		p, pp, err := peerOf(fd)
		l, lp := localOf(t, fd)
		if err != nil || p != q.Dst || pp != q.DstPort || l != q.Src || lp != q.SrcPort {
			t.Errorf("%+v: %v %d > %v %d, %v", q, l, lp, p, pp, err)
		}
		if q.Rule == 3 {
			if name, err := unix.GetsockoptString(int(fd), unix.SOL_SOCKET, unix.SO_BINDTODEVICE); err != nil || strings.TrimRight(name, "\x00") != "lo" {
				t.Errorf("device %q %v", name, err)
			}
		}
	}
	if a := s.one(t, ipc.Connect{Op: ipc.OpUDPReply, Rule: 1, Src: other, SrcPort: 5000, Dst: own4, DstPort: 9}); a.Errno != uint16(sys.EADDRNOTAVAIL) {
		t.Errorf("foreign source: %d", a.Errno)
	}
}

func TestConnectSplice_Targets_ByRuleAndSide(t *testing.T) {
	needNS(t)
	server(t, sys.SockStream, lo4, 7105)
	server(t, sys.SockStream, own4, 9003)
	server(t, sys.SockStream, lo4, 9004)
	loLo := with(func(c *fwd.Config) { c.HostLoToNsLo = true })
	for _, c := range []struct {
		name string
		cfg  *fwd.Config
		side fwd.Pif
		q    ipc.Connect
		want sys.Errno
	}{
		{"host loopback", usual(), fwd.PifHost, ipc.Connect{Op: ipc.OpSpliceTCP, Dst: lo4, DstPort: 7105}, 0},
		{"host loopback, nobody there", usual(), fwd.PifHost, ipc.Connect{Op: ipc.OpSpliceTCP, Dst: lo6, DstPort: 7106}, sys.ECONNREFUSED},
		{"host loopback UDP", usual(), fwd.PifHost, ipc.Connect{Op: ipc.OpSpliceUDP, Rule: 1, Dst: ip("127.0.0.9"), DstPort: 7200, Src: ip("127.0.0.9"), SrcPort: 5777}, 0},
		{"namespace's own address", usual(), fwd.PifSplice, ipc.Connect{Op: ipc.OpSpliceTCP, Dst: own4, DstPort: 9003}, 0},
		{"namespace's own address UDP", usual(), fwd.PifSplice, ipc.Connect{Op: ipc.OpSpliceUDP, Rule: 1, Dst: own6, DstPort: 6001, Src: lo6, SrcPort: 5778}, 0},
		{"namespace's loopback by option", loLo, fwd.PifSplice, ipc.Connect{Op: ipc.OpSpliceTCP, Dst: lo4, DstPort: 9004}, 0},
		{"foreign address without route", usual(), fwd.PifSplice, ipc.Connect{Op: ipc.OpSpliceTCP, Dst: other, DstPort: 9003}, sys.ENETUNREACH},
	} {
		a := newSession(t, c.side, c.cfg, hostRules, nsRules).one(t, c.q)
		if sys.Errno(a.Errno) != c.want {
			t.Errorf("%s: %v, want %v", c.name, sys.Errno(a.Errno), c.want)
			continue
		}
		if c.want != 0 {
			continue
		}
		if p, pp, err := peerOf(a.fds[0]); err != nil || p != c.q.Dst || pp != c.q.DstPort {
			t.Errorf("%s: peer %v %d %v", c.name, p, pp, err)
		}
		if l, lp := localOf(t, a.fds[0]); c.q.Op == ipc.OpSpliceUDP && (lp != c.q.SrcPort || c.q.Dst.IsLoopback() && l != c.q.Src) {
			t.Errorf("%s: source %v %d", c.name, l, lp)
		}
	}
}

// TestCheckOwn_OtherAddress_Refused: a socket whose target is not its own address must not be handed over.
func TestCheckOwn_OtherAddress_Refused(t *testing.T) {
	needNS(t)
	_, port := server(t, sys.SockStream, own4, 0)
	b := newSession(t, fwd.PifSplice, usual(), nil, nil).b
	for _, c := range []struct {
		src, dst wire.Addr
		want     sys.Errno
	}{{own4, own4, 0}, {lo4, own4, sys.EACCES}} {
		fd, e := sys.Socket(sys.AFInet, sys.SockStream, 0)
		if e != 0 {
			t.Fatal(e)
		}
		defer sys.Close(fd)
		sa := b.sockAddr(&c.src, 0)
		if e := sys.Bind(fd, &sa); e != 0 {
			t.Fatal(e)
		}
		sa = b.sockAddr(&c.dst, port)
		if e := sys.Connect(fd, &sa); e != 0 && e != sys.EINPROGRESS {
			t.Fatal(e)
		}
		if e := b.checkOwn(fd, &c.dst); e != c.want {
			t.Errorf("%v > %v: %v", c.src, c.dst, e)
		}
	}
}

func TestConnectListen_Multicast_ReceivesNeverSends(t *testing.T) {
	needNS(t)
	s := newSession(t, fwd.PifHost, usual(), nil, nil)
	for _, c := range []struct{ dst, lo wire.Addr }{{ip("224.0.0.251"), lo4}, {ip("255.255.255.255"), lo4}, {ip("ff02::fb"), lo6}} {
		a := s.one(t, ipc.Connect{Op: ipc.OpUDPListen, Dst: c.dst, SrcPort: 5353})
		fd := mustFD(t, a)
		if _, _, err := peerOf(fd); !errors.Is(err, unix.ENOTCONN) {
			t.Errorf("%v: peer: %v", c.dst, err)
		}
		client, _ := server(t, sys.SockDgram, c.lo, 0)
		own := own6
		if c.lo.Is4() {
			own = own4
		}
		for _, to := range []wire.Addr{c.lo, own} {
			if err := sends(fd, to, 9); !errors.Is(err, unix.EPIPE) {
				t.Errorf("send to %v: %v", to, err)
			}
		}
		if err := sends(client, c.lo, a.LocalPort); err != nil {
			t.Fatal(err)
		}
		if n, e := sys.Recv(fd, make([]byte, 9), 0); n != 1 || e != 0 {
			t.Errorf("%v: received %d %v", c.dst, n, e)
		}
		stop(t, fd) // the next one of this family takes the port
	}
}

func TestConnect_OutboundOptions_NotForLoopback(t *testing.T) {
	needNS(t)
	cfg := with(func(c *fwd.Config) { c.V4.Outbound = own4; c.V4.OutboundIf, _ = fwd.MakeIfName("lo") })
	_, port := server(t, sys.SockStream, lo4, 0)
	_, port2 := server(t, sys.SockStream, own4, 0)
	s := newSession(t, fwd.PifHost, cfg, nil, nil)
	if l, _ := localOf(t, mustFD(t, s.one(t, ipc.Connect{Op: ipc.OpTCP, Dst: map4, DstPort: port}))); l != lo4 {
		t.Errorf("to loopback from %v", l)
	}
	for _, q := range []ipc.Connect{{Op: ipc.OpTCP, Dst: own4, DstPort: port2}, {Op: ipc.OpUDP, Dst: own4, DstPort: 9, SrcPort: 4321}} {
		fd := mustFD(t, s.one(t, q))
		if l, _ := localOf(t, fd); l != own4 {
			t.Errorf("op %d: from %v", q.Op, l)
		}
		if name, err := unix.GetsockoptString(int(fd), unix.SOL_SOCKET, unix.SO_BINDTODEVICE); err != nil || strings.TrimRight(name, "\x00") != "lo" {
			t.Errorf("op %d: device %q %v", q.Op, name, err)
		}
	}
}
