// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"errors"
	"fmt"

	"passt/internal/logx"
	"passt/internal/sys"
	"passt/internal/sys/priv"
	"passt/ipc"
	"passt/isolation"
	"passt/supervisor/broker"
	"passt/supervisor/conf"
)

// RoleMain is argv[0] of the process that stays when the caller's one goes to the background; its descriptor 3 is the pipe on
// which it says that everything is ready.
const RoleMain = "passt:main"

// Supervisor is the state of the process.
type Supervisor struct {
	log  *logx.Logger
	argv []string
	opts *conf.Options
	plan *conf.Plan

	ready   sys.FD // pipe to the caller's process, NoFD in the foreground
	pidFile sys.FD
	capture sys.FD

	userNS, netNS         sys.FD
	userNSName, netNSName string
	release               sys.FD // the launcher waits for a byte here

	launcher, agent, worker isolation.Child
	workerErr               sys.FD // the worker's stderr, for the text of a panic
	agentErr                sys.FD
	childText               int       // bytes of both that were logged
	lines                   lineLimit // of the worker's log lines
	workerConn, agentConn   *ipc.Conn
	workerFDs               [2]sys.FD // the worker's ends until it is started
	agentFDs                [2]sys.FD
	tap                     sys.FD
	tapArg                  uint32

	broker    *broker.Broker
	listeners *broker.Listeners
	follow    broker.Follower
	watch     watch
	signals   sys.FD
	null      sys.FD // /dev/null, for the way to the background
	listener  sys.FD // tells of the worker's forbidden calls
	lock      func() error
	callName  func(int) string
	status    int
}

// exit is an error that carries an exit status; an empty text prints nothing.
type exit struct {
	status int
	text   string
}

func (e *exit) Error() string { return e.text }

// Config is what main knows and the supervisor does not.
type Config struct {
	Argv       []string
	Background bool         // this is RoleMain: descriptor 3 says ready
	Lock       func() error // loads the supervisor's filter
	// CallName names a system call of this machine.
	CallName func(nr int) string
}

// step is one part of the start.
type step struct {
	name string
	do   func(*Supervisor) error
}

// steps is the start, in order. What has a name is opened before the user changes, children start before the
// lock-down, and nothing reaches the worker before it said Ready.
var steps = [...]step{
	{"options", (*Supervisor).parse},
	{"host configuration", (*Supervisor).discover},
	{"files", (*Supervisor).openFiles},
	{"user", (*Supervisor).becomeUser},
	{"ping", (*Supervisor).checkPing},
	{"namespace", (*Supervisor).openNamespace},
	{"channels", (*Supervisor).makeChannels},
	{"worker", (*Supervisor).startWorker},
	{"agent", (*Supervisor).startAgent},
	{"listeners", (*Supervisor).listen},
	{"namespace set-up", (*Supervisor).awaitAgent},
	{"boot", (*Supervisor).bootWorker},
	{"watches", (*Supervisor).openWatches},
	{"lock-down", (*Supervisor).lockDown},
	{"hand-over", (*Supervisor).handOver},
	{"ready", (*Supervisor).sayReady},
}

// Run is the life of the supervisor; it returns the exit status.
func Run(c Config) int {
	s := &Supervisor{argv: c.Argv, ready: sys.NoFD, pidFile: sys.NoFD, capture: sys.NoFD, userNS: sys.NoFD, netNS: sys.NoFD,
		release: sys.NoFD, tap: sys.NoFD, workerErr: sys.NoFD, agentErr: sys.NoFD, signals: sys.NoFD, listener: sys.NoFD, lock: c.Lock, callName: c.CallName, log: logx.New("passt")}
	if c.Background {
		s.ready = 3
	}
	for _, st := range &steps {
		if err := st.do(s); err != nil {
			return s.fail(err)
		}
	}
	return s.serve()
}

// fail ends the start: children go with their pipes and channels, and at the latest with this process.
func (s *Supervisor) fail(err error) int {
	s.log.Stderr = 2 // why the service ends is said there too, also to who runs a command (in the background it is /dev/null)
	var x *exit
	if errors.As(err, &x) {
		if x.text != "" {
			s.log.Errorf("%s", x.text)
		}
		s.killChildren()
		return x.status
	}
	s.log.Errorf("%v", err)
	s.killChildren()
	return 1
}

// killChildren ends what was started; the command itself only before its release.
func (s *Supervisor) killChildren() {
	const sigkill = 9
	end := []isolation.Child{s.worker, s.agent}
	if s.release != sys.NoFD {
		end = append(end, s.launcher)
	}
	for _, c := range end {
		if c.Pid != 0 {
			_ = priv.Signal(c.PidFD, sigkill) // it may have ended by itself
		}
	}
	// Reaped here: process 1 of a container often reaps nobody.
	for _, c := range end {
		if c.Pid != 0 && sys.WaitReadable(c.PidFD, sys.NoFD, 1000) {
			_, _, _, _ = priv.Wait(c.Pid)
		}
	}
}

// childEnd says how a child ended.
func childEnd(status, signal int) string {
	switch {
	case signal != 0:
		text := fmt.Sprintf("killed by signal %d (%s)", signal, priv.SignalName(signal))
		if priv.SignalName(signal) == "SIGSYS" {
			text += ": it made a system call that its policy does not name"
		}
		return text
	default:
		return fmt.Sprintf("exit status %d", status)
	}
}
