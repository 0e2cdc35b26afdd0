// SPDX-License-Identifier: Apache-2.0

package isolation

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

var nsKinds = []string{"user", "mnt", "pid", "ipc", "uts", "net", "cgroup"}

func checkWorker(t *testing.T, s *super, pid int) {
	t.Helper()
	wantCaps(t, pid, 0, 0)
	st := statuses(t, pid)
	if len(st) < warmThreads {
		t.Errorf("%d threads, want at least %d", len(st), warmThreads)
	}
	for _, k := range nsKinds {
		a, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, k))
		check(t, err)
		b, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", s.cmd.Process.Pid, k))
		check(t, err)
		if a == b {
			t.Errorf("namespace %s is the supervisor's", k)
		}
	}
	if d, err := os.ReadDir(fmt.Sprintf("/proc/%d/root", pid)); err != nil || len(d) != 0 {
		t.Errorf("root has %d entries (%v)", len(d), err)
	}
	dev, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/dev", pid))
	check(t, err)
	if n := strings.Count(string(dev), "\n"); n != 3 || !strings.Contains(string(dev), "lo:") {
		t.Errorf("network devices:\n%s", dev)
	}
	for _, p := range []int{pid, s.cmd.Process.Pid} {
		if _, err := os.Lstat(fmt.Sprintf("/proc/%d/fd/77", p)); err == nil {
			t.Errorf("process %d has the leaked descriptor 77", p)
		}
	}
	if _, err := os.Lstat(fmt.Sprintf("/proc/%d/fd/88", pid)); err == nil {
		t.Error("worker has a descriptor that it was not handed")
	}
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	check(t, err)
	if strings.Contains(string(maps), "[anon: Go") {
		t.Error("the runtime names its mappings: the filter would kill it")
	}
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
	check(t, err)
	for name, want := range map[string]string{"Max core file size": "0 0", "Max data size": "1073741824 1073741824",
		"Max locked memory": "0 0", "Max processes": "0 0", "Max msgqueue size": "0 0"} {
		for l := range strings.Lines(string(limits)) {
			if rest, ok := strings.CutPrefix(l, name); ok && !strings.HasPrefix(strings.Join(strings.Fields(rest), " "), want) {
				t.Errorf("%s: %s, want %s", name, rest, want)
			}
		}
	}
}

// deniedOnAll is the only answer that openOnThreads may give under Landlock.
const deniedOnAll = "map[open /etc/passwd: permission denied:true]"

func mountLines(t *testing.T, pid int) []string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/mounts", pid))
	check(t, err)
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

func TestStartWorker_EachKindOfCaller_HasNoRights(t *testing.T) {
	needRoot(t)
	for name, o := range map[string]superOpts{
		"root":     {leak: true},
		"user":     {uid: testUID, leak: true},
		"fakeRoot": {uid: testUID, userns: true, leak: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := startSuper(t, o, "worker")
			t.Logf("confined after %s µs, landlock ABI %s", s.line("took"), s.line("abi"))
			pid := s.number("pid")
			checkWorker(t, s, pid)
			if m := mountLines(t, pid); len(m) != 1 || !strings.Contains(m[0], " / tmpfs ro,") {
				t.Errorf("mounts: %q", m)
			}
			if got := statuses(t, pid)[0]["Uid"]; o.uid != 0 && got != "61234 61234 61234 61234" {
				t.Errorf("uid %s", got)
			}
			check(t, s.in.Close())
			if st := s.number("status"); st != 0 {
				t.Errorf("status %d", st)
			}
		})
	}
}

func TestStartWorker_ChrootFallback_RootIsEmpty(t *testing.T) {
	needRoot(t)
	s := startSuper(t, superOpts{uid: testUID}, "worker", "fallback")
	checkWorker(t, s, s.number("pid"))
}

func TestStartWorker_SupervisorKilled_WorkerEnds(t *testing.T) {
	s := startSuper(t, superOpts{uid: testUID}, "worker")
	pid := s.number("pid")
	check(t, s.cmd.Process.Kill())
	until(t, "worker ends", func() bool { return gone(pid) })
}

func TestStartWorker_NoNamespacesAllowed_ErrNamesSetting(t *testing.T) {
	s := startSuper(t, superOpts{uid: testUID, userns: true}, "limit")
	got := s.line("refused")
	if !strings.Contains(got, ErrNoUserNS.Error()) || !strings.Contains(got, "user.max_user_namespaces is 0") {
		t.Errorf("error: %s", got)
	}
}

