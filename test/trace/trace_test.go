// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"passt/seccomp"
)

// addresses inside of the namespace; those mapped stand for the host's loopback.
var addresses = []string{"-a", "192.0.2.100/24", "-g", "192.0.2.1", "-a", "fd00:2::100", "-g", "fd00:2::1",
	"--map-host-loopback", "192.0.2.254", "--map-host-loopback", "fd00:2::254"}

// script runs inside of the namespace: servers first, then every kind of client.
const script = `
r() { n=$1; shift; PASST_ROLE=$n timeout 30 "$PEERS" "$@" >/dev/null || echo "FAIL $n $*"; }
PASST_ROLE=echo "$PEERS" :$IN & PASST_ROLE=sink "$PEERS" :$INSINK 0 & PASST_ROLE=udp-echo "$PEERS" :$INUDP &
for h in 192.0.2.254 '[fd00:2::254]' 127.0.0.1 '[::1]'; do
 r exchange $h:$ECHO hello
 r connect $h:$CLOSED
 r send $h:$SINK 8000000
 r reset $h:$ECHO
 r short $h:$ECHO 50
 r udp $h:$UDP 500 20
 r udp $h:$UDP 1200 3
 PASST_ROLE=udp timeout 10 "$PEERS" $h:$CLOSED 10 1 >/dev/null 2>&1 # refused
done
for h in 192.0.2.254 fd00:2::254; do ping -c 2 -i 0.2 -W 3 $h >/dev/null || echo "NOPING $h"; done
echo "finished inside"
while [ -e "$PEERS.run" ]; do sleep 0.2; done # a command outlives its pasta
`

func TestCalls_RealTraffic_AreThoseOfTheLists(t *testing.T) {
	s := newSetup(t)
	s.needTracer()
	pings := s.allowPing()
	total := newTally()
	s.foreground(total)
	s.background(total)
	total.report(t, func(r *seccomp.Rule) string {
		if !pings && strings.Contains(r.Why, "ping socket") {
			return "the host allows no ping sockets"
		}
		return ""
	})
}

