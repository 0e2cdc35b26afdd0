// SPDX-License-Identifier: Apache-2.0

package seccomp

import "golang.org/x/sys/unix"

// Linux's numbers for futex operations (futex(2)): FUTEX_WAIT and FUTEX_WAKE with FUTEX_PRIVATE_FLAG.
const (
	futexWaitPrivate = 128
	futexWakePrivate = 129
)

// Flags of the runtime's clone (runtime/os_linux.go, cloneFlags): VM, FS, FILES, SIGHAND, SYSVSEM, THREAD; amd64 adds
// SETTLS. No bit for a namespace, no process.
const (
	cloneThread      = unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SIGHAND | unix.CLONE_SYSVSEM | unix.CLONE_THREAD
	cloneThreadAMD64 = cloneThread | unix.CLONE_SETTLS
)

// runtimeAll is what the Go runtime needs in every role. It relies on GODEBUG updatemaxprocs=0, containermaxprocs=0 and
// decoratemappings=0 (no openat, sched_getaffinity, prctl; cmd/passt sets them), in the worker also on
// asyncpreemptoff=1 (no tgkill; isolation sets it in the worker's environment).
func runtimeAll() []Rule {
	const anon = unix.MAP_PRIVATE | unix.MAP_ANONYMOUS
	return []Rule{
		{Call: "futex", Args: []Cond{is(1, futexWaitPrivate, futexWakePrivate)}, By: goRuntime, Why: "threads sleep and wake; no priority inheritance, no requeue"},
		{Call: "nanosleep", By: goRuntime, Why: "the runtime's monitor thread"},
		{Call: "sched_yield", By: goRuntime, Why: "spinning on a lock", Cold: "contention only"},
		{Call: "madvise", Args: []Cond{is(2, unix.MADV_DONTNEED)}, By: goRuntime, Why: "unused memory goes back (also internal/sys/mem_unsafe.go)", Cold: "heap shrinking only"},
		{Call: "mmap", Args: []Cond{without(2, unix.PROT_READ|unix.PROT_WRITE, 0), without(3, unix.MAP_FIXED, anon)}, By: goRuntime, Why: "heap growth: private, anonymous, never executable", Cold: "heap growth only"},
		{Call: "munmap", By: goRuntime, Why: "the runtime's own tables after they grew; work queues of the collector", Cold: "large heaps only"},
		{Call: "rt_sigreturn", By: goRuntime, Why: "end of a signal handler", Cold: "signals only"},
		{Call: "restart_syscall", By: goRuntime, Why: "the kernel resumes a sleep after SIGSTOP and SIGCONT", Cold: "stopped processes only"},
		{Call: "exit_group", By: goRuntime, Why: "end of the process", Cold: "the supervisor's end kills the others first"},
		{Call: "gettid", By: goRuntime, Why: "last step of a thread's start (Load waits for all steps before it)", Cold: "a thread started just before the filter"},
		{Call: "clock_gettime", By: goRuntime, Why: "the clock", Cold: "machines without a usable vDSO, CPU-time clocks of the collector only"},
	}
}

// runtimeThreads is what the runtime needs to start threads, and to die of a signal as the kernel's default says.
// The worker has neither: all its threads exist before its filter.
func runtimeThreads() []Rule {
	const rare = "a thread is started only when all others are in calls"
	const dying = "the program is ended by a signal that it does not handle"
	return []Rule{
		{Call: "clone", Args: []Cond{is(0, cloneThreadAMD64)}, Only: "amd64", By: goRuntime, Why: "a thread of the runtime: exactly its flags", Cold: rare},
		{Call: "clone", Args: []Cond{is(0, cloneThread)}, Only: "arm64", By: goRuntime, Why: "a thread of the runtime: exactly its flags", Cold: rare},
		{Call: "rt_sigprocmask", By: goRuntime, Why: "signals are blocked while a thread starts", Cold: rare},
		{Call: "sigaltstack", By: goRuntime, Why: "a new thread's signal stack", Cold: rare},
		{Call: "eventfd2", Args: []Cond{is(0, 0), is(1, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)}, By: goRuntime, Why: "the runtime's poller, made with its first timer (the heap scavenger has one)", Cold: "usually made before the lock-down"},
		{Call: "rt_sigaction", By: goRuntime, Why: "default action before dying of a signal", Cold: dying},
		{Call: "getpid", By: goRuntime, Why: "the PID file's number (also internal/sys/priv/ids.go); dying of a signal", Cold: dying},
		{Call: "tgkill", Args: []Cond{is(2, uint64(unix.SIGHUP), uint64(unix.SIGINT))}, By: goRuntime, Why: "dying of SIGHUP or SIGINT", Cold: dying},
		{Call: "tgkill", Args: []Cond{is(2, uint64(unix.SIGURG))}, By: goRuntime, Why: "preemption; a process that does not expect SIGURG ignores it", Cold: "builds without the Makefile's settings only"},
	}
}