func TestBecomeUser_Root_IdsGoneAndWorkerStarts(t *testing.T) {
	needRoot(t)
	s := startSuper(t, superOpts{}, "become", fmt.Sprintf("%d:0x%x", testUID, testGID))
	self := s.number("self")
	for _, st := range statuses(t, self) {
		if st["Uid"] != "61234 61234 61234 61234" || st["Gid"] != "61235 61235 61235 61235" || st["Groups"] != "" {
			t.Errorf("uid %s gid %s groups %q", st["Uid"], st["Gid"], st["Groups"])
		}
		if st["CapEff"] != "0000000000000000" || st["CapPrm"] != "0000000000000000" {
			t.Errorf("capabilities %s %s", st["CapEff"], st["CapPrm"])
		}
	}
	checkWorker(t, s, s.number("pid"))
}

func TestJoinAndStart_EachKindOfTarget_AgentKeepsNamedCaps(t *testing.T) {
	needRoot(t)
	for name, c := range map[string]struct {
		o    superOpts
		args []string
	}{
		"user, unshare -Urn":   {superOpts{uid: testUID, leak: true}, []string{"unshare"}},
		"user, id 0":           {superOpts{uid: testUID}, []string{"user", "0"}},
		"user, id 1000":        {superOpts{uid: testUID}, []string{"user", "1000"}},
		"fake root, net alone": {superOpts{uid: testUID, userns: true}, []string{"net", "0"}},
		"root, net alone":      {superOpts{}, []string{"net", "0"}},
		"root, user and net":   {superOpts{}, []string{"user", "0"}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath("unshare"); c.args[0] == "unshare" && err != nil {
				t.Skip("no unshare(1) here")
			}
			s := startSuper(t, c.o, append([]string{"join"}, c.args...)...)
			t.Logf("executing after %s µs", s.line("took"))
			tgt, pid := s.number("target"), s.number("pid")
			const both = "0000000000001400"
			if got := s.line("caps"); got != both+" "+both+" "+both {
				t.Errorf("capabilities after the exec: %s", got)
			}
			if got := s.line("signals"); got != "0000000000000000" {
				t.Errorf("blocked signals: %s", got)
			}
			if got := s.line("fds"); got != "0,1,2,3,4" {
				t.Errorf("descriptors: %s", got)
			}
			if got := s.line("open"); !strings.HasPrefix(got, "0 ") && got[2:] != deniedOnAll {
				t.Errorf("open after the lock-down: %s", got)
			}
			if got := s.line("listening"); got != "<nil>" {
				t.Errorf("listen on port 80: %s", got)
			}
			s.line("ready")
			wantCaps(t, pid, 1<<CapNetBindService, 1<<CapNetBindService|1<<CapNetAdmin)
			for _, k := range []string{"user", "net"} {
				a, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, k))
				b, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", tgt, k))
				if a == "" || a != b {
					t.Errorf("namespace %s: %q, target's %q", k, a, b)
				}
			}
			check(t, s.cmd.Process.Kill())
			until(t, "agent ends", func() bool { return gone(pid) })
		})
	}
}

func TestJoinAndStart_Refused_SaysStepAndName(t *testing.T) {
	needRoot(t) // to be an ordinary user for sure
	s := startSuper(t, superOpts{uid: testUID}, "refused")
	for _, w := range []struct{ word, want string }{
		{"net", "join network namespace /proc/self/ns/net: operation not permitted"},
		{"user", "join user namespace /proc/self/ns/user: invalid argument"}, // one's own
		{"kind", "join user namespace /proc/self/ns/net: invalid argument"},
		{"children", "no child processes"}, // the failed ones are reaped
	} {
		if got := s.line(w.word); got != w.want {
			t.Errorf("%s, want %s", got, w.want)
		}
	}
}

const launchScript = `echo id $(id -u) $$ $(hostname); echo ping $(cat /proc/sys/net/ipv4/ping_group_range)
while read k v; do case $k in SigBlk:|SigIgn:|CapEff:|CapPrm:) echo $k $v;; esac; done < /proc/$$/status
for n in 3 4 5 6 7 8 77; do [ -e /proc/$$/fd/$n ] && echo leak $n; done; echo cwd $(pwd); exit 7`

func TestLauncher_Command_OwnsNamespaces(t *testing.T) {
	for name, o := range map[string]superOpts{"user": {uid: testUID, leak: true}, "netns-only": {}} {
		t.Run(name, func(t *testing.T) {
			if name == "netns-only" {
				needRoot(t)
			}
			s := startSuper(t, o, "launch", name, "host.example", "sh", "-c", launchScript)
			s.number("pid")
			_, err := s.in.Write([]byte{1})
			check(t, err)
			for _, w := range []struct{ word, want string }{
				{"id", "0 1 host.example"}, {"ping", "0 0"}, {"CapPrm:", ""}, {"cwd", "/"}, {"status", "7"},
			} {
				if got := s.line(w.word); w.want != "" && got != w.want {
					t.Errorf("%s: %q, want %q", w.word, got, w.want)
				}
			}
		})
	}
}

