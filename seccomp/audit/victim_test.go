// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bytes"
	"fmt"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"passt/seccomp"
)

func command(task string) *exec.Cmd {
	c := exec.Command("/proc/self/exe")
	c.Env = []string{victimEnv + "=" + task, "GOMAXPROCS=1",
		"GODEBUG=asyncpreemptoff=1,updatemaxprocs=0,containermaxprocs=0,decoratemappings=0"}
	return c
}

// outcome runs a victim; what it printed is for the reader of a failure.
func outcome(t testing.TB, task string) (syscall.WaitStatus, string) {
	t.Helper()
	c := command(task)
	out, err := c.CombinedOutput()
	if c.ProcessState == nil {
		t.Fatalf("start victim: %v", err)
	}
	return c.ProcessState.Sys().(syscall.WaitStatus), string(out)
}

func needFilter(t testing.TB) {
	t.Helper()
	if seccomp.Program(seccomp.WorkerPasta, runtime.GOARCH) == nil {
		t.Skip("no programs for " + runtime.GOARCH)
	}
	c := command("worker-pasta calls")
	if err := c.Run(); c.ProcessState != nil && c.ProcessState.ExitCode() == noFilter {
		t.Skipf("this system refuses seccomp filters: %v", err)
	}
}

// notCalled lists allowed calls that a victim cannot survive, or cannot make by itself.
var notCalled = map[string]string{
	"rt_sigreturn": "needs a signal frame: the signals of the runtime test",
	"exit_group":   "the end of every victim",
	"clone":        "a thread without the runtime's preparation: the threads test",
}

// samples gives one allowed call for each way to fulfil each rule. Free arguments are all ones: bad descriptors and
// pointers, so that an allowed call changes nothing.
func samples(role seccomp.Role, arch string) (out []Data, rules []seccomp.Rule) {
	byName, _ := seccomp.Numbers(arch)
	for _, r := range seccomp.Rules(role, arch) {
		for _, m := range Expand(&r) {
			d := Data{Nr: byName[r.Call], Arch: ArchToken(arch), Args: [6]uint64{1<<64 - 1, 1<<64 - 1, 1<<64 - 1, 1<<64 - 1, 1<<64 - 1, 1<<64 - 1}}
			for _, c := range m {
				d.Args[c.Arg] = c.Value
			}
			out, rules = append(out, d), append(rules, r)
		}
	}
	return
}

func TestVictim_AllowedCalls_Pass(t *testing.T) {
	needFilter(t)
	for _, role := range seccomp.Roles() {
		task, n := role.String()+" calls", 0
		calls, rules := samples(role, runtime.GOARCH)
		for i := range calls {
			if notCalled[rules[i].Call] == "" {
				task += " " + format(&calls[i])
				n++
			}
		}
		if ws, out := outcome(t, task); ws.ExitStatus() != through {
			t.Errorf("%s: one of %d allowed calls ended the victim: %#x %s", role, n, ws, out)
		}
	}
}

// beside gives, for each argument of an allowed call that some rule looks at, the same call with the nearest value
// that no rule allows; and the next number that is not in the list.
func beside(d Data, r *seccomp.Rule, rules []seccomp.Rule, byName map[string]uint32, arch string) (out []Data) {
	for _, c := range r.Args {
		for _, delta := range []uint64{1, ^uint64(0), 1 << 32, 1 << 63, 1 << 40} {
			x := d
			x.Args[c.Arg] = d.Args[c.Arg] + delta
			if !allowed(rules, byName, arch, &x) {
				out = append(out, x)
				if delta == 1<<32 || c.Mask != fullMask { // one just beside, one with a bit of the upper half
					break
				}
			}
		}
	}
	return out
}

