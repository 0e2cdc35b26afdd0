// SPDX-License-Identifier: Apache-2.0

// Package isolation is every way to give up a right, each one function, and the three ways to start a process that
// has fewer rights than its parent:
//
//	supervisor ── StartWorker ───► passt:worker  WorkerStage1 ─exec─► passt:worker2  WorkerStage2, filter
//	           ── JoinAndStart ──► passt:agent   (in the target's namespaces)  LockdownAgent
//	           ── StartLauncher ─► passt:launch  LauncherSetup, LauncherExec ─exec─► the user's command
//	           BecomeUser, LockdownSupervisor
//
// The process that calls this package must be built without cgo: Go offers a system call on all threads
// (credentials, no_new_privs and Landlock domains are per thread) only then.
//
// It must never decide anything: which role, which user, which namespace and when come from the caller. It never
// opens a socket and never reads a byte from a guest. System calls are under internal/sys/priv.
// Read exec.go first, then mount.go.
package isolation
