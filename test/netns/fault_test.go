// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// target starts a process in new user and network namespaces for pasta to join, and gives its PID.
func target(t *testing.T) int {
	t.Helper()
	p := start(t, nil, "unshare", "-Urn", "sh", "-c", "echo ready; exec sleep 600")
	p.waitFor(t, "ready")
	// unshare has become the shell and then sleep: one process.
	return p.cmd.Process.Pid
}

// background runs pasta into the background on a target and gives the PID from its PID file.
func background(t *testing.T, pid int, options ...string) int {
	t.Helper()
	pf := filepath.Join(workDir, fmt.Sprintf("pid-%d", pid))
	argv := append([]string{pastaBin, "--config-net", "-P", pf}, options...)
	begin := time.Now()
	r := runFor(t, 10*time.Second, nil, append(argv, fmt.Sprint(pid))...)
	if r.status != 0 {
		t.Fatalf("status %d: %s%s", r.status, r.out, r.err)
	}
	t.Logf("ready after %v", time.Since(begin))
	b, err := os.ReadFile(pf)
	if err != nil {
		t.Fatal(err)
	}
	st, _ := os.Stat(pf)
	if st.Mode().Perm() != 0o600 {
		t.Errorf("PID file has mode %v", st.Mode())
	}
	var main int
	if _, err := fmt.Sscanf(string(b), "%d\n", &main); err != nil || syscall.Kill(main, 0) != nil {
		t.Fatalf("PID file holds %q: %v", b, err)
	}
	t.Cleanup(func() { _ = syscall.Kill(main, syscall.SIGKILL) })
	return main
}

// cli.md check 19: output on a pipe ends with the caller's process; the PID ends within a second of TERM.
func TestBackground_PIDTarget_ReadyThenTerm(t *testing.T) {
	main := background(t, target(t), noPorts...)
	kids := children(main)
	if len(kids) < 2 {
		t.Errorf("children of %d: %v", main, kids)
	}
	_ = syscall.Kill(main, syscall.SIGTERM)
	gone(t, time.Second, append(kids, main)...)
}

// Issue item 6: the namespace's process ends, pasta goes at once (cli.md check 29, B106).
func TestBackground_TargetEnds_PastaGone(t *testing.T) {
	pid := target(t)
	main := background(t, pid, append(noPorts, "-q")...)
	_ = syscall.Kill(pid, syscall.SIGKILL)
	gone(t, 1500*time.Millisecond, main)
	pid = target(t)
	main = background(t, pid, append(noPorts, "-q", "--no-netns-quit")...)
	_ = syscall.Kill(pid, syscall.SIGKILL)
	time.Sleep(500 * time.Millisecond) // nothing may happen in this time
	if syscall.Kill(main, 0) != nil {
		t.Error("gone in spite of --no-netns-quit")
	}
}

// A bound namespace file: pasta goes with its name.
func TestBackground_NamespaceFileDeleted_PastaGone(t *testing.T) {
	const script = `set -e
dir=$(mktemp -d); mount -t tmpfs x $dir; touch $dir/ns
unshare -n sh -c "mount --bind /proc/self/ns/net $dir/ns"
$PASTA -q --config-net -P $dir/pid -t none -u none -T none -U none --netns $dir/ns
p=$(cat $dir/pid); kill -0 $p
touch $dir/other; rm $dir/other; kill -0 $p
umount -l $dir/ns; rm $dir/ns
for i in $(seq 100); do kill -0 $p 2>/dev/null || { echo gone $i; exit 0; }; sleep 0.02; done
echo still there; exit 1`
	r := runFor(t, 20*time.Second, []string{"PASTA=" + pastaBin}, "unshare", "-Urmpf", "--kill-child", "--mount-proc", "sh", "-c", script)
	if r.status != 0 {
		t.Errorf("status %d: %s%s", r.status, r.out, r.err)
	}
}

func TestCommand_ExitStatus_PassedOn(t *testing.T) {
	for _, c := range []struct {
		script string
		want   int
	}{{"exit 0", 0}, {"exit 7", 7}, {"kill -9 $$", 137}} {
		argv := append(append([]string{pastaBin, "--config-net"}, noPorts...), "--", "sh", "-c", c.script)
		if c.want == 137 {
			// Process 1 of a PID namespace ignores signals from inside: it is killed from outside.
			p := startInside(t, noPorts, "hold")
			for _, k := range children(p.cmd.Process.Pid) {
				if filepath.Base(argv0(k)) == filepath.Base(selfBin) {
					_ = syscall.Kill(k, syscall.SIGKILL)
				}
			}
			if st := p.status(t, 3*time.Second); st != 137 {
				t.Errorf("killed command: status %d", st)
			}
			continue
		}
		if r := runFor(t, 10*time.Second, nil, argv...); r.status != c.want {
			t.Errorf("%q: status %d, want %d (%s)", c.script, r.status, c.want, r.err)
		}
	}
	for _, c := range []struct {
		cmd  string
		want int
	}{{"/no/such/program", 127}, {"/etc/passwd", 126}} {
		argv := append(append([]string{pastaBin, "--config-net"}, noPorts...), "--", c.cmd)
		if r := runFor(t, 10*time.Second, nil, argv...); r.status != c.want || r.err == "" {
			t.Errorf("%s: status %d, want %d (%s)", c.cmd, r.status, c.want, r.err)
		}
	}
}