func TestVictim_CallsJustNotAllowed_DieBySIGSYS(t *testing.T) {
	needFilter(t)
	arch := runtime.GOARCH
	byName, _ := seccomp.Numbers(arch)
	type job struct {
		task, what string
	}
	var jobs []job
	for _, role := range seccomp.Roles() {
		rules := seccomp.Rules(role, arch)
		calls, of := samples(role, arch)
		seen := map[string]bool{}
		add := func(d Data, what string) {
			if s := format(&d); !seen[s] {
				seen[s] = true
				jobs = append(jobs, job{role.String() + " calls " + s, fmt.Sprintf("%s: %s with %#x", role, what, d.Args)})
			}
		}
		for i := range calls {
			for _, d := range beside(calls[i], &of[i], rules, byName, arch) {
				add(d, of[i].Call)
			}
		}
		for _, name := range []string{"openat", "execve", "ptrace", "mprotect", "setns", "bpf", "sendmmsg", "unshare", "kill", "clone3"} {
			add(Data{Nr: byName[name], Args: [6]uint64{1<<64 - 1, 0, 0, 0, 0, 0}}, name)
		}
		if arch == "amd64" {
			add(Data{Nr: 1<<30 | byName["write"]}, "x32 write")
		}
	}
	if testing.Short() {
		jobs = jobs[:20]
	}
	queue := make(chan job)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for j := range queue {
				if ws, out := outcome(t, j.task); !ws.Signaled() || ws.Signal() != unix.SIGSYS {
					t.Errorf("%s: status %#x %s", j.what, ws, out)
				}
			}
		})
	}
	for _, j := range jobs {
		queue <- j
	}
	close(queue)
	wg.Wait()
	t.Logf("%d victims", len(jobs))
}

func TestVictim_GoRuntime_LivesOnItsRules(t *testing.T) {
	needFilter(t)
	for _, task := range []string{"worker-pasta runtime", "supervisor runtime", "supervisor threads", "agent threads"} {
		if ws, out := outcome(t, task); ws.ExitStatus() != through {
			t.Errorf("%s: %#x %s", task, ws, out)
		}
	}
}

func TestVictim_Panic_IsPrinted(t *testing.T) {
	needFilter(t)
	for _, role := range seccomp.Roles() {
		if ws, out := outcome(t, role.String()+" panic"); ws.ExitStatus() != 2 || !strings.Contains(out, "the end of a victim") || !strings.Contains(out, "tasks_test.go") {
			t.Errorf("%s: %#x %s", role, ws, out)
		}
	}
}

func TestVictim_Interrupt_EndsBrokersByThatSignal(t *testing.T) {
	needFilter(t)
	for _, role := range []seccomp.Role{seccomp.Supervisor, seccomp.Agent} {
		c := command(role.String() + " signal")
		r, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		var stderr bytes.Buffer
		c.Stderr = &stderr
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		_, _ = r.Read(make([]byte, 16)) // "ready", or the end
		_ = c.Process.Signal(unix.SIGINT)
		_ = c.Wait()
		if ws := c.ProcessState.Sys().(syscall.WaitStatus); !ws.Signaled() || ws.Signal() != unix.SIGINT {
			t.Errorf("%s: %#x %s", role, ws, stderr.String())
		}
	}
}

func TestLoad_UnknownRole_IsRefused(t *testing.T) {
	if err := seccomp.Load(99); err == nil || !strings.Contains(err.Error(), "role 99") {
		t.Error(err)
	}
}

// BenchmarkFilter measures the cost of one call with and without the worker's filter: the first rules, the last ones,
// a rule without conditions.
func BenchmarkFilter(b *testing.B) {
	needFilter(b)
	byName, _ := seccomp.Numbers(runtime.GOARCH)
	const bad = 1<<64 - 1
	for _, c := range []struct {
		name string
		d    Data
	}{
		{"read", Data{Nr: byName["read"], Args: [6]uint64{bad}}},
		{"sendto", Data{Nr: byName["sendto"], Args: [6]uint64{bad}}},
		{"epoll_ctl", Data{Nr: byName["epoll_ctl"], Args: [6]uint64{bad, 1}}},
		{"setsockopt", Data{Nr: byName["setsockopt"], Args: [6]uint64{bad, unix.IPPROTO_UDP, unix.UDP_SEGMENT}}},
		{"madvise", Data{Nr: byName["madvise"], Args: [6]uint64{bad, 0, unix.MADV_DONTNEED}}},
	} {
		for _, role := range []string{"none", seccomp.WorkerPasta.String()} {
			b.Run(c.name+"/"+role, func(b *testing.B) {
				_, out := outcome(b, fmt.Sprintf("%s time %s %d", role, format(&c.d), b.N))
				ns, err := strconv.ParseFloat(strings.TrimSpace(out), 64)
				if err != nil {
					b.Fatal(out)
				}
				b.ReportMetric(ns/float64(b.N), "ns/call")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
