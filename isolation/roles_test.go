// SPDX-License-Identifier: Apache-2.0

package isolation

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"passt/internal/sys"
)

// The tests run the real thing: this test binary starts itself as a supervisor ("test:super", often as an ordinary
// user), which starts it again in the roles of the program. The test looks at them through /proc from outside.

const (
	roleSuper = "test:super"
	roleSleep = "test:sleep"
	roleLinks = "test:links"
	testUID   = 61234
	testGID   = 61235
)

func init() { runtime.LockOSThread() } // the roles work on the main thread

func TestMain(m *testing.M) {
	switch os.Args[0] {
	case RoleWorker:
		fail(WorkerStage1(os.Args))
	case RoleWorker2:
		abi, err := WorkerStage2()
		fail(err)
		_, _ = fmt.Fprintf(os.NewFile(3, "ready"), "abi %d\n", abi)
		waitEOF(os.NewFile(4, "release"))
	case RoleAgent:
		agentMain()
	case RoleLaunch:
		for _, w := range LauncherSetup(os.Args[1]) {
			fmt.Fprintln(os.Stderr, "warning:", w)
		}
		status, err := LauncherExec(3, os.Args[2], os.Args[2:])
		fmt.Fprintln(os.Stderr, err)
		os.Exit(status)
	case roleSleep:
		waitEOF(os.Stdin)
	case roleLinks:
		for _, p := range os.Args[1:] {
			_, err := os.Readlink(p)
			fail(err)
		}
	case roleSuper:
		fail(CloseFrom(3))
		scenarios[os.Args[1]](os.Args[2:])
	default:
		os.Exit(m.Run())
	}
	os.Exit(0)
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		fmt.Println("error:", err)
		os.Exit(3)
	}
}

func waitEOF(r io.Reader) { _, _ = io.Copy(io.Discard, r) }

// rope is a pipe whose end a child gets.
func rope() (r, w *os.File) {
	r, w, err := os.Pipe()
	fail(err)
	return r, w
}

func fdOf(f *os.File) sys.FD { return sys.FD(f.Fd()) }

// super is a running supervisor: its lines, and its end when stdin closes.
type super struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string
}

type superOpts struct {
	uid    int // 0: as the test
	mapTo  int // with userns: the id inside
	userns bool
	leak   bool // descriptor 77
	stdin  *os.File
}

func startSuper(t *testing.T, o superOpts, args ...string) *super {
	t.Helper()
	if _, _, e := syscall.AllThreadsSyscall(syscall.SYS_GETPID, 0, 0, 0); e == syscall.ENOTSUP {
		t.Skip("built with cgo (-race?): no system calls on all threads")
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = append([]string{roleSuper}, args...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	uid := os.Getuid()
	if o.uid != 0 && uid == 0 {
		uid = o.uid
		if !o.userns {
			cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(o.uid), Gid: uint32(o.uid)}
		}
	}
	if o.userns {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: o.mapTo, HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: o.mapTo, HostID: uid, Size: 1}}
		if o.uid != 0 {
			cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(o.mapTo), Gid: uint32(o.mapTo), NoSetGroups: true}
		}
	}
	if o.leak {
		cmd.ExtraFiles = make([]*os.File, 75)
		cmd.ExtraFiles[74] = os.Stderr
	}
	cmd.Stderr = os.Stderr
	s := &super{t: t, cmd: cmd, lines: make(chan string, 256)}
	out, err := cmd.StdoutPipe()
	check(t, err)
	if o.stdin != nil {
		cmd.Stdin = o.stdin
	} else {
		s.in, err = cmd.StdinPipe()
		check(t, err)
	}
	check(t, cmd.Start())
	go func() {
		for sc := bufio.NewScanner(out); sc.Scan(); {
			s.lines <- sc.Text()
		}
		close(s.lines)
	}()
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return s
}

// line waits for the next line with this first word and gives the rest.
func (s *super) line(word string) string {
	s.t.Helper()
	deadline := time.After(5 * time.Second)
	for {
		select {
		case l, ok := <-s.lines:
			if !ok {
				s.t.Fatalf("supervisor ended before it said %q", word)
			}
			if first, rest, _ := strings.Cut(l, " "); first == word {
				return rest
			} else if first == "error:" || first == "leak" {
				s.t.Fatalf("waiting for %q: %s", word, l)
			}
		case <-deadline:
			s.t.Fatalf("no line %q", word)
		}
	}
}

func (s *super) number(word string) int {
	s.t.Helper()
	var n int
	if _, err := fmt.Sscan(s.line(word), &n); err != nil {
		s.t.Fatalf("%s: %v", word, err)
	}
	return n
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("looks at other users' processes: needs root")
	}
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}

// statuses gives the fields of /proc/PID/task/*/status.
func statuses(t *testing.T, pid int) []map[string]string {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/task", pid)
	tasks, err := os.ReadDir(dir)
	check(t, err)
	var all []map[string]string
	for _, task := range tasks {
		b, err := os.ReadFile(dir + "/" + task.Name() + "/status")
		check(t, err)
		all = append(all, fields(string(b)))
	}
	return all
}

func fields(status string) map[string]string {
	m := map[string]string{}
	for l := range strings.Lines(status) {
		k, v, _ := strings.Cut(l, ":")
		m[k] = strings.Join(strings.Fields(v), " ")
	}
	return m
}

// wantCaps checks the five sets of every thread and no_new_privs; bounding -1 is not looked at.
func wantCaps(t *testing.T, pid int, caps uint64, bounding int64) {
	t.Helper()
	for i, st := range statuses(t, pid) {
		want := map[string]string{
			"CapInh": fmt.Sprintf("%016x", 0), "CapAmb": fmt.Sprintf("%016x", 0), "NoNewPrivs": "1",
			"CapPrm": fmt.Sprintf("%016x", caps), "CapEff": fmt.Sprintf("%016x", caps),
		}
		if bounding >= 0 {
			want["CapBnd"] = fmt.Sprintf("%016x", bounding)
		}
		for k, v := range want {
			if st[k] != v {
				t.Errorf("thread %d: %s is %s, want %s", i, k, st[k], v)
			}
		}
	}
}

func gone(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return err != nil || strings.HasPrefix(fields(string(b))["State"], "Z")
}