// cli.md check 27.
func TestCommand_Surroundings_AsDocumented(t *testing.T) {
	host, _ := os.Hostname()
	argv := append(append([]string{pastaBin, "--config-net"}, noPorts...), "--", "sh", "-c",
		"id -u; hostname; cat /proc/self/setgroups /proc/sys/net/ipv4/ping_group_range; grep -E 'Sig(Blk|Ign)' /proc/self/status; echo $$")
	r := runFor(t, 10*time.Second, nil, argv...)
	got := strings.Fields(r.out)
	want := []string{"0", "pasta-" + host, "deny", "0", "0", "SigBlk:", "0000000000000000", "SigIgn:", "", "1"}
	if len(got) == len(want) {
		// Whatever the caller of this test ignores may be ignored, nothing that pasta or Go ignores (SIGPIPE).
		own, _ := os.ReadFile("/proc/self/status")
		_, mine, _ := strings.Cut(string(own), "SigIgn:")
		caller, _ := strconv.ParseUint(strings.Fields(mine)[0], 16, 64)
		its, err := strconv.ParseUint(got[8], 16, 64)
		if err != nil || its&^caller != 0 {
			t.Errorf("the command ignores signals %s, the caller %016x", got[8], caller)
		}
		want[8] = got[8]
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("got %q (%s)\nwant %q", got, r.err, want)
	}
}

// Issue item 6: descriptors exhausted. A line says so, connections that exist go on. Pasta and each of the six clients may have
// 64 descriptors; together the clients want 180 connections.
func TestDescriptors_Exhausted_SaidAndSurvived(t *testing.T) {
	a := server(t, "127.0.0.1:0", func(c *net.TCPConn) {
		b := make([]byte, 4)
		if _, err := io.ReadFull(c, b); err == nil {
			time.Sleep(2 * time.Second) // all clients are there before the first one leaves
			_, _ = c.Write(b)
			_, _ = io.Copy(io.Discard, c)
		}
	})
	argv := append([]string{"sh", "-c", "ulimit -n 64; exec \"$@\"", "sh", pastaBin, "--config-net", "-d"}, viaMap()...)
	// Six clients race for what there is; when they are gone, a seventh gets all of its five.
	to := join(hostV4, a.Port)
	clients := fmt.Sprintf("for i in 1 2 3 4 5 6; do %s %s 30 & done; wait; echo later; exec %s %s 5", selfBin, to, selfBin, to)
	r := runFor(t, 100*time.Second, []string{"PASST_ROLE=many"}, append(argv, "--", "sh", "-c", clients)...)
	if !strings.Contains(r.err, "out of file descriptors") {
		t.Errorf("status %d, no word about descriptors: %s", r.status, r.err)
	}
	early, late, _ := strings.Cut(r.out, "later\n")
	if n := strings.Count(early, "ok\n"); n == 6 {
		t.Errorf("all six clients had all their connections: the limit does not hold:\n%s%s", r.out, r.err)
	}
	if r.status != 0 || !strings.Contains(late, "ok\n") {
		t.Errorf("status %d, the later client was not served:\n%s%s", r.status, r.out, r.err)
	}
}

// Issue item 6: the disk is full under the capture; traffic goes on.
func TestCapture_DiskFull_TrafficGoesOn(t *testing.T) {
	needRoot(t)
	dir := filepath.Join(workDir, "small")
	_ = os.Mkdir(dir, 0o777)
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k,mode=0777"); err != nil {
		t.Skipf("cannot mount a small tmpfs: %v", err)
	}
	defer syscall.Unmount(dir, syscall.MNT_DETACH)
	a := server(t, "127.0.0.1:0", echo)
	r := inside(t, viaMap("-d", "-p", filepath.Join(dir, "full.pcap")), "short", join(hostV4, a.Port), "400")
	if r.status != 0 || r.out != "ok\n" {
		t.Errorf("status %d: %s", r.status, r.out)
	}
	if !strings.Contains(r.err, "capture ended") || !strings.Contains(r.err, "no space left") {
		t.Errorf("no line says that the capture ended: %s", r.err)
	}
}

// The capture is read by a standard reader, every checksum is right (issue: -p).
func TestCapture_BulkTraffic_ChecksumsValid(t *testing.T) {
	if _, err := exec.LookPath("tshark"); err != nil {
		t.Skip("no tshark here")
	}
	file := filepath.Join(workDir, "traffic.pcap")
	a := server(t, "127.0.0.1:0", echo)
	u, _ := udpServer(t, "127.0.0.1:0")
	mustInside(t, viaMap("-p", file), "short", join(hostV4, a.Port), "5")
	check(t, file, 30)
	mustInside(t, viaMap("-p", file, "-m", "1500"), "send", join(hostV4, a.Port), "300000")
	check(t, file, 20)
	mustInside(t, viaMap("-p", file), "udp", join(hostV4, u.Port), "1001", "3")
	check(t, file, 6)
}

func check(t *testing.T, file string, atLeast int) {
	t.Helper()
	c := exec.Command("tshark", "-r", file, "-o", "ip.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE",
		"-T", "fields", "-e", "frame.number", "-e", "tcp.checksum.status", "-e", "udp.checksum.status", "-e", "ip.checksum.status")
	var errb bytes.Buffer
	c.Stderr = &errb
	out, err := c.Output()
	if err != nil {
		t.Fatalf("tshark: %v %s", err, errb.String())
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) < atLeast {
		t.Errorf("%d frames, at least %d expected", len(lines), atLeast)
	}
	for _, l := range lines {
		for _, f := range strings.Split(l, "\t")[1:] {
			if f == "0" {
				t.Errorf("bad checksum: %q", l)
			}
		}
	}
}
