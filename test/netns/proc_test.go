// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// allowPing lets the ordinary user make ping sockets, and puts the sysctl back.
func allowPing(t *testing.T) {
	t.Helper()
	const name = "/proc/sys/net/ipv4/ping_group_range"
	b, err := os.ReadFile(name)
	if err != nil {
		t.Skip(err)
	}
	f := strings.Fields(string(b))
	lo, _ := strconv.Atoi(f[0])
	hi, _ := strconv.Atoi(f[1])
	gid := os.Getgid()
	if gid == 0 {
		gid = testUID
	}
	if lo <= gid && gid <= hi {
		return
	}
	if os.WriteFile(name, []byte("0 2147483647"), 0) != nil {
		t.Skipf("net.ipv4.ping_group_range is %q and may not be changed here", strings.TrimSpace(string(b)))
	}
	t.Cleanup(func() { _ = os.WriteFile(name, b, 0) })
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: it looks into /proc of a process that hides itself")
	}
}

// threadStatus reads one field of every thread of a process.
func threadStatus(t *testing.T, pid int, field string) []string {
	t.Helper()
	dirs, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if len(dirs) == 0 {
		t.Fatalf("process %d has no threads", pid)
	}
	var out []string
	for _, d := range dirs {
		b, err := os.ReadFile(d)
		if err != nil {
			t.Fatal(err)
		}
		for l := range strings.Lines(string(b)) {
			if v, ok := strings.CutPrefix(l, field+":"); ok {
				out = append(out, strings.TrimSpace(v))
			}
		}
	}
	return out
}

func all(t *testing.T, pid int, who, field, want string) {
	t.Helper()
	for _, v := range threadStatus(t, pid, field) {
		if v != want {
			t.Errorf("%s: a thread has %s %s, want %s", who, field, v, want)
		}
	}
}

const (
	noCaps  = "0000000000000000"
	netBind = "0000000000000400"
)

// isolation.md check 2: every thread of all three processes.
func TestProc_EveryThread_HasNoRights(t *testing.T) {
	needRoot(t)
	p := startInside(t, noPorts, "hold")
	worker, agent := p.roles(t)
	for _, c := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		all(t, worker, "worker", c, noCaps)
	}
	for _, c := range []string{"CapInh", "CapPrm", "CapEff", "CapAmb"} {
		all(t, p.cmd.Process.Pid, "supervisor", c, noCaps)
	}
	for _, c := range []string{"CapPrm", "CapEff", "CapBnd"} {
		for _, v := range threadStatus(t, agent, c) {
			if v != noCaps && v != netBind {
				t.Errorf("agent: a thread has %s %s", c, v)
			}
		}
	}
	for name, pid := range map[string]int{"worker": worker, "agent": agent, "supervisor": p.cmd.Process.Pid} {
		all(t, pid, name, "NoNewPrivs", "1")
		all(t, pid, name, "Seccomp", "2")
	}
}

// isolation.md checks 3, 4.
func TestProc_Worker_EmptyRootOwnNamespaces(t *testing.T) {
	needRoot(t)
	p := startInside(t, noPorts, "hold")
	worker, _ := p.roles(t)
	ents, err := os.ReadDir(fmt.Sprintf("/proc/%d/root", worker))
	if err != nil || len(ents) != 0 {
		t.Errorf("root of the worker: %v %v", ents, err)
	}
	m, err := os.ReadFile(fmt.Sprintf("/proc/%d/mounts", worker))
	if lines := strings.Split(strings.TrimSpace(string(m)), "\n"); err != nil || len(lines) != 1 || !strings.Contains(lines[0], " ro,") {
		t.Errorf("mounts of the worker: %q %v", m, err)
	}
	for _, ns := range []string{"net", "user", "mnt", "pid", "ipc", "uts", "cgroup"} {
		mine, _ := os.Readlink("/proc/self/ns/" + ns)
		its, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", worker, ns))
		if err != nil || its == mine || its == "" {
			t.Errorf("%s namespace of the worker: %q, ours %q: %v", ns, its, mine, err)
		}
	}
	dev, _ := os.ReadFile(fmt.Sprintf("/proc/%d/net/dev", worker))
	if n := strings.Count(string(dev), ":"); n != 1 {
		t.Errorf("interfaces of the worker:\n%s", dev)
	}
}

// isolation.md check 9: a descriptor that the caller leaks is in none of the processes.
func TestProc_LeakedDescriptor_ClosedEverywhere(t *testing.T) {
	needRoot(t)
	leak := filepath.Join(workDir, "leaked")
	if err := os.WriteFile(leak, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	p := start(t, []string{"PASST_ROLE=hold"}, "sh", "-c",
		fmt.Sprintf("exec 7<%s; exec %s --config-net %s -- %s", leak, pastaBin, strings.Join(noPorts, " "), selfBin))
	p.waitFor(t, "ready")
	worker, agent := p.roles(t)
	for name, pid := range map[string]int{"worker": worker, "agent": agent, "supervisor": p.cmd.Process.Pid} {
		fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		if len(fds) == 0 {
			t.Errorf("%s: no descriptors seen", name)
		}
		for _, f := range fds {
			if to, _ := os.Readlink(f); to == leak {
				t.Errorf("%s still holds the leaked file as %s", name, f)
			}
		}
	}
}

// gone waits until none of the processes is left: no orphan, no zombie. One that process 1 has inherited is that one's to reap.
func gone(t *testing.T, limit time.Duration, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		wait(t, limit, fmt.Sprintf("end of process %d (%s %v)", pid, argv0(pid), statFields(pid)), func() bool {
			f := statFields(pid)
			return f == nil || f[0] == "Z" && f[1] == "1"
		})
	}
}

// isolation.md check 13 and issue item 6: each process is killed in turn.
func TestKill_EachProcess_EndsTheServiceCleanly(t *testing.T) {
	for _, victim := range []string{"worker", "agent", "supervisor"} {
		t.Run(victim, func(t *testing.T) {
			p := startInside(t, noPorts, "hold")
			worker, agent := p.roles(t)
			pid := map[string]int{"worker": worker, "agent": agent, "supervisor": p.cmd.Process.Pid}[victim]
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			st := p.status(t, 3*time.Second)
			if st == 0 {
				t.Error("exit status 0")
			}
			gone(t, time.Second, worker, agent)
			if victim != "supervisor" && !strings.Contains(p.out.String(), "SIGKILL") {
				t.Errorf("no line says why: %s", p.out)
			}
		})
	}
}

func TestTerminate_Supervisor_Status0NothingLeft(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGQUIT} {
		p := startInside(t, noPorts, "hold")
		worker, agent := p.roles(t)
		_ = p.cmd.Process.Signal(sig)
		if st := p.status(t, 3*time.Second); st != 0 {
			t.Errorf("%v: status %d: %s", sig, st, p.out)
		}
		gone(t, time.Second, worker, agent)
	}
}
