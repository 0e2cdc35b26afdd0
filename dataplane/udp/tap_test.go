// SPDX-License-Identifier: Apache-2.0

package udp

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"passt/dataplane/fwd"
	"passt/dataplane/link"
	"passt/dataplane/wire"
	"passt/internal/sys"
)

const inNamespace = "PASST_TEST_IN_NAMESPACE"

// TestTap_RealKernel runs TestTapInside in namespaces of its own: the guest is the kernel's stack behind a real tap.
func TestTap_RealKernel_AllSizesIntact(t *testing.T) {
	if os.Getenv(inNamespace) != "" {
		t.Skip("already inside")
	}
	c := exec.Command("/proc/self/exe", "-test.run=^TestTapInside$", "-test.v")
	c.Env = append(os.Environ(), inNamespace+"=1")
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}}
	out, err := c.CombinedOutput()
	switch {
	case c.ProcessState == nil:
		t.Skipf("no user namespace: %v", err)
	case bytes.Contains(out, []byte("SKIP")):
		t.Skipf("%s", out)
	case err != nil:
		t.Fatalf("%s", out)
	}
	t.Logf("%s", out)
}

func ip(t *testing.T, args string) {
	t.Helper()
	if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
		t.Skipf("ip %s: %v: %s", args, err, out)
	}
}

var (
	tapGuest6 = wire.Addr{0: 0x20, 1: 0x01, 2: 0x0d, 3: 0xb8, 15: 2}
	tapGW6    = wire.Addr{0: 0x20, 1: 0x01, 2: 0x0d, 3: 0xb8, 15: 1}
)

// openTap makes a tap and gives the stack behind it guest4 and guest6.
func openTap(t *testing.T, name string, vnet bool) *link.Tap {
	fd, err := syscall.Open("/dev/net/tun", syscall.O_RDWR|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("SKIP: /dev/net/tun: %v", err)
	}
	must := func(what string, err error) {
		if err != nil {
			t.Skipf("SKIP: %s: %v", what, err)
		}
	}
	ifr, err := unix.NewIfreq(name)
	must("name", err)
	flags, off := uint16(unix.IFF_TAP|unix.IFF_NO_PI), 0
	if vnet {
		flags |= unix.IFF_VNET_HDR
	}
	ifr.SetUint16(flags)
	must("TUNSETIFF", unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr))
	if vnet {
		must("TUNSETVNETHDRSZ", unix.IoctlSetPointerInt(fd, unix.TUNSETVNETHDRSZ, wire.VnetSize))
		off = unix.TUN_F_CSUM | unix.TUN_F_TSO4 | unix.TUN_F_TSO6 | unix.TUN_F_USO4 | unix.TUN_F_USO6
		must("TUNSETOFFLOAD", unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, off))
	}
	ip(t, "addr add 192.0.2.2/24 dev "+name)
	ip(t, "addr add 2001:db8::2/64 dev "+name+" nodad")
	ip(t, "link set "+name+" up")
	ip(t, "neigh add 192.0.2.1 lladdr 02:00:00:00:00:01 dev "+name)
	ip(t, "neigh add 2001:db8::1 lladdr 02:00:00:00:00:01 dev "+name)
	t.Cleanup(func() { _ = syscall.Close(fd) })
	return link.NewTap(sys.FD(fd), uint32(off), vnet)
}

// tapRig is a rig whose guest is real.
type tapRig struct {
	*rig
	tap   *link.Tap
	frags *wire.Reassembler
	batch link.Batch
}

func (r *tapRig) pump() {
	for range 50 {
		e := r.tap.Recv(&r.batch)
		for k := range r.batch.N {
			var p wire.Packet
			f := &r.batch.Frames[k]
			d := p.Parse(f.Data, &f.Vnet)
			if d == wire.DropFragment {
				whole, ok, d2 := r.frags.Add(f.Data, 0)
				if d = d2; ok {
					d = p.Parse(whole, &wire.Vnet{})
				} else {
					continue
				}
			}
			if d == wire.DropNone && p.Proto == wire.ProtoUDP {
				r.u.FromGuest([]wire.Packet{p})
			}
		}
		n := r.turn(0)
		if e != 0 && n == 0 {
			return
		}
	}
}

// expect reads one datagram while the loop runs.
func (r *tapRig) expect(c *net.UDPConn, want []byte) (*net.UDPAddr, error) {
	b := make([]byte, 70000)
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
		r.pump()
		_ = c.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
		n, from, err := c.ReadFromUDP(b)
		if err != nil {
			continue
		}
		if !bytes.Equal(b[:n], want) {
			return from, fmt.Errorf("%d bytes, want %d", n, len(want))
		}
		return from, nil
	}
	return nil, fmt.Errorf("%d bytes did not arrive, drops %v", len(want), r.drops())
}

