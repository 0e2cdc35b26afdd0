// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"passt/dataplane/fwd"
	"passt/dataplane/wire"
	"passt/internal/sys"
	"passt/ipc"
)

// The tests run in a user and network namespace of their own with nothing but a loopback interface, so that no
// packet can leave whatever a broker does. insideEnv marks that process.
const insideEnv = "BROKER_TEST_INSIDE"

func TestMain(m *testing.M) {
	if os.Getenv(insideEnv) != "" {
		if err := setUp(); err != nil {
			fmt.Fprintln(os.Stderr, "test namespace:", err)
			os.Exit(1)
		}
		os.Exit(m.Run())
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), insideEnv+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   unix.SIGKILL,
	}
	if err := cmd.Start(); err != nil {
		os.Exit(m.Run()) // needNS skips what cannot run
	}
	if err := cmd.Wait(); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

func needNS(t testing.TB) {
	t.Helper()
	if os.Getenv(insideEnv) == "" {
		t.Skip("no user and network namespace can be made here")
	}
}

// Addresses of the namespace: own ones beside loopback sit on lo.
var (
	lo4, lo6   = ip("127.0.0.1"), ip("::1")
	own4, own6 = ip("192.0.2.10"), ip("2001:db8::10")
)

func ip(s string) wire.Addr { return wire.FromNetip(netip.MustParseAddr(s)) }

func setUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr); err != nil {
		return fmt.Errorf("lo up: %w", err)
	}
	alias, err := unix.NewIfreq("lo:1")
	if err != nil {
		return err
	}
	if err := alias.SetInet4Addr([]byte{192, 0, 2, 10}); err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFADDR, alias); err != nil {
		return fmt.Errorf("address: %w", err)
	}
	if err := alias.SetInet4Addr([]byte{255, 255, 255, 255}); err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFNETMASK, alias); err != nil {
		return fmt.Errorf("netmask: %w", err)
	}
	fd6, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd6)
	req := struct {
		addr   [16]byte
		prefix uint32
		index  int32
	}{own6, 128, 1}
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd6), unix.SIOCSIFADDR, uintptr(unsafe.Pointer(&req))); e != 0 && e != unix.EEXIST {
		return fmt.Errorf("IPv6 address: %w", e)
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ping_group_range", []byte("0 0"), 0); err != nil {
		return err
	}
	return nil
}

// usual is a policy in which host loopback can be reached by 192.0.2.1, 2001:db8::1 and the resolver's address alone.
func usual() *fwd.Config {
	return &fwd.Config{TCP: true, UDP: true, ICMP: true, Splice: true,
		V4: fwd.Family{On: true, Guest: own4, MapLoop: ip("192.0.2.1"), MapGuest: ip("192.0.2.2"), MapGuestTo: own4, DNSMatch: ip("192.0.2.53"), DNSHost: ip("127.0.0.53")},
		V6: fwd.Family{On: true, Guest: own6, MapLoop: ip("2001:db8::1"), MapGuest: ip("2001:db8::2"), MapGuestTo: own6}}
}

func with(f func(c *fwd.Config)) *fwd.Config {
	c := usual()
	f(c)
	return c
}

// session is a broker and the worker's end of its channel.
type session struct {
	b *Broker
	w *ipc.Conn
}

func newSession(t testing.TB, side fwd.Pif, cfg *fwd.Config, host, ns []fwd.Rule) *session {
	t.Helper()
	x, y, e := sys.SeqPair()
	if e != 0 {
		t.Fatal(e)
	}
	s := &session{b: New(ipc.NewConn(x), side, cfg, host, ns), w: ipc.NewConn(y)}
	t.Cleanup(s.close)
	return s
}

func (s *session) close() {
	sys.Close(s.b.conn.FD)
	sys.Close(s.w.FD)
	s.b.conn.FD, s.w.FD = sys.NoFD, sys.NoFD
}

// answer is one reply with its descriptors.
type answer struct {
	ipc.Reply
	fds []sys.FD
}

