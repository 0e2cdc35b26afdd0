// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// testUID is the ordinary user of tests that root runs; it needs no entry in the password file.
const testUID = 61234

var (
	pastaBin string // copy of bin/pasta that everybody may execute
	selfBin  string // copy of this test binary
	workDir  string // writable for the ordinary user
)

func TestMain(m *testing.M) {
	if role := os.Getenv("PASST_ROLE"); role != "" {
		os.Exit(runRole(role, os.Args[1:]))
	}
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("/tmp", "pasta-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o777); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	workDir = dir
	pastaBin, selfBin = filepath.Join(dir, "pasta"), filepath.Join(dir, "peers")
	src := os.Getenv("PASTA") // another pasta under the same tests
	if src == "" {
		if out, err := exec.Command("make", "-s", "-C", "../..", "bin/pasta").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
			return 1
		}
		src = "../../bin/passt"
	}
	self, err := os.Executable()
	if err == nil {
		err = copyFile(src, pastaBin)
	}
	if err == nil {
		err = copyFile(self, selfBin)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func copyFile(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o755)
}

// ordinary makes a command run as an ordinary user.
func ordinary(c *exec.Cmd) *exec.Cmd {
	if c.SysProcAttr == nil {
		c.SysProcAttr = &syscall.SysProcAttr{}
	}
	c.SysProcAttr.Pdeathsig = syscall.SIGKILL
	c.SysProcAttr.Setpgid = true // a command outlives its pasta: the group is ended with the test
	if os.Getuid() == 0 {
		c.SysProcAttr.Credential = &syscall.Credential{Uid: testUID, Gid: testUID}
	}
	if c.Dir == "" {
		c.Dir = workDir
	}
	return c
}

// result of a finished command.
type result struct {
	out, err string
	status   int
}

// runFor runs a command as an ordinary user with a time limit.
func runFor(t *testing.T, limit time.Duration, env []string, argv ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	c := ordinary(exec.CommandContext(ctx, argv[0], argv[1:]...))
	var out, errb bytes.Buffer
	c.Stdout, c.Stderr = &out, &errb
	c.Env = append(os.Environ(), env...)
	c.WaitDelay = 5 * time.Second
	err := c.Run()
	if c.Process != nil {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) // usually nobody is left
	}
	r := result{out: out.String(), err: errb.String()}
	var x *exec.ExitError
	switch {
	case ctx.Err() != nil:
		t.Fatalf("%v: not finished within %v\nstdout: %s\nstderr: %s", argv, limit, r.out, r.err)
	case errors.As(err, &x):
		r.status = x.ExitCode()
	case err != nil:
		t.Fatalf("%v: %v\n%s", argv, err, r.err)
	}
	return r
}

// noPorts switches port forwarding off: tests that need a port say so.
var noPorts = []string{"-t", "none", "-u", "none", "-T", "none", "-U", "none"}

// inside runs a role in a new namespace under pasta with options.
func inside(t *testing.T, options []string, role string, args ...string) result {
	t.Helper()
	argv := append([]string{pastaBin, "--config-net"}, options...)
	argv = append(append(argv, "--", selfBin), args...)
	return runFor(t, 120*time.Second, []string{"PASST_ROLE=" + role}, argv...)
}

// mustInside is inside for roles that have to succeed; it returns what the role printed.
func mustInside(t *testing.T, options []string, role string, args ...string) string {
	t.Helper()
	r := inside(t, options, role, args...)
	if r.status != 0 {
		t.Fatalf("%s %v: status %d\nstdout: %s\nstderr: %s", role, args, r.status, r.out, r.err)
	}
	return r.out
}

// process is a running command.
type process struct {
	cmd  *exec.Cmd
	out  *lineBuffer
	done chan struct{}
	err  error
}

// lineBuffer collects output and lets a test wait for a text in it.
type lineBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lineBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lineBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// start starts a command as an ordinary user; it is killed at the end of the test.
func start(t *testing.T, env []string, argv ...string) *process {
	t.Helper()
	p := &process{cmd: ordinary(exec.Command(argv[0], argv[1:]...)), out: new(lineBuffer), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.WaitDelay = time.Second
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		<-p.done
	})
	return p
}

