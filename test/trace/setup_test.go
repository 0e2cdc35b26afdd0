// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bytes"
	"context"
	"fmt"
	"maps"
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

// setup is what one test needs: copies of the binaries that everybody may execute, and who leads which thread.
type setup struct {
	t      *testing.T
	dir    string
	pasta  string
	peers  string // test binary of test/netns: the peers
	mu     sync.Mutex
	leader map[string]string
	port   int
	uid    uint32
}

func newSetup(t *testing.T) *setup {
	t.Helper()
	f, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no tap devices: %v", err)
	}
	f.Close()
	dir, err := os.MkdirTemp("/tmp", "pasta-trace-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	s := &setup{t: t, dir: dir, pasta: filepath.Join(dir, "pasta"), peers: filepath.Join(dir, "peers"), leader: map[string]string{}}
	if s.uid = uint32(os.Getuid()); s.uid == 0 {
		s.uid = testUID
	}
	src := os.Getenv("PASTA") // another build under the same test
	if src == "" {
		if out, err := exec.Command("make", "-s", "-C", "../..", "bin/pasta").CombinedOutput(); err != nil {
			t.Fatalf("build: %v\n%s", err, out)
		}
		src = "../../bin/passt"
	}
	b, err := os.ReadFile(src)
	if err == nil {
		err = os.WriteFile(s.pasta, b, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "test", "-c", "-o", s.peers, "../netns").CombinedOutput(); err != nil {
		t.Fatalf("build peers: %v\n%s", err, out)
	}
	s.watchThreads()
	return s
}

func (s *setup) gid() uint32 { return s.uid }

// needTracer skips where strace is missing or may not trace.
func (s *setup) needTracer() {
	s.t.Helper()
	if _, err := exec.LookPath("strace"); err != nil {
		s.t.Skip("strace is not installed")
	}
	if err := s.run(nil, "strace", "-f", "-o", "/dev/null", "true"); err != nil {
		s.t.Skipf("tracing is forbidden here: %v", err)
	}
}

// watchThreads learns which process each thread belongs to while it runs: strace cannot tell for a process in its own
// PID namespace.
func (s *setup) watchThreads() {
	stop, done := make(chan struct{}), make(chan struct{})
	s.t.Cleanup(func() { close(stop); <-done })
	go func() {
		defer close(done)
		tick := time.NewTicker(30 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			dirs, _ := filepath.Glob("/proc/[0-9]*/task/*")
			s.mu.Lock()
			for _, d := range dirs {
				// Of traced ones only: numbers come again, and most processes here are not ours.
				if b, err := os.ReadFile(d + "/status"); err == nil && !bytes.Contains(b, []byte("TracerPid:\t0\n")) {
					f := strings.Split(d, "/")
					s.leader[f[4]] = f[2]
				}
			}
			s.mu.Unlock()
		}
	}()
}

func (s *setup) leaders() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.leader)
}

// proc is a running command.
type proc struct {
	s    *setup
	cmd  *exec.Cmd
	out  *output
	done chan struct{}
}

type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// command prepares a command of the ordinary user in a process group of its own.
func (s *setup) command(ctx context.Context, env []string, argv ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if os.Getuid() == 0 {
		c.SysProcAttr.Credential = &syscall.Credential{Uid: s.uid, Gid: s.gid()}
	}
	c.Dir, c.Env, c.WaitDelay = s.dir, append(os.Environ(), append(env, "PEERS="+s.peers)...), 2*time.Second
	return c
}

// run runs a command to its end.
func (s *setup) run(env []string, argv ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	out, err := s.command(ctx, env, argv...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%v: %w: %s", argv, err, out)
	}
	return nil
}

// client runs a peer on the host; it has to succeed.
func (s *setup) client(role string, args ...string) {
	s.t.Helper()
	if err := s.run([]string{"PASST_ROLE=" + role}, append([]string{s.peers}, args...)...); err != nil {
		s.t.Errorf("%s: %v", role, err)
	}
}

// start starts a command; it is killed at the end of the test.
func (s *setup) start(env []string, argv ...string) *proc {
	s.t.Helper()
	p := &proc{s: s, cmd: s.command(context.Background(), env, argv...), out: new(output), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	if err := p.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.done)
	}()
	s.t.Cleanup(func() {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		<-p.done
	})
	return p
}

func (s *setup) peer(role string, args ...string) *proc {
	s.t.Helper()
	return s.start([]string{"PASST_ROLE=" + role}, append([]string{s.peers}, args...)...)
}

func (s *setup) log(name string) string { return filepath.Join(s.dir, name+".strace") }

// traced starts pasta under strace, with raw arguments: as a filter sees them.
func (s *setup) traced(name string, env []string, args ...string) *proc {
	s.t.Helper()
	return s.start(env, append([]string{"strace", "-f", "-s", "200", "-o", s.log(name), "-e", "raw=!execve,execveat", s.pasta}, args...)...)
}

// tracee gives the process that strace started.
func (p *proc) tracee() int {
	p.s.t.Helper()
	for _, c := range children(p.cmd.Process.Pid) {
		return c
	}
	p.s.t.Fatal("strace has no child")
	return 0
}

// children lists the direct children of a process.
func children(pid int) []int {
	var out []int
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		b, err := os.ReadFile(d + "/stat")
		i := bytes.LastIndexByte(b, ')')
		if err != nil || i < 0 {
			continue
		}
		if f := strings.Fields(string(b[i+1:])); len(f) > 1 && f[1] == strconv.Itoa(pid) {
			c, _ := strconv.Atoi(filepath.Base(d))
			out = append(out, c)
		}
	}
	return out
}

func (p *proc) waitFor(text string) {
	p.s.t.Helper()
	until(p.s.t, 120*time.Second, strconv.Quote(text), func() bool {
		if strings.Contains(p.out.String(), text) {
			return true
		}
		select {
		case <-p.done:
			if !strings.Contains(p.out.String(), text) {
				p.s.t.Fatalf("%v ended before it printed %q: %s", p.cmd.Args, text, p.out)
			}
		default:
		}
		return false
	})
}

// until polls a condition with a deadline.
func until(t *testing.T, limit time.Duration, what string, ok func() bool) {
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

// freePort gives a TCP and UDP port that nothing on the host uses, each time another one.
func (s *setup) freePort() int {
	s.t.Helper()
	for range 500 {
		s.port++
		port := 20000 + (os.Getpid()*16+s.port)%10000
		l, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
		if err != nil {
			continue
		}
		u, err := net.ListenPacket("udp", fmt.Sprintf(":%d", port))
		l.Close()
		if err == nil {
			u.Close()
			return port
		}
	}
	s.t.Fatal("no free port")
	return 0
}

// filtered tells of a process under a seccomp filter.
func filtered(pid int) bool {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return bytes.Contains(b, []byte("Seccomp:\t2"))
}