// foreground: a command, listed ports, a capture, and the end by TERM.
func (s *setup) foreground(total *tally) {
	t := s.t
	e := map[string]int{}
	var env []string
	for _, n := range []string{"IN", "INSINK", "INUDP", "DEAD", "ECHO", "SINK", "UDP", "CLOSED"} {
		e[n] = s.freePort()
		env = append(env, fmt.Sprintf("%s=%d", n, e[n]))
	}
	s.peer("echo", fmt.Sprintf(":%d", e["ECHO"])).waitFor("ready")
	s.peer("sink", fmt.Sprintf(":%d", e["SINK"]), "0").waitFor("ready")
	s.peer("udp-echo", fmt.Sprintf(":%d", e["UDP"])).waitFor("ready")
	args := append([]string{"--config-net", "-p", filepath.Join(s.dir, "capture")}, addresses...)
	args = append(args, "-t", fmt.Sprintf("%d,%d,%d", e["IN"], e["INSINK"], e["DEAD"]), "-u", strconv.Itoa(e["INUDP"]),
		"-T", fmt.Sprintf("%d,%d", e["ECHO"], e["SINK"]), "-U", strconv.Itoa(e["UDP"]), "--", "sh", "-c", script)
	if err := os.WriteFile(s.peers+".run", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	p := s.traced("foreground", env, args...)
	p.waitFor("finished inside")
	if n := strings.Count(p.out.String(), "ready"); n != 3 {
		t.Errorf("%d of 3 servers came up inside", n)
	}
	hosts := []string{"127.0.0.1", "[::1]"}
	if a := hostAddr(); a != "" {
		hosts = append(hosts, a)
	} else {
		t.Log("no global address on this host: nothing inbound over the tap")
	}
	for _, h := range hosts {
		at := func(n string) string { return fmt.Sprintf("%s:%d", h, e[n]) }
		s.client("exchange", at("IN"), "hello")
		s.client("connect", at("DEAD"))
		s.client("send", at("INSINK"), "8000000")
		s.client("reset", at("IN"))
		s.client("short", at("IN"), "50")
		s.client("udp", at("INUDP"), "500", "20")
	}
	if strings.Contains(p.out.String(), "FAIL") || strings.Contains(p.out.String(), "worker ended") {
		t.Errorf("inside: %s", without(p.out.String(), "peer "))
	}
	t.Logf("inside: %s", without(p.out.String(), "peer ", "error readfrom", "ready"))
	pasta := p.tracee()
	_ = syscall.Kill(pasta, syscall.SIGTERM)
	until(t, 20*time.Second, "pasta to end by TERM", func() bool { return syscall.Kill(pasta, 0) != nil })
	_ = os.Remove(s.peers + ".run")
	s.finish(p, "foreground", total)
}

// background: a target by its PID, ports followed automatically, the end by TERM.
func (s *setup) background(total *tally) {
	t := s.t
	target := s.start(nil, "unshare", "-Urn", "sh", "-c", "echo ready; exec sleep 600")
	target.waitFor("ready")
	pidFile := filepath.Join(s.dir, "pid")
	pid := strconv.Itoa(target.cmd.Process.Pid)
	args := append([]string{"--config-net", "-P", pidFile, "-t", "auto", "-u", "auto", "-T", "auto", "-U", "auto"}, addresses...)
	p := s.traced("background", nil, append(args, pid)...)
	var service int
	until(t, 20*time.Second, "PID file", func() bool {
		b, _ := os.ReadFile(pidFile)
		service, _ = strconv.Atoi(strings.TrimSpace(string(b)))
		return service != 0
	})
	enter := []string{"nsenter", "--preserve-credentials", "-t", pid, "-U", "-n", s.peers}
	for _, kind := range []string{"tcp", "udp"} {
		server, ask := "echo", "exchange"
		extra := []string{"hello"}
		if kind == "udp" {
			server, ask, extra = "udp-echo", "udp", []string{"100", "3"}
		}
		in, outer := s.freePort(), fmt.Sprintf("127.0.0.1:%d", s.freePort())
		inner := fmt.Sprintf("127.0.0.1:%d", in)
		s.start([]string{"PASST_ROLE=" + server}, append(enter, fmt.Sprintf(":%d", in))...).waitFor("ready")
		s.peer(server, outer).waitFor("ready")
		// Both scans have to find them: asked until answered.
		until(t, 20*time.Second, kind+" to the namespace", func() bool {
			return s.run([]string{"PASST_ROLE=" + ask}, append([]string{s.peers, inner}, extra...)...) == nil
		})
		until(t, 20*time.Second, kind+" to the host", func() bool {
			return s.run([]string{"PASST_ROLE=" + ask}, append(append(enter, outer), extra...)...) == nil
		})
	}
	_ = syscall.Kill(service, syscall.SIGTERM)
	s.finish(p, "background", total)
}

// finish waits for the end of everything traced and counts the log.
func (s *setup) finish(p *proc, name string, total *tally) {
	s.t.Helper()
	select {
	case <-p.done:
	case <-time.After(20 * time.Second):
		s.t.Fatalf("%s: still running: %s", name, without(p.out.String(), "peer "))
	}
	if err := total.read(s.log(name), s.leaders()); err != nil {
		s.t.Fatal(err)
	}
}

// allowPing lets the ordinary user make ping sockets for the test.
func (s *setup) allowPing() bool {
	const name = "/proc/sys/net/ipv4/ping_group_range"
	b, err := os.ReadFile(name)
	if _, look := exec.LookPath("ping"); err != nil || look != nil {
		return false
	}
	f := strings.Fields(string(b))
	lo, _ := strconv.Atoi(f[0])
	hi, _ := strconv.Atoi(f[1])
	if gid := int(s.gid()); lo <= gid && gid <= hi {
		return true
	}
	if os.WriteFile(name, []byte("0 2147483647"), 0) != nil {
		return false
	}
	s.t.Cleanup(func() { _ = os.WriteFile(name, b, 0) })
	return true
}

// without leaves out lines with one of some beginnings.
func without(text string, beginnings ...string) string {
	var out []string
	for l := range strings.Lines(text) {
		if !slices.ContainsFunc(beginnings, func(b string) bool { return strings.HasPrefix(l, b) }) {
			out = append(out, strings.TrimSpace(l))
		}
	}
	return strings.Join(out, "; ")
}

// hostAddr gives a global IPv4 address of this machine, or "".
func hostAddr() string {
	addrs, _ := net.InterfaceAddrs()
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && n.IP.To4() != nil {
			return n.IP.String()
		}
	}
	return ""
}