func TestTapInside(t *testing.T) {
	if os.Getenv(inNamespace) == "" {
		t.Skip("runs inside of TestTap_RealKernel_AllSizesIntact")
	}
	ip(t, "link set lo up")
	for k, c := range []struct {
		mtu  int
		vnet bool
	}{{65520, true}, {1500, true}, {65520, false}, {1500, false}} {
		for _, six := range []bool{false, true} {
			name := fmt.Sprintf("tap%d%v", k, map[bool]string{true: "s", false: "f"}[six])
			t.Run(fmt.Sprintf("MTU %d vnet %v IPv6 %v", c.mtu, c.vnet, six), func(t *testing.T) {
				r := &tapRig{rig: newRig(t), frags: wire.NewReassembler()}
				r.tap = openTap(t, name, c.vnet)
				ip(t, fmt.Sprintf("link set %s mtu %d", name, c.mtu))
				mac, err := net.InterfaceByName(name)
				if err != nil {
					t.Fatal(err)
				}
				r.env.Link = r.tap
				r.env.Cfg.MTU = c.mtu
				r.env.Guest.MAC = wire.MAC(mac.HardwareAddr)
				r.env.Guest.Seen6, r.env.Fwd.V6.Guest, r.env.Fwd.V6.Our, r.env.Fwd.V6.MapLoop = tapGuest6, tapGuest6, tapGW6, tapGW6
				r.sizes(t, six)
				r.gso(t, six)
				r.inward(t, six)
			})
		}
	}
}

func (r *tapRig) ends(t *testing.T, six bool) (guest, host *net.UDPConn, gw *net.UDPAddr) {
	guest, host = peer(t, "192.0.2.2:0"), peer(t, "127.0.0.1:0")
	gw = &net.UDPAddr{IP: net.IPv4(192, 0, 2, 1)}
	if six {
		guest.Close()
		host.Close()
		guest, host = peer(t, "[2001:db8::2]:0"), peer(t, "[::1]:0")
		gw.IP = net.ParseIP("2001:db8::1")
	}
	gw.Port = int(portOf(host))
	return guest, host, gw
}

func (r *tapRig) sizes(t *testing.T, six bool) {
	guest, host, gw := r.ends(t, six)
	for _, n := range []int{0, 1, 1452, 1472, 1473, 9000, 65464, 65507} {
		b := fill(n, byte(n))
		if _, err := guest.WriteToUDP(b, gw); err != nil {
			t.Fatal(err)
		}
		from, err := r.expect(host, b)
		if err != nil {
			t.Errorf("from guest: %v", err)
			continue
		}
		if _, err := host.WriteToUDP(b, from); err != nil {
			t.Fatal(err)
		}
		if _, err := r.expect(guest, b); err != nil {
			t.Errorf("to guest: %v", err)
		}
	}
}

// gso has both sides send aggregates and plain equal datagrams.
func (r *tapRig) gso(t *testing.T, six bool) {
	guest, host, gw := r.ends(t, six)
	seg := func(c *net.UDPConn, n int) {
		raw, _ := c.SyscallConn()
		_ = raw.Control(func(fd uintptr) { sys.OptUDPSegment.Set(sys.FD(fd), n) })
	}
	var from *net.UDPAddr
	var err error
	for _, n := range []int{1200, 0} {
		seg(guest, n)
		seg(host, n)
		for range 2 {
			all := fill(1200*20+100, 1)
			send := func(c *net.UDPConn, to *net.UDPAddr) {
				if n > 0 {
					if _, err := c.WriteToUDP(all, to); err != nil {
						t.Fatal(err)
					}
					return
				}
				for at := 0; at < len(all); at += 1200 {
					_, _ = c.WriteToUDP(all[at:min(at+1200, len(all))], to)
				}
			}
			send(guest, gw)
			for at := 0; at < len(all); at += 1200 {
				if from, err = r.expect(host, all[at:min(at+1200, len(all))]); err != nil {
					t.Fatalf("from guest, segment %d, at %d: %v", n, at, err)
				}
			}
			send(host, from)
			for at := 0; at < len(all); at += 1200 {
				if _, err = r.expect(guest, all[at:min(at+1200, len(all))]); err != nil {
					t.Fatalf("to guest, segment %d, at %d: %v", n, at, err)
				}
			}
		}
	}
}

// inward has a host client use a forwarded port.
func (r *tapRig) inward(t *testing.T, six bool) {
	guest, client, _ := r.ends(t, six)
	r.env.Fwd.Splice = false
	addr := loop4
	if six {
		addr = loop6
	}
	l := r.listen(fwd.PifHost, addr, portOf(guest), wire.Addr{})
	for range 2 {
		_, _ = client.WriteToUDP([]byte("question"), &net.UDPAddr{IP: client.LocalAddr().(*net.UDPAddr).IP, Port: int(l.Port)})
		from, err := r.expect(guest, []byte("question"))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = guest.WriteToUDP([]byte("answer"), from)
		if _, err := r.expect(client, []byte("answer")); err != nil {
			t.Fatal(err)
		}
	}
}
