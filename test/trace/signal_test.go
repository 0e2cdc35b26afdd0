// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What a terminal sends to everybody must change nothing in worker and agent; cli.md check 21 says how the supervisor
// in the foreground ends, and nothing of it may stay.
func TestSignals_Terminal_EndTheSupervisorAlone(t *testing.T) {
	s := newSetup(t)
	for _, c := range []struct {
		sig    syscall.Signal
		killed bool
	}{{syscall.SIGHUP, true}, {syscall.SIGINT, true}, {syscall.SIGTERM, false}, {syscall.SIGQUIT, false}} {
		t.Run(c.sig.String(), func(t *testing.T) {
			target := s.start(nil, "unshare", "-Urn", "sh", "-c", "echo ready; exec sleep 600")
			target.waitFor("ready")
			p := s.start(nil, s.pasta, "--config-net", "-f", "-d", "-t", "none", "-u", "none", "-T", "none", "-U", "none", fmt.Sprint(target.cmd.Process.Pid))
			kids := s.helpers(p)
			for _, pid := range kids {
				for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGHUP, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGPIPE} {
					_ = syscall.Kill(pid, sig)
				}
			}
			if err := s.run([]string{"PASST_ROLE=connect"}, "nsenter", "--preserve-credentials", "-t", fmt.Sprint(target.cmd.Process.Pid), "-U", "-n", s.peers, "127.0.0.1:1"); err != nil {
				t.Error(err)
			}
			for _, pid := range kids {
				if syscall.Kill(pid, 0) != nil {
					t.Errorf("process %d ended by a signal of the terminal", pid)
				}
			}
			_ = syscall.Kill(p.cmd.Process.Pid, c.sig)
			select {
			case <-p.done:
			case <-time.After(10 * time.Second):
				t.Fatalf("still running: %s", p.out)
			}
			ws := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
			if c.killed && (!ws.Signaled() || ws.Signal() != c.sig) || !c.killed && ws != 0 {
				t.Errorf("status %#x: %s", ws, p.out)
			}
			if strings.Contains(p.out.String(), "ended:") {
				t.Errorf("says: %s", p.out)
			}
			until(t, 5*time.Second, "the end of worker and agent", func() bool {
				for _, pid := range kids {
					if syscall.Kill(pid, 0) == nil {
						return false
					}
				}
				return true
			})
		})
	}
}

// helpers waits until the supervisor has its worker and agent, both under their filters.
func (s *setup) helpers(p *proc) (kids []int) {
	s.t.Helper()
	until(s.t, 20*time.Second, "worker and agent under their filters", func() bool {
		kids = children(p.cmd.Process.Pid)
		for _, pid := range append(kids, p.cmd.Process.Pid) {
			if !filtered(pid) {
				return false
			}
		}
		return len(kids) == 2
	})
	return kids
}