// startInside starts a role in a new namespace under pasta and waits until it prints "ready".
func startInside(t *testing.T, options []string, role string, args ...string) *process {
	t.Helper()
	argv := append([]string{pastaBin, "--config-net"}, options...)
	argv = append(append(argv, "--", selfBin), args...)
	p := start(t, []string{"PASST_ROLE=" + role}, argv...)
	p.waitFor(t, "ready")
	return p
}

// waitFor waits until the process has printed a text.
func (p *process) waitFor(t *testing.T, text string) {
	t.Helper()
	wait(t, 20*time.Second, "output "+strconv.Quote(text), func() bool {
		if strings.Contains(p.out.String(), text) {
			return true
		}
		select {
		case <-p.done:
			if !strings.Contains(p.out.String(), text) {
				t.Fatalf("%v ended (%v) before it printed %q: %s", p.cmd.Args, p.err, text, p.out)
			}
		default:
		}
		return false
	})
}

// status waits for the end of the process.
func (p *process) status(t *testing.T, limit time.Duration) int {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(limit):
		t.Fatalf("%v still runs after %v: %s", p.cmd.Args, limit, p.out)
	}
	return p.cmd.ProcessState.ExitCode()
}

// wait polls a condition with a deadline.
func wait(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) {
		if ok() {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// children lists the processes below pid: pasta's worker, agent and command.
func children(pid int) []int {
	var out []int
	ents, _ := os.ReadDir("/proc")
	for _, e := range ents {
		p, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if f := statFields(p); len(f) > 1 && f[1] == strconv.Itoa(pid) {
			out = append(out, p)
			out = append(out, children(p)...)
		}
	}
	return out
}

// statFields gives /proc/PID/stat behind the name: state, parent, ...
func statFields(pid int) []string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	i := bytes.LastIndexByte(b, ')')
	return strings.Fields(string(b[i+1:]))
}

// argv0 gives the first argument of a process: the role word.
func argv0(pid int) string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	s, _, _ := strings.Cut(string(b), "\x00")
	return s
}

// roles finds pasta's own processes by their role word: supervisor, worker, agent.
func (p *process) roles(t *testing.T) (worker, agent int) {
	t.Helper()
	for _, c := range children(p.cmd.Process.Pid) {
		switch {
		case strings.HasPrefix(argv0(c), "passt:worker"):
			worker = c
		case argv0(c) == "passt:agent":
			agent = c
		}
	}
	if worker == 0 || agent == 0 {
		t.Fatalf("worker %d, agent %d: not both found", worker, agent)
	}
	return worker, agent
}

// hostAddr gives a global address of this machine that is not loopback.
func hostAddr(t *testing.T, v6 bool) string {
	t.Helper()
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		n, ok := a.(*net.IPNet)
		if ok && n.IP.IsGlobalUnicast() && (n.IP.To4() == nil) == v6 {
			return n.IP.String()
		}
	}
	t.Skipf("this host has no global address (IPv6: %v)", v6)
	return ""
}

// server accepts TCP connections on the host and hands each to f.
func server(t *testing.T, addr string, f func(*net.TCPConn)) *net.TCPAddr {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Skipf("cannot listen on %s: %v", addr, err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				f(c.(*net.TCPConn))
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr)
}

// echo answers with what it gets. The plain reader keeps Go from splicing, which takes a pipe for each connection.
func echo(c *net.TCPConn) {
	_, _ = io.Copy(c, struct{ io.Reader }{c})
	_ = c.CloseWrite()
}

// freePort gives a TCP and UDP port that nothing on the host uses.
func freePort(t *testing.T) int {
	t.Helper()
	for range 50 {
		l, err := net.Listen("tcp", ":0")
		if err != nil {
			t.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		u, err := net.ListenPacket("udp", fmt.Sprintf(":%d", port))
		l.Close()
		if err == nil {
			u.Close()
			return port
		}
	}
	t.Fatal("no free port")
	return 0
}

func descriptorLimit(t *testing.T) uint64 {
	t.Helper()
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		t.Fatal(err)
	}
	return r.Max
}
