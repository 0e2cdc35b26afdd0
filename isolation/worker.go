// SPDX-License-Identifier: Apache-2.0

package isolation

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	"passt/internal/sys"
	"passt/internal/sys/priv"
)

// warmThreads is how many more threads the worker gets before its filter forbids them. Eight sufficed at GOMAXPROCS=2
// for collections, panics and deep stacks (measured); a goroutine blocked in a system call needs one more.
const warmThreads = 9

// maxData bounds private writable memory, bytes. Tables and buffers are mapped at their full size (about 200 MiB of
// addresses, few pages of them touched) and all of it counts; the Go heap has 64 MiB. 1 GiB leaves room for larger
// tables, and stops a taken-over worker that only allocates before the host's memory is gone.
const maxData = 1 << 30

// WorkerStage1 is the first thing in main of RoleWorker: own root, no capabilities, and this executable again as
// RoleWorker2, so that no thread is left that had any. It returns only on failure.
//
//	in:     argv, of the process
//	thread: the main one, locked in an init function
//	source: order as measured; Landlock must come later, it forbids mount and exec
func WorkerStage1(argv []string) error {
	exe, e := priv.OpenSelf()
	if e != 0 {
		return fmt.Errorf("open own executable: %w", e)
	}
	if e := priv.Setrlimit(priv.LimitCore, 0, 0); e != 0 {
		return fmt.Errorf("forbid core dumps: %w", e)
	}
	if err := EmptyRoot(slices.Contains(argv, chrootWord)); err != nil {
		return err
	}
	if e := dropBounding(priv.OneThread, 0); e != 0 {
		return fmt.Errorf("drop bounding set: %w", e)
	}
	if e := priv.LockSecurebits(priv.OneThread); e != 0 {
		return fmt.Errorf("lock securebits: %w", e)
	}
	if err := keepCaps(priv.OneThread, 0); err != nil {
		return err
	}
	if e := priv.NoNewPrivs(priv.OneThread); e != 0 {
		return fmt.Errorf("no_new_privs: %w", e)
	}
	e = priv.ExecFD(exe, []string{RoleWorker2}, workerEnv())
	return fmt.Errorf("execute %s: %w", RoleWorker2, e)
}

// WorkerStage2 gives up the rest on all threads, all but the system calls: the caller loads the filter next. All
// threads that the worker will ever have exist afterwards.
//
//	out: Landlock's ABI, 0 where the kernel has none (for a debug line)
func WorkerStage2() (abi int, err error) {
	leaveSignals()
	if e := priv.Dumpable(false); e != 0 {
		return 0, fmt.Errorf("not dumpable: %w", e)
	}
	if err := dieWithParent(); err != nil {
		return 0, err
	}
	warmRuntime(warmThreads)
	if e := priv.NoExecGain(); e != 0 && e != sys.EINVAL { // since Linux 6.3
		return 0, fmt.Errorf("deny new executable memory: %w", e)
	}
	if abi, err = landlockAll(landlockDeny{tcp: true, signals: true}); err != nil {
		return abi, err
	}
	for _, l := range [...]struct {
		name string
		r    priv.Resource
		max  uint64
	}{
		{"core", priv.LimitCore, 0}, {"memlock", priv.LimitMemlock, 0}, {"msgqueue", priv.LimitMsgQueue, 0},
		{"nproc", priv.LimitNproc, 0}, {"data", priv.LimitData, maxData},
	} {
		_, hard, e := priv.Getrlimit(l.r)
		if e == 0 {
			e = priv.Setrlimit(l.r, min(l.max, hard), min(l.max, hard))
		}
		if e != 0 {
			return abi, fmt.Errorf("limit %s: %w", l.name, e)
		}
	}
	return abi, nil
}

// warmRuntime makes the Go runtime do everything now that it would otherwise do under the filter: its template
// thread (first LockOSThread), poller (first timer) and n more threads, one for each locked goroutine that waits at
// the same time. They go to the runtime's idle list.
func warmRuntime(n int) {
	time.Sleep(time.Microsecond)
	up, release, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	for range n {
		go func() {
			runtime.LockOSThread()
			up <- struct{}{}
			<-release
			runtime.UnlockOSThread() // a goroutine that ends locked takes its thread along
			done <- struct{}{}
		}()
	}
	for range n {
		<-up
	}
	close(release)
	for range n {
		<-done
	}
}
