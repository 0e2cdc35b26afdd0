// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"encoding/binary"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"passt/dataplane/fwd"
	"passt/dataplane/wire"
	"passt/internal/sys"
	"passt/ipc"
)

func ip(s string) wire.Addr { return wire.FromNetip(netip.MustParseAddr(s)) }

var (
	guestMAC = wire.MAC{2, 0, 0, 0, 0, 2}
	guest4   = ip("192.0.2.15")
	gw4      = ip("192.0.2.1")
	remote4  = ip("203.0.113.5")
)

const patience = 5 * time.Second

// script is a supervisor, and the guest behind the link that it grants.
type script struct {
	t     *testing.T
	c     *ipc.Conn
	ns    *ipc.Conn
	guest sys.FD
	link  sys.FD // the worker's end
	ended chan error
	locks atomic.Int32
	m     ipc.Message
}

// start runs a worker in this process; lock gives nothing up.
func start(t *testing.T, agent bool) *script {
	t.Helper()
	s := &script{t: t, ended: make(chan error, 1)}
	pair := func() (a, b sys.FD) {
		a, b, e := sys.SeqPair()
		if e != 0 {
			t.Fatal(e)
		}
		return a, b
	}
	host, w := pair()
	s.c = ipc.NewConn(host)
	wns := sys.NoFD
	if agent {
		var ns sys.FD
		ns, wns = pair()
		s.ns = ipc.NewConn(ns)
	}
	s.guest, s.link = pair()
	gone := make(chan struct{})
	go func() {
		s.ended <- Run(w, wns, func() (sys.FD, error) { s.locks.Add(1); return sys.NoFD, nil })
		close(gone)
	}()
	t.Cleanup(func() {
		s.hangUp()
		<-gone // its descriptors are closed below: their numbers must not serve it in another test
		sys.Close(s.guest)
		if s.ns != nil {
			sys.Close(s.ns.FD)
		}
		sys.Close(w)
		sys.Close(wns)
	})
	return s
}

func (s *script) hangUp() {
	sys.Close(s.c.FD)
	s.c.FD = sys.NoFD
}

// end waits for the worker's end and gives its error.
func (s *script) end() error {
	s.t.Helper()
	select {
	case err := <-s.ended:
		return err
	case <-time.After(patience):
		s.t.Fatal("the worker does not end")
		return nil
	}
}

func wait(t *testing.T, fd sys.FD) {
	t.Helper()
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for until := time.Now().Add(patience); time.Now().Before(until); {
		if n, err := unix.Poll(p, 1000); n == 1 && err == nil {
			return
		}
	}
	t.Fatal("nothing came")
}

// next takes the worker's next message but log lines.
func (s *script) next(c *ipc.Conn) *ipc.Message {
	s.t.Helper()
	for {
		wait(s.t, c.FD)
		ok, err := c.Recv(&s.m)
		if err != nil {
			s.t.Fatal(err)
		}
		if ok && s.m.Kind != ipc.KindLog {
			return &s.m
		}
		if ok {
			s.t.Logf("worker: %s", s.m.Body[1:])
		}
	}
}

func boot() *ipc.Boot {
	return &ipc.Boot{Mode: ipc.ModePasta, MTU: 1500, OurMAC: wire.MAC{0x9a, 0x55, 0x9a, 0x55, 0x9a, 0x55}, MaxFlows: 64, LogLevel: 3,
		DHCP4: true, NDP: true, UDPTimeout: 30, UDPStream: 120, SynRetries: 6,
		Fwd: fwd.Config{TCP: true, UDP: true, ICMP: true, Splice: true,
			V4: fwd.Family{On: true, Prefix: 24, Guest: guest4, Gateway: gw4, Our: gw4, MapLoop: gw4}}}
}

func (s *script) boot(b *ipc.Boot) {
	s.t.Helper()
	p, err := ipc.EncodeBoot(b)
	if err != nil {
		s.t.Fatal(err)
	}
	if e := s.c.Send(ipc.KindBoot, 1, s.c.PutBytes(p), nil); e != 0 {
		s.t.Fatal(e)
	}
}