func TestLauncher_SignalState_IsCallers(t *testing.T) {
	s := startSuper(t, superOpts{uid: testUID}, "launch", "user", "", "sh", "-c", launchScript)
	_, err := s.in.Write([]byte{1})
	check(t, err)
	own, err := os.ReadFile("/proc/thread-self/status")
	check(t, err)
	for _, k := range []string{"SigBlk", "SigIgn"} {
		if got := s.line(k + ":"); got != fields(string(own))[k] {
			t.Errorf("%s %s, the caller's is %s", k, got, fields(string(own))[k])
		}
	}
	if got := s.line("CapEff:"); !strings.HasSuffix(got, "ffffffff") {
		t.Errorf("capabilities inside: %s", got)
	}
	s.line("status")
}

func TestLauncher_CommandNotStartable_ShellStatus(t *testing.T) {
	for cmd, want := range map[string]int{"no-such-command-here": 127, "/no/such/file": 127, "/etc/passwd": 126, "/etc/passwd/x": 127} {
		s := startSuper(t, superOpts{uid: testUID}, "launch", "user", "h", cmd)
		_, err := s.in.Write([]byte{1})
		check(t, err)
		if got := s.number("status"); got != want {
			t.Errorf("%s: status %d, want %d", cmd, got, want)
		}
	}
}

func TestLauncher_SupervisorKilled_EndsOnlyBeforeRelease(t *testing.T) {
	s := startSuper(t, superOpts{uid: testUID}, "launch", "user", "h", "sleep", "1000")
	pid := s.number("pid")
	check(t, s.cmd.Process.Kill())
	until(t, "launcher ends", func() bool { return gone(pid) })

	s = startSuper(t, superOpts{uid: testUID}, "launch", "user", "h", "sh", "-c", "echo running; exec sleep 1000")
	pid = s.number("pid")
	_, err := s.in.Write([]byte{1})
	check(t, err)
	s.line("running")
	check(t, s.cmd.Process.Kill())
	_, _ = s.cmd.Process.Wait()
	if gone(pid) {
		t.Error("command died with the supervisor")
	}
	check(t, syscall.Kill(pid, syscall.SIGKILL))
}

func TestLockdownSupervisor_EachKindOfCaller_WorksWithoutRights(t *testing.T) {
	needRoot(t)
	for name, o := range map[string]superOpts{"root": {}, "user": {uid: testUID}, "fakeRoot": {uid: testUID, userns: true}} {
		t.Run(name, func(t *testing.T) {
			s := startSuper(t, o, "lock")
			t.Logf("locked down in %s µs", s.line("took"))
			if got := s.line("open"); !strings.HasPrefix(got, "0 ") && got[2:] != deniedOnAll {
				t.Errorf("open: %s", got)
			}
			if got := s.line("dial"); got != "<nil>" {
				t.Errorf("connect: %s", got)
			}
			if k, r := s.line("kill"), s.line("reaped"); k != "<nil>" || r != "signal: killed" {
				t.Errorf("kill: %s, reaped: %s", k, r)
			}
			pid := s.number("pid")
			bounding := int64(0)
			if name == "user" {
				bounding = -1
			}
			wantCaps(t, pid, 0, bounding)
			if name == "user" {
				cmd := exec.Command("/proc/self/exe")
				cmd.Args = []string{roleLinks, fmt.Sprintf("/proc/%d/ns/user", pid)}
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: testUID, Gid: testUID}}
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("namespace link unreadable for the same user: %s", out)
				}
			}
		})
	}
}

func TestFillStdio_AllClosed_NullOnEach(t *testing.T) {
	s := startSuper(t, superOpts{}, "stdio")
	if got := s.line("stdio"); got != "<nil> [/dev/null /dev/null /dev/null]" {
		t.Error(got)
	}
}

func TestCloseFrom_NonblockingStdin_PollerSurvives(t *testing.T) {
	r, w, err := os.Pipe()
	check(t, err)
	defer func() { _ = w.Close() }()
	check(t, syscall.SetNonblock(int(r.Fd()), true))
	s := startSuper(t, superOpts{leak: true, stdin: r}, "nonblock")
	if got := s.line("read"); got != "<nil> lstat /proc/self/fd/77: no such file or directory" {
		t.Error(got)
	}
}

func TestInInitialUserNS_InsideNewOne_False(t *testing.T) {
	if got := startSuper(t, superOpts{uid: testUID, userns: true}, "whoami").line("initial"); got != "false" {
		t.Error(got)
	}
}
