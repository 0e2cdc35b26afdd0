// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
)

// mapped addresses that stand for the host's loopback, one per family, inside every namespace of these tests. The
// IPv6 one is the gateway of local mode, reached with the tap's scope.
const (
	hostV4 = "192.0.2.254"
	hostV6 = "fd00:2::254"
)

// viaMap makes the host's loopback reachable at hostV4 and hostV6: both lie behind explicit gateways, so it works
// whatever the host's own routes are.
func viaMap(extra ...string) []string {
	o := []string{"-a", "192.0.2.100/24", "-g", "192.0.2.1", "-a", "fd00:2::100", "-g", "fd00:2::1",
		"--map-host-loopback", hostV4, "--map-host-loopback", hostV6}
	return append(append(o, noPorts...), extra...)
}

// families runs a test for IPv4 and IPv6: listen is a loopback address of the host, to what the namespace dials.
func families(t *testing.T, f func(t *testing.T, listen, to string)) {
	t.Helper()
	for _, c := range []struct{ name, listen, to string }{
		{"IPv4", "127.0.0.1:0", hostV4}, {"IPv6", "[::1]:0", hostV6},
	} {
		t.Run(c.name, func(t *testing.T) { f(t, c.listen, c.to) })
	}
}

func join(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

func TestOutbound_Exchange_Answered(t *testing.T) {
	families(t, func(t *testing.T, listen, to string) {
		var from net.Addr
		a := server(t, listen, func(c *net.TCPConn) {
			from = c.RemoteAddr()
			b, _ := io.ReadAll(c)
			fmt.Fprintf(c, "got %s", b)
		})
		out := mustInside(t, viaMap(), "exchange", join(to, a.Port), "hello")
		if !strings.HasPrefix(out, "got hello\n") {
			t.Errorf("answer %q", out)
		}
		if h, _, _ := net.SplitHostPort(from.String()); !net.ParseIP(h).IsLoopback() {
			t.Errorf("server saw %v, not loopback", from)
		}
	})
}

// tcp.md check 3: refused at once, with a reset that carries an acknowledgement.
func TestOutbound_ClosedPort_RefusedAtOnce(t *testing.T) {
	families(t, func(t *testing.T, listen, to string) {
		l, err := net.Listen("tcp", listen)
		if err != nil {
			t.Skip(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		l.Close()
		out := strings.Fields(mustInside(t, viaMap(), "connect", join(to, port)))
		if len(out) != 2 || out[0] != "refused" {
			t.Fatalf("connect: %v", out)
		}
		if ms, _ := strconv.Atoi(out[1]); ms > 500 {
			t.Errorf("refused after %d ms", ms)
		}
	})
}

const bulk = 100_000_000

// 100 MB from the namespace, the reader on the host pauses.
func TestOutbound_100MBPausingReader_EqualHash(t *testing.T) {
	families(t, func(t *testing.T, listen, to string) {
		a := server(t, listen, func(c *net.TCPConn) {
			n, h, _ := pausing(c, bulk/4)
			fmt.Fprintf(c, "%d %s", n, h)
		})
		out := mustInside(t, viaMap(), "send", join(to, a.Port), strconv.Itoa(bulk))
		if want := fmt.Sprintf("%d %s", bulk, hashOf(bulk)); out != want {
			t.Errorf("got %q, want %q", out, want)
		}
	})
}

// 100 MB to the namespace, the reader inside pauses.
func TestInboundData_100MBPausingReader_EqualHash(t *testing.T) {
	families(t, func(t *testing.T, listen, to string) {
		a := server(t, listen, func(c *net.TCPConn) {
			_, _ = io.Copy(c, data(bulk))
			_ = c.CloseWrite()
			_, _ = io.Copy(io.Discard, c)
		})
		out := mustInside(t, viaMap(), "receive", join(to, a.Port), strconv.Itoa(bulk/4))
		if want := fmt.Sprintf("%d %s\n", bulk, hashOf(bulk)); out != want {
			t.Errorf("got %q, want %q", out, want)
		}
	})
}

// tcp.md checks 22, 23.
func TestHalfClose_EitherSideFirst_AllArrives(t *testing.T) {
	families(t, func(t *testing.T, listen, to string) {
		got := make(chan string, 1)
		a := server(t, listen, func(c *net.TCPConn) {
			fmt.Fprint(c, "bye")
			_ = c.CloseWrite()
			b, err := io.ReadAll(c)
			got <- fmt.Sprint(string(b), err)
		})
		mustInside(t, viaMap(), "halfclose", join(to, a.Port))
		if s := <-got; s != "got bye<nil>" {
			t.Errorf("server got %q after its half-close", s)
		}
		b := server(t, listen, func(c *net.TCPConn) {
			b, _ := io.ReadAll(c)
			fmt.Fprintf(c, "late %d", len(b))
		})
		if out := mustInside(t, viaMap(), "send", join(to, b.Port), "70000"); out != "late 70000" {
			t.Errorf("client got %q after its half-close", out)
		}
	})
}

// tcp.md check 25, B006.
func TestReset_EitherSide_Arrives(t *testing.T) {
	families(t, func(t *testing.T, listen, to string) {
		got := make(chan error, 1)
		a := server(t, listen, func(c *net.TCPConn) {
			var b [1]byte
			_, _ = io.ReadFull(c, b[:])
			_, _ = c.Write(b[:])
			_, err := c.Read(b[:])
			got <- err
		})
		mustInside(t, viaMap(), "reset", join(to, a.Port))
		if err := <-got; err == nil || !strings.Contains(err.Error(), "reset") {
			t.Errorf("server got %v, not a reset", err)
		}
		b := server(t, listen, func(c *net.TCPConn) {
			var b [1]byte
			_, _ = io.ReadFull(c, b[:])
			_ = c.SetLinger(0)
		})
		if out := mustInside(t, viaMap(), "peer-reset", join(to, b.Port)); out != "reset\n" {
			t.Errorf("client got %q, not a reset", out)
		}
	})
}

func TestShortConnections_200InARow_AllAnswer(t *testing.T) {
	families(t, func(t *testing.T, listen, to string) {
		a := server(t, listen, echo)
		mustInside(t, viaMap(), "short", join(to, a.Port), "200")
	})
}

// 4 MiB, 50 times: none takes more than five times the median. A stall waits for a retransmission timer, 200 ms at least: what is shorter is the machine.
func TestOutbound_4MiB50Times_NoStall(t *testing.T) {
	families(t, func(t *testing.T, listen, to string) {
		a := server(t, listen, func(c *net.TCPConn) { _, _ = io.Copy(io.Discard, c) })
		for _, mtu := range []string{"65520", "1500"} {
			out := strings.Fields(mustInside(t, viaMap("-m", mtu), "stalls", join(to, a.Port), "4194304", "50"))
			median, _ := strconv.Atoi(out[0])
			slowest, _ := strconv.Atoi(out[1])
			t.Logf("MTU %s: median %d us, slowest %d us", mtu, median, slowest)
			if slowest > 5*median && slowest > 200_000 {
				t.Errorf("MTU %s: slowest transfer %d us, median %d us", mtu, slowest, median)
			}
		}
	})
}

// 10,000 connections, each still answering at the end.
func TestManyConnections_10000_AllAnswer(t *testing.T) {
	const n = 10_000
	var lim = descriptorLimit(t)
	if lim < n+1000 {
		t.Skipf("hard limit of open files is %d, the test needs %d", lim, n+1000)
	}
	a := server(t, "127.0.0.1:0", echo)
	out := mustInside(t, viaMap(), "many", join(hostV4, a.Port), strconv.Itoa(n))
	if !strings.HasSuffix(out, "ok\n") {
		t.Errorf("got %q", out)
	}
}

// Inbound by -t over an address that is not loopback: over the tap.
func TestInbound_ExternalAddress_OverTap(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		t.Run(map[bool]string{false: "IPv4", true: "IPv6"}[v6], func(t *testing.T) {
			addr := hostAddr(t, v6)
			port := freePort(t)
			p := startInside(t, []string{"-t", fmt.Sprintf("%d:7001", port), "-u", "none", "-T", "none", "-U", "none"}, "sink", ":7001", strconv.Itoa(bulk/4))
			c, err := net.DialTimeout("tcp", join(addr, port), 5*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := io.Copy(c, data(bulk)); err != nil {
				t.Fatal(err)
			}
			_ = c.(*net.TCPConn).CloseWrite()
			b, err := io.ReadAll(c)
			if want := fmt.Sprintf("%d %s\n", bulk, hashOf(bulk)); err != nil || string(b) != want {
				t.Errorf("got %q %v, want %q\n%s", b, err, want, p.out)
			}
		})
	}
}

func TestInbound_200Short_AllAnswer(t *testing.T) {
	addr := hostAddr(t, false)
	port := freePort(t)
	startInside(t, []string{"-t", strconv.Itoa(port), "-u", "none", "-T", "none", "-U", "none"}, "echo", fmt.Sprintf(":%d", port))
	if err := roleShort([]string{join(addr, port), "200"}); err != nil {
		t.Error(err)
	}
}

// The loopback path, host to namespace and back.
func TestLoopback_HostToNamespace_100MBBothWays(t *testing.T) {
	port := freePort(t)
	o := []string{"-t", strconv.Itoa(port), "-u", "none", "-T", "none", "-U", "none", "--host-lo-to-ns-lo"}
	startInside(t, o, "sink", fmt.Sprintf("127.0.0.1:%d", port), strconv.Itoa(bulk/4))
	c, err := dial(join("127.0.0.1", port))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.Copy(c, data(bulk)); err != nil {
		t.Fatal(err)
	}
	_ = c.CloseWrite()
	b, err := io.ReadAll(c)
	if want := fmt.Sprintf("%d %s\n", bulk, hashOf(bulk)); err != nil || string(b) != want {
		t.Errorf("got %q %v, want %q", b, err, want)
	}
}

func TestLoopback_NamespaceToHost_100MBBothWays(t *testing.T) {
	for _, c := range []struct{ name, ip string }{{"IPv4", "127.0.0.1"}, {"IPv6", "::1"}} {
		t.Run(c.name, func(t *testing.T) {
			up := server(t, join(c.ip, 0), func(c *net.TCPConn) {
				n, h, _ := pausing(c, bulk/4)
				fmt.Fprintf(c, "%d %s", n, h)
			})
			down := server(t, join(c.ip, 0), func(c *net.TCPConn) {
				_, _ = io.Copy(c, data(bulk))
			})
			o := []string{"-t", "none", "-u", "none", "-U", "none", "-T", fmt.Sprintf("%d,%d", up.Port, down.Port)}
			if out, want := mustInside(t, o, "send", join(c.ip, up.Port), strconv.Itoa(bulk)), fmt.Sprintf("%d %s", bulk, hashOf(bulk)); out != want {
				t.Errorf("up: got %q, want %q", out, want)
			}
			if out, want := mustInside(t, o, "receive", join(c.ip, down.Port), strconv.Itoa(bulk/4)), fmt.Sprintf("%d %s\n", bulk, hashOf(bulk)); out != want {
				t.Errorf("down: got %q, want %q", out, want)
			}
		})
	}
}

// By default a host's loopback client reaches the namespace's external address, never its loopback (B098).
func TestLoopback_DefaultTarget_ExternalAddressOnly(t *testing.T) {
	port := freePort(t)
	o := append([]string{"-a", "192.0.2.100/24", "-g", "192.0.2.1", "-t", strconv.Itoa(port), "-u", "none", "-T", "none", "-U", "none"}, "-4")
	p := startInside(t, o, "echo", fmt.Sprintf(":%d", port))
	if err := roleShort([]string{join("127.0.0.1", port), "3"}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(p.out.String(), fmt.Sprintf("at 192.0.2.100:%d", port)) {
		t.Errorf("server in the namespace saw: %s", p.out)
	}
	startInside(t, append(o[:4:4], "-t", strconv.Itoa(port+1), "-u", "none", "-T", "none", "-U", "none", "-4"), "echo", fmt.Sprintf("127.0.0.1:%d", port+1))
	c, err := dial(join("127.0.0.1", port+1))
	if err == nil {
		_, err = c.Read(make([]byte, 1))
		c.Close()
	}
	if err == nil || err == io.EOF {
		t.Errorf("a server on the namespace's loopback was reached: %v", err)
	}
}
