// SPDX-License-Identifier: Apache-2.0

// What the seccomp lists rely on, also in a build without the Makefile's flags (which add asyncpreemptoff=1, a setting
// that cannot stand here; the lists of supervisor and agent live without it).
//
//go:debug updatemaxprocs=0
//go:debug containermaxprocs=0
//go:debug decoratemappings=0

// Command passt is the one binary of the project. The name it is called by chooses the program (passt, pasta), a
// private word the role of a process that it started itself.
package main

import (
	"fmt"
	"os"
	"runtime"

	"passt/internal/sys"
	"passt/isolation"
	"passt/seccomp"
	"passt/supervisor"
	"passt/supervisor/agent"
	"passt/supervisor/conf"
	"passt/worker"
)

// version is set by the build.
var version = "unknown"

func init() {
	// Namespaces, capabilities and the parent's death signal belong to a thread: main stays on the first one.
	runtime.LockOSThread()
}

func main() {
	switch os.Args[0] {
	case isolation.RoleWorker:
		end("worker", isolation.WorkerStage1(os.Args))
	case isolation.RoleWorker2:
		end("worker", runWorker())
	case isolation.RoleAgent:
		end("namespace agent", agent.Run(lockAgent))
	case isolation.RoleLaunch:
		os.Exit(supervisor.Launch(os.Args))
	}
	conf.Version = version
	background := os.Args[0] == supervisor.RoleMain
	argv, first := os.Args, 3
	if background {
		argv, first = os.Args[1:], 4
	}
	// Before Linux 5.9 leaked descriptors stay open here; the children do not get them.
	_ = isolation.CloseFrom(first)
	if err := isolation.FillStdio(); err != nil {
		end("passt", err)
	}
	os.Exit(supervisor.Run(supervisor.Config{Argv: argv, Background: background, CallName: seccomp.CallName,
		Lock: func() error { return seccomp.Load(seccomp.Supervisor) }}))
}

// runWorker moves the loop to a goroutine of its own, whose thread is not locked: a locked one costs a hand-off for
// each look of the runtime's monitor.
func runWorker() error {
	done := make(chan error)
	go func() { done <- worker.Run(isolation.FirstFD, isolation.FirstFD+1, lockWorker) }()
	return <-done
}

func lockWorker() (sys.FD, error) {
	if _, err := isolation.WorkerStage2(); err != nil {
		return sys.NoFD, err
	}
	return seccomp.LoadNotify(seccomp.WorkerPasta)
}

func lockAgent() error {
	if _, err := isolation.LockdownAgent(isolation.CapNetBindService); err != nil {
		return err
	}
	return seccomp.Load(seccomp.Agent)
}

// end ends a role process; the text reaches the supervisor by the process' stderr.
func end(role string, err error) {
	if err != nil {
		_, _ = sys.Write(2, fmt.Appendf(nil, "%v\n", err)) // nobody else to tell
		os.Exit(1)
	}
	os.Exit(0)
}