func grant(t *testing.T, c *ipc.Conn, g ipc.Grant, fd sys.FD) {
	t.Helper()
	g.Put(c.Body(ipc.GrantSize))
	if e := c.Send(ipc.KindGrant, 1, ipc.GrantSize, []sys.FD{fd}); e != 0 {
		t.Fatal(e)
	}
	sys.Close(fd)
}

// up brings a worker to where the guest can speak.
func up(t *testing.T, agent bool) *script {
	t.Helper()
	s := start(t, agent)
	s.boot(boot())
	if m := s.next(s.c); m.Kind != ipc.KindReady || m.Count != 1 || len(m.Body) != 4 || s.locks.Load() != 1 {
		t.Fatalf("%+v, locked %d times", m.Header, s.locks.Load())
	}
	grant(t, s.c, ipc.Grant{Type: ipc.GrantTap, Arg: 1 << 31}, s.link)
	return s
}

func (s *script) frame(b []byte) {
	s.t.Helper()
	if _, e := sys.Write(s.guest, append(make([]byte, wire.VnetSize), b...)); e != 0 {
		s.t.Fatal(e)
	}
}

// heard waits for a frame to the guest that fits.
func (s *script) heard(fits func(b []byte) bool) []byte {
	s.t.Helper()
	for {
		wait(s.t, s.guest)
		b := make([]byte, 70000)
		n, e := sys.Read(s.guest, b)
		if e != 0 || n == 0 {
			s.t.Fatal(n, e)
		}
		if b = b[wire.VnetSize:n]; fits(b) {
			return b
		}
	}
}

func arp(target wire.Addr) []byte {
	b := make([]byte, wire.EthSize+28)
	wire.PutEth(b, &wire.Broadcast, &guestMAC, wire.EtherARP)
	m := b[wire.EthSize:]
	copy(m, []byte{0, 1, 8, 0, 6, 4, 0, 1})
	copy(m[8:], guestMAC[:])
	copy(m[14:], guest4[12:])
	copy(m[24:], target[12:])
	return b
}

func packet(proto uint8, l4 []byte) []byte {
	b := make([]byte, wire.EthSize+wire.IP4Size, 200)
	wire.PutEth(b, &wire.Broadcast, &guestMAC, wire.EtherIP4)
	wire.PutIP(b[wire.EthSize:], &guest4, &remote4, proto, len(l4), 0)
	return append(b, l4...)
}

func datagram(port uint16, payload string) []byte {
	b := make([]byte, 8, 100)
	binary.BigEndian.PutUint16(b[0:], 4000)
	binary.BigEndian.PutUint16(b[2:], port)
	binary.BigEndian.PutUint16(b[4:], uint16(8+len(payload)))
	return packet(wire.ProtoUDP, append(b, payload...))
}

func echo() []byte {
	m := []byte{8, 0, 0, 0, 0, 7, 0, 1, 'x', 0}
	binary.BigEndian.PutUint16(m[2:], ^wire.Fold(wire.Sum(m, 0)))
	return packet(wire.ProtoICMP, m)
}

// request waits for one Connect record.
func (s *script) request(c *ipc.Conn) ipc.Connect {
	s.t.Helper()
	m := s.next(c)
	var q ipc.Connect
	if m.Kind != ipc.KindConnect || m.Count != 1 || !q.Parse(m.Record(0)) {
		s.t.Fatalf("%+v", m.Header)
	}
	return q
}

func (s *script) reply(r ipc.Reply, fds ...sys.FD) {
	s.t.Helper()
	r.FDs = uint8(len(fds))
	r.Put(s.c.Body(ipc.ReplySize))
	if e := s.c.Send(ipc.KindReply, 1, ipc.ReplySize, fds); e != 0 {
		s.t.Fatal(e)
	}
}

func isARPReply(b []byte) bool {
	return binary.BigEndian.Uint16(b[12:]) == wire.EtherARP && b[21] == 2
}
