// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"passt/dataplane/fwd"
	"passt/dataplane/wire"
	"passt/internal/sys"
	"passt/ipc"
)

func TestRun_ARPRequest_Answered(t *testing.T) {
	s := up(t, false)
	s.frame(arp(gw4))
	b := s.heard(isARPReply)
	if len(b) != wire.MinFrame || wire.MAC(b[0:6]) != guestMAC || wire.Addr4From(b[28:]) != gw4 {
		t.Errorf("%x", b)
	}
	s.hangUp()
	if err := s.end(); err != nil {
		t.Errorf("the supervisor closed: %v", err)
	}
}

func TestRun_Datagram_RequestAndErrnoToGuest(t *testing.T) {
	s := up(t, false)
	s.frame(datagram(1001, "x"))
	q := s.request(s.c)
	if q.Op != ipc.OpUDP || q.Dst != remote4 || q.DstPort != 1001 || q.SrcPort != 4000 {
		t.Errorf("%+v", q)
	}
	s.reply(ipc.Reply{Flow: q.Flow, Gen: q.Gen, Slot: q.Slot, Errno: uint16(sys.EHOSTUNREACH)})
	b := s.heard(func(b []byte) bool { return b[23] == wire.ProtoICMP })
	if b[34] != 3 || b[35] != 1 {
		t.Errorf("ICMP %d/%d, want host unreachable", b[34], b[35])
	}
}

func TestRun_Datagram_ReplyWithSocketCarriesPayload(t *testing.T) {
	s := up(t, false)
	srv, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(srv)
	if err := unix.Bind(srv, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	at, err := unix.Getsockname(srv)
	if err != nil {
		t.Fatal(err)
	}
	port := uint16(at.(*unix.SockaddrInet4).Port)
	s.frame(datagram(port, "ping"))
	q := s.request(s.c)
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Connect(fd, at); err != nil {
		t.Fatal(err)
	}
	s.reply(ipc.Reply{Flow: q.Flow, Gen: q.Gen, Slot: q.Slot, Target: ip("127.0.0.1"), LocalPort: 4000}, sys.FD(fd))
	unix.Close(fd)
	wait(t, sys.FD(srv))
	p := make([]byte, 100)
	n, from, err := unix.Recvfrom(srv, p, 0)
	if err != nil || string(p[:n]) != "ping" {
		t.Fatalf("%q %v", p[:max(n, 0)], err)
	}
	if err := unix.Sendto(srv, []byte("pong"), 0, from); err != nil {
		t.Fatal(err)
	}
	b := s.heard(func(b []byte) bool { return b[23] == wire.ProtoUDP })
	if wire.Addr4From(b[26:]) != remote4 || string(b[42:46]) != "pong" || binary.BigEndian.Uint16(b[34:]) != port || binary.BigEndian.Uint16(b[36:]) != 4000 {
		t.Errorf("%x", b)
	}
}

func TestRun_Echo_RequestForPingSocket(t *testing.T) {
	s := up(t, false)
	s.frame(echo())
	if q := s.request(s.c); q.Op != ipc.OpPing || q.Dst != remote4 {
		t.Errorf("%+v", q)
	}
}

func TestRun_StaleReply_DescriptorClosed(t *testing.T) {
	s := up(t, false)
	a, b, e := sys.SeqPair()
	if e != 0 {
		t.Fatal(e)
	}
	defer sys.Close(a)
	s.reply(ipc.Reply{Flow: 3, Gen: 77}, b)
	sys.Close(b)
	wait(t, a) // end of file once the last copy is closed
	if n, e := sys.Read(a, make([]byte, 1)); n != 0 || e != 0 {
		t.Error(n, e)
	}
	s.frame(arp(gw4))
	s.heard(isARPReply)
}

func TestRun_BrokenSupervisor_EndsWithError(t *testing.T) {
	for name, act := range map[string]func(s *script){
		"garbage":     func(s *script) { _, _ = sys.Write(s.c.FD, []byte("garbage")) },
		"second boot": func(s *script) { s.boot(boot()) },
		"a connect": func(s *script) {
			(&ipc.Connect{Op: ipc.OpTCP}).Put(s.c.Body(64))
			s.c.Send(ipc.KindConnect, 1, 64, nil)
		},
		"sequence":     func(s *script) { s.c.Send(ipc.KindLog, 1, 1, nil) },
		"control kind": func(s *script) { s.c.Send(ipc.KindControl, 1, 2, nil) },
	} {
		s := up(t, false)
		act(s)
		if err := s.end(); !errors.Is(err, ipc.ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRun_Start_Failures(t *testing.T) {
	for _, c := range []struct {
		name string
		act  func(s *script)
		want string
	}{
		{"closed before boot", func(s *script) { s.hangUp() }, "boot: channel closed"},
		{"ready instead", func(s *script) { s.c.Send(ipc.KindReady, 1, 0, nil) }, "before boot"},
		{"boot cut", func(s *script) { s.c.Body(10)[0] = ipc.BootVersion; s.c.Send(ipc.KindBoot, 1, 10, nil) }, "boot: bad field"},
	} {
		s := start(t, false)
		c.act(s)
		if err := s.end(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
		if s.locks.Load() != 0 {
			t.Errorf("%s: locked down", c.name)
		}
		sys.Close(s.link)
	}
	a, b, e := sys.SeqPair()
	if e != 0 {
		t.Fatal(e)
	}
	defer sys.Close(a)
	defer sys.Close(b)
	s := &script{t: t, c: ipc.NewConn(a)}
	s.boot(boot())
	own := errors.New("no filter")
	if err := Run(b, sys.NoFD, func() (sys.FD, error) { return sys.NoFD, own }); !errors.Is(err, own) {
		t.Errorf("%v", err)
	}
	var m ipc.Message
	if ok, err := s.c.Recv(&m); ok || err != nil {
		t.Errorf("said something without being locked down: %+v %v", m.Header, err)
	}
}

func TestRun_LinkGone_EndsWithError(t *testing.T) {
	s := up(t, false)
	s.frame(arp(gw4))
	s.heard(isARPReply)
	if e := sys.Shutdown(s.guest, sys.ShutWr); e != 0 {
		t.Fatal(e)
	}
	if err := s.end(); err == nil {
		t.Error("nil")
	}
}

// TestRun_AgentSpeaksFirst_NothingMissed: what the agent sent while the tables were made is read.
func TestRun_AgentSpeaksFirst_NothingMissed(t *testing.T) {
	s := start(t, true)
	grant(t, s.ns, ipc.Grant{Type: ipc.GrantTap, Arg: 1 << 31}, s.link)
	s.boot(boot())
	s.frame(arp(gw4))
	s.heard(isARPReply)
}

func TestRun_AgentGone_TrafficGoesOn(t *testing.T) {
	s := up(t, true)
	sys.Close(s.ns.FD)
	s.ns = nil
	s.frame(arp(gw4))
	s.heard(isARPReply)
	s.hangUp()
	if err := s.end(); err != nil {
		t.Error(err)
	}
}

func TestRun_GrantWithoutDescriptor_LoggedAndGoesOn(t *testing.T) {
	s := up(t, false)
	(&ipc.Grant{Type: ipc.GrantTCP, Pif: fwd.PifHost}).Put(s.c.Body(ipc.GrantSize))
	if e := s.c.Send(ipc.KindGrant, 1, ipc.GrantSize, nil); e != 0 {
		t.Fatal(e)
	}
	s.frame(arp(gw4))
	s.heard(isARPReply)
}