// ask sends the requests as one packet and gives the replies; the caller closes their descriptors.
func (s *session) ask(t testing.TB, qs ...ipc.Connect) []answer {
	t.Helper()
	s.b.SetReady()
	body := s.w.Body(len(qs) * ipc.ConnectSize)
	for i := range qs {
		qs[i].Flow, qs[i].Gen, qs[i].Slot = uint32(i)+7, uint32(i)+9, uint8(i)
		qs[i].Put(body[i*ipc.ConnectSize:])
	}
	if e := s.w.Send(ipc.KindConnect, len(qs), len(body), nil); e != 0 {
		t.Fatal(e)
	}
	if _, err := s.b.Serve(); err != nil {
		t.Fatal(err)
	}
	var m ipc.Message
	if ok, err := s.w.Recv(&m); !ok || err != nil || m.Kind != ipc.KindReply || int(m.Count) != len(qs) {
		t.Fatalf("no reply: %v %v %+v", ok, err, m.Header)
	}
	as := make([]answer, len(qs))
	used := 0
	for i := range as {
		as[i].Parse(m.Record(i))
		as[i].fds = append([]sys.FD(nil), m.FDs[used:used+int(as[i].FDs)]...)
		used += int(as[i].FDs)
		if as[i].Flow != uint32(i)+7 || as[i].Gen != uint32(i)+9 || as[i].Slot != uint8(i) || (as[i].Errno == 0) != (as[i].FDs == 1) {
			t.Fatalf("reply %d: %+v", i, as[i])
		}
	}
	if used != len(m.FDs) {
		t.Fatalf("%d descriptors for %d", len(m.FDs), used)
	}
	return as
}

// one asks for one socket; it is closed at the end of the test.
func (s *session) one(t testing.TB, q ipc.Connect) answer {
	t.Helper()
	a := s.ask(t, q)[0]
	t.Cleanup(func() {
		for _, f := range a.fds {
			sys.Close(f)
		}
	})
	return a
}

func addrPort(sa unix.Sockaddr) (wire.Addr, uint16) {
	switch s := sa.(type) {
	case *unix.SockaddrInet4:
		return wire.Addr4From(s.Addr[:]), uint16(s.Port)
	case *unix.SockaddrInet6:
		return s.Addr, uint16(s.Port)
	}
	return wire.Addr{}, 0
}

func peerOf(fd sys.FD) (wire.Addr, uint16, error) {
	sa, err := unix.Getpeername(int(fd))
	a, p := addrPort(sa)
	return a, p, err
}

// pingPeer tells whether a ping socket is connected to an address: getpeername fails for want of a port, but only the connected
// address' echo goes out without naming a destination, and its answer comes back from there.
func pingPeer(t testing.TB, fd sys.FD) wire.Addr {
	t.Helper()
	echo := []byte{8, 0, 0, 0, 0, 0, 0, 1}
	if l, _ := localOf(t, fd); !l.Is4() {
		echo[0] = 128
	}
	if n, e := sys.Send(fd, echo, 0); n != len(echo) || e != 0 {
		t.Fatalf("echo: %d %v", n, e)
	}
	pfd := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	if n, err := unix.Poll(pfd, 2000); n != 1 || err != nil {
		t.Fatalf("no answer: %v", err)
	}
	_, from, err := unix.Recvfrom(int(fd), echo, unix.MSG_DONTWAIT)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := addrPort(from)
	return a
}

func localOf(t testing.TB, fd sys.FD) (wire.Addr, uint16) {
	t.Helper()
	sa, err := unix.Getsockname(int(fd))
	if err != nil {
		t.Fatal(err)
	}
	return addrPort(sa)
}

func option(t testing.TB, fd sys.FD, level, name int) int {
	t.Helper()
	v, e := sys.GetsockoptInt(fd, level, name)
	if e != 0 {
		t.Fatalf("option %d/%d: %v", level, name, e)
	}
	return v
}

// sends tries to send to an address of the descriptor's own family.
func sends(fd sys.FD, to wire.Addr, port uint16) error {
	var sa unix.Sockaddr = &unix.SockaddrInet6{Addr: to, Port: int(port)}
	if to.Is4() {
		sa = &unix.SockaddrInet4{Addr: to.V4(), Port: int(port)}
	}
	return unix.Sendto(int(fd), []byte("x"), unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT, sa)
}

// server makes a bound socket (TCP: listening) and gives its port.
func server(t testing.TB, kind int, addr wire.Addr, port uint16) (sys.FD, uint16) {
	t.Helper()
	fd, e := sys.Socket(family(&addr), kind, 0)
	if e != 0 {
		t.Fatal(e)
	}
	t.Cleanup(func() { sys.Close(fd) })
	sa := sys.MakeSockAddr6(addr, port, 0)
	if addr.Is4() {
		sa = sys.MakeSockAddr4(addr.V4(), port)
	}
	if e := sys.Bind(fd, &sa); e != 0 {
		t.Fatalf("bind %v %d: %v", addr, port, e)
	}
	if kind == sys.SockStream {
		if e := sys.Listen(fd, 4096); e != 0 {
			t.Fatal(e)
		}
	}
	_, p := localOf(t, fd)
	return fd, p
}

// stop closes what server made, and leaves its number to the clean-up.
func stop(t testing.TB, fd sys.FD) {
	t.Helper()
	null, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(null)
	if err := unix.Dup3(null, int(fd), unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
}

func openFDs(t testing.TB) int {
	t.Helper()
	d, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no /proc: " + err.Error())
	}
	return len(d)
}
