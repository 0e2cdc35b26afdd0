// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"passt/seccomp"
	"passt/seccomp/audit"
)

// usage is what one role's processes called after their filters, over all runs.
type usage struct {
	role      seccomp.Role
	rules     []seccomp.Rule
	times     []int
	processes int
	calls     int
	forbidden map[string]int
	signals   map[string]int // delivered to processes of this role after the filter
}

// tally collects over several logs.
type tally struct {
	byName map[string]uint32
	of     map[seccomp.Role]*usage
}

func newTally() *tally {
	t := &tally{of: map[seccomp.Role]*usage{}}
	t.byName, _ = seccomp.Numbers(runtime.GOARCH)
	for _, r := range seccomp.Roles() {
		rules := seccomp.Rules(r, runtime.GOARCH)
		t.of[r] = &usage{role: r, rules: rules, times: make([]int, len(rules)), forbidden: map[string]int{}, signals: map[string]int{}}
	}
	return t
}

var (
	callLine   = regexp.MustCompile(`^(\d+) +(\w+)\((.*)$`)
	execLine   = regexp.MustCompile(`^(\d+) +execve(?:at)?\(.*?\["((?:[^"\\]|\\.)*)"`)
	signalLine = regexp.MustCompile(`^(\d+) +--- (SIG\w+) `)
)

// roleOf gives the role that a process has by its first argument.
func roleOf(argv0 string) seccomp.Role {
	switch {
	case strings.HasPrefix(argv0, "passt:worker"):
		return seccomp.WorkerPasta
	case argv0 == "passt:agent":
		return seccomp.Agent
	case argv0 == "passt:main", filepath.Base(argv0) == "pasta":
		return seccomp.Supervisor
	}
	return 0
}

// read counts one log. leader gives the process of a thread, and is corrected where the log knows better.
func (t *tally) read(path string, leader map[string]string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	roles, locked := map[string]seccomp.Role{}, map[string]bool{}
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		line := s.Text()
		if m := execLine.FindStringSubmatch(line); m != nil {
			roles[m[1]], leader[m[1]] = roleOf(m[2]), m[1] // who executes leads a process
		}
		if m := signalLine.FindStringSubmatch(line); m != nil {
			if p := process(leader, m[1]); locked[p] {
				t.of[roles[p]].signals[m[2]]++
			}
			continue
		}
		m := callLine.FindStringSubmatch(line)
		if m == nil {
			continue // the end of a call that another thread's line interrupted, or of a thread
		}
		p := process(leader, m[1])
		u := t.of[roles[p]]
		if u == nil {
			continue
		}
		if locked[p] {
			u.count(t.byName, m[2], m[3])
		} else if m[2] == "seccomp" && strings.HasPrefix(m[3], "0x1,") { // SECCOMP_SET_MODE_FILTER
			locked[p] = true
			u.processes++
		}
	}
	return s.Err()
}

func process(leader map[string]string, tid string) string {
	if p := leader[tid]; p != "" {
		return p
	}
	return tid
}

func (u *usage) count(byName map[string]uint32, name, rest string) {
	u.calls++
	nr, ok := byName[name]
	d := audit.Data{Nr: nr, Arch: audit.ArchToken(runtime.GOARCH)}
	rest, _, _ = strings.Cut(rest, " <unfinished")
	rest, _, _ = strings.Cut(rest, ")")
	for i, a := range strings.Split(rest, ", ") {
		if i < len(d.Args) {
			d.Args[i], _ = strconv.ParseUint(a, 0, 64)
		}
	}
	matching := audit.Matching(u.rules, byName, &d)
	if !ok || len(matching) == 0 {
		u.forbidden[fmt.Sprintf("%s(%s)", name, rest)]++
	}
	for _, i := range matching {
		u.times[i]++
	}
}

// report prints and judges. missing gives a reason of this machine why a rule could not be seen, or "".
func (t *tally) report(tt *testing.T, missing func(r *seccomp.Rule) string) {
	for _, role := range seccomp.Roles() {
		u := t.of[role]
		tt.Logf("%s: %d processes, %d calls after the filter; signals delivered: %v", role, u.processes, u.calls, u.signals)
		if u.processes == 0 {
			tt.Errorf("%s: no process loaded its filter", role)
		}
		for call, n := range u.forbidden {
			tt.Errorf("%s: not allowed but made, %d times: %s", role, n, call)
		}
		if n := u.signals["SIGPIPE"]; n > 0 {
			tt.Errorf("%s: %d times SIGPIPE, which it should ignore", role, n)
		}
		for i := range u.rules {
			r := &u.rules[i]
			switch {
			case u.times[i] > 0 && r.Cold == "":
			case u.times[i] > 0:
				tt.Logf("%s: seen %d times though rare (%s): %s", role, u.times[i], r.Cold, audit.Text(r))
			case r.Cold != "":
				tt.Logf("%s: allowed, not seen (%s): %s", role, r.Cold, audit.Text(r))
			case missing(r) != "":
				tt.Logf("%s: allowed, not seen here (%s): %s", role, missing(r), audit.Text(r))
			default:
				tt.Errorf("%s: allowed, not seen, and no reason why: %s (%s)", role, audit.Text(r), r.Why)
			}
		}
	}
}
