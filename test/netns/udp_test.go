// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// udpServer echoes datagrams on the host and reports each sender.
func udpServer(t *testing.T, addr string) (*net.UDPAddr, <-chan *net.UDPAddr) {
	t.Helper()
	c, err := net.ListenPacket("udp", addr)
	if err != nil {
		t.Skipf("cannot listen on %s: %v", addr, err)
	}
	t.Cleanup(func() { c.Close() })
	peers := make(chan *net.UDPAddr, 100000)
	go func() {
		buf := make([]byte, 65536)
		for {
			n, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			peers <- from.(*net.UDPAddr)
			_, _ = c.WriteTo(buf[:n], from)
		}
	}()
	return c.LocalAddr().(*net.UDPAddr), peers
}

// udp.md checks 1, 2, 13, 15: the source port is kept where it can be, sizes up to the largest arrive.
func TestUDPOutbound_SizesAndPorts_EchoedIntact(t *testing.T) {
	families(t, func(t *testing.T, listen, to string) {
		a, peers := udpServer(t, listen)
		for _, size := range []string{"0", "1", "1472", "8192", "65000", "65472"} {
			mustInside(t, viaMap(), "udp", join(to, a.Port), size, "5")
		}
		for len(peers) > 0 {
			<-peers
		}
		mustInside(t, viaMap(), "udp", join(to, a.Port), "100", "2", "34567")
		if p := <-peers; p.Port != 34567 {
			t.Errorf("server saw source port %d, the namespace used 34567", p.Port)
		}
		for len(peers) > 0 {
			<-peers
		}
		// Port 123 cannot be had by an ordinary user on the host: the datagram leaves by another one.
		mustInside(t, viaMap(), "udp", join(to, a.Port), "48", "2", "123")
		if p := <-peers; !p.IP.IsLoopback() {
			t.Errorf("server saw %v", p)
		}
		// The server's own port is taken on the host.
		mustInside(t, viaMap(), "udp", join(to, a.Port), "48", "2", strconv.Itoa(a.Port))
	})
}

// Fragments of the namespace's own making are put together (B037).
func TestUDPOutbound_LargerThanMTU_Reassembled(t *testing.T) {
	families(t, func(t *testing.T, listen, to string) {
		a, _ := udpServer(t, listen)
		mustInside(t, viaMap("-m", "1500"), "udp", join(to, a.Port), "4000", "3")
		mustInside(t, viaMap(), "udp", join(to, a.Port), "65507", "3")
	})
}

// udp.md check 9: a closed port on the host is reported as such.
func TestUDPOutbound_ClosedPort_Refused(t *testing.T) {
	families(t, func(t *testing.T, listen, to string) {
		c, err := net.ListenPacket("udp", listen)
		if err != nil {
			t.Skip(err)
		}
		port := c.LocalAddr().(*net.UDPAddr).Port
		c.Close()
		r := inside(t, viaMap(), "udp", join(to, port), "10", "3")
		if r.status == 0 || !strings.Contains(r.err, "refused") {
			t.Errorf("status %d: %s", r.status, r.err)
		}
	})
}

func TestUDPInbound_ExternalAddress_OverTap(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		t.Run(map[bool]string{false: "IPv4", true: "IPv6"}[v6], func(t *testing.T) {
			addr := hostAddr(t, v6)
			port := freePort(t)
			o := []string{"-u", fmt.Sprintf("%d:7001", port), "-t", "none", "-T", "none", "-U", "none"}
			startInside(t, o, "udp-echo", ":7001")
			for _, size := range []string{"0", "1000", "30000"} {
				if err := roleUDP([]string{join(addr, port), size, "5"}); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// Loopback both ways, the client's own address and port are kept (forwarding.md checks 16, 17).
func TestUDPLoopback_BothWays_SourceKept(t *testing.T) {
	port := freePort(t)
	o := []string{"-u", strconv.Itoa(port), "-t", "none", "-T", "none", "-U", "none", "--host-lo-to-ns-lo"}
	p := startInside(t, o, "udp-echo", fmt.Sprintf("127.0.0.1:%d", port))
	if err := roleUDP([]string{join("127.0.0.1", port), "1000", "20", "34568"}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(p.out.String(), "peer 127.0.0.1:34568 ") {
		t.Errorf("server in the namespace saw %s", p.out)
	}
	a, peers := udpServer(t, "127.0.0.1:0")
	o = []string{"-U", strconv.Itoa(a.Port), "-t", "none", "-u", "none", "-T", "none"}
	mustInside(t, o, "udp", join("127.0.0.1", a.Port), "1000", "20", "34569")
	if q := <-peers; q.Port != 34569 {
		t.Errorf("server on the host saw port %d", q.Port)
	}
}

// 100 datagrams at once to a fresh port arrive in order (udp.md check 6).
func TestUDPInbound_BurstToFreshPort_AllInOrder(t *testing.T) {
	port := freePort(t)
	o := []string{"-u", strconv.Itoa(port), "-t", "none", "-T", "none", "-U", "none", "--host-lo-to-ns-lo"}
	startInside(t, o, "udp-echo", fmt.Sprintf("127.0.0.1:%d", port))
	c, err := net.Dial("udp", join("127.0.0.1", port))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i := range 100 {
		if _, err := c.Write([]byte{byte(i)}); err != nil {
			t.Fatal(err)
		}
	}
	var b [16]byte
	for i := range 100 {
		_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
		if n, err := c.Read(b[:]); err != nil || n != 1 || b[0] != byte(i) {
			t.Fatalf("datagram %d: %d bytes, value %d, %v", i, n, b[0], err)
		}
	}
}

// icmp.md check 1, 9.
func TestPing_MappedLoopback_Answered(t *testing.T) {
	if _, err := exec.LookPath("ping"); err != nil {
		t.Skip("no ping command here")
	}
	allowPing(t)
	for _, to := range []string{hostV4, hostV6} {
		for _, size := range []string{"56", "1400", "60000"} {
			argv := append([]string{pastaBin, "--config-net"}, viaMap()...)
			argv = append(argv, "--", "ping", "-n", "-c", "2", "-i", "0.2", "-W", "3", "-s", size, to)
			r := runFor(t, 20*time.Second, nil, argv...)
			if r.status != 0 || !strings.Contains(r.out, " 0% packet loss") {
				t.Errorf("ping %s size %s: status %d\n%s%s", to, size, r.status, r.out, r.err)
			}
		}
	}
}
