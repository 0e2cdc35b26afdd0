// SPDX-License-Identifier: Apache-2.0

package priv

import (
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"passt/internal/sys"
)

// JoinAttr describes a child that enters existing namespaces and then runs Exe.
type JoinAttr struct {
	UserNS, NetNS sys.FD // NoFD: stay
	Exe           sys.FD // from OpenSelf
	Argv, Env     []string
	Files         []sys.FD // become 0, 1, 2, ...; at most MaxJoinFiles, none is NoFD
	Keep          uint64   // capabilities that the exec keeps, whatever the user id; all others leave the bounding set too
}

// MaxJoinFiles bounds JoinAttr.Files: the child cannot allocate.
const MaxJoinFiles = 16

// JoinStep names where the child failed.
type JoinStep uint32

// Steps of the child in order; JoinFork is the parent's part.
const (
	JoinFork JoinStep = iota
	JoinUser
	JoinNet
	JoinCaps
	JoinFiles
	JoinParent
	JoinExec
)

// joinChild is all that the child reads and writes: prepared by the parent, since the child of a raw fork of a Go
// process is one thread on a copied stack that may not grow it, allocate, take a runtime lock or be preempted.
type joinChild struct {
	userns, netns, exe, report uintptr
	ppid                       uintptr
	argv, env                  uintptr
	files                      [MaxJoinFiles]uintptr
	nfiles                     int
	keep                       uint64
	allBlocked, mask           uint64
	act                        [4]uint64 // struct sigaction of the kernel: handler, flags, restorer, mask
	caps                       capData
	empty                      [8]byte
	out                        [2]uint32
	pidfd                      int32
}

// ForkJoin forks with raw calls and runs the child up to its exec. setns(CLONE_NEWUSER) needs a single-threaded
// process, which a Go process never is: hence the fork. The child gets SIGKILL when the calling *thread* ends.
//
//	out: step and e tell where the child failed; it is reaped then
//
// policy: boot
func ForkJoin(a *JoinAttr) (pid int, pidfd sys.FD, step JoinStep, e sys.Errno) {
	if len(a.Files) > MaxJoinFiles {
		return 0, sys.NoFD, JoinFork, sys.EMFILE
	}
	av, ev, e := execVectors(a.Argv, a.Env)
	if e != 0 {
		return 0, sys.NoFD, JoinFork, e
	}
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return 0, sys.NoFD, JoinFork, errno(err)
	}
	defer func() { _ = unix.Close(p[0]) }() // nothing is lost with a pipe's reading end
	c := &joinChild{
		userns: uintptr(a.UserNS), netns: uintptr(a.NetNS), exe: uintptr(a.Exe), report: uintptr(p[1]),
		ppid: uintptr(unix.Getpid()), argv: uintptr(unsafe.Pointer(&av[0])), env: uintptr(unsafe.Pointer(&ev[0])),
		nfiles: len(a.Files), keep: a.Keep, allBlocked: ^uint64(0), pidfd: -1,
	}
	for i, f := range a.Files {
		c.files[i] = uintptr(f)
	}
	runtime.LockOSThread()
	syscall.ForkLock.Lock()
	n, e := c.fork()
	syscall.ForkLock.Unlock()
	runtime.UnlockOSThread()
	runtime.KeepAlive(av)
	runtime.KeepAlive(ev)
	_ = unix.Close(p[1])
	if e != 0 {
		return 0, sys.NoFD, JoinFork, e
	}
	if step, e = readReport(p[0]); e != 0 {
		_, _ = unix.Wait4(int(n), nil, 0, nil) // it exits right after its report
		sys.Close(sys.FD(c.pidfd))
		return 0, sys.NoFD, step, e
	}
	return int(n), sys.FD(c.pidfd), 0, 0
}

// readReport waits for the child's exec (end of file: success) or its eight bytes {step, errno}.
func readReport(fd int) (JoinStep, sys.Errno) {
	var r [2]uint32
	b := unsafe.Slice((*byte)(unsafe.Pointer(&r)), 8)
	for {
		n, err := unix.Read(fd, b)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return JoinFork, errno(err)
		case n == 0:
			return 0, 0
		case n == len(b):
			return JoinStep(r[0]), sys.Errno(r[1])
		default:
			return JoinFork, sys.EIO
		}
	}
}

// fork blocks all signals of this thread around the fork, so that no handler of the Go runtime runs in the child.
//
//go:noinline
//go:norace
//go:nosplit
func (c *joinChild) fork() (pid uintptr, e sys.Errno) {
	raw6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&c.allBlocked)), uintptr(unsafe.Pointer(&c.mask)), 8, 0)
	pid, _, e = syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD)|unix.CLONE_PIDFD, 0, uintptr(unsafe.Pointer(&c.pidfd)), 0, 0, 0)
	if e == 0 && pid == 0 {
		step, e := c.run()
		c.out = [2]uint32{uint32(step), uint32(e)}
		raw6(unix.SYS_WRITE, c.report, uintptr(unsafe.Pointer(&c.out)), 8, 0, 0)
		for {
			raw6(unix.SYS_EXIT_GROUP, 1, 0, 0, 0, 0)
		}
	}
	raw6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&c.mask)), 0, 8, 0)
	return pid, e
}

//go:norace
//go:nosplit
func raw6(nr, a, b, c, d, e uintptr) sys.Errno {
	_, _, err := syscall.RawSyscall6(nr, a, b, c, d, e, 0)
	return err
}

// run is the child. It returns only on failure.
//
//go:noinline
//go:norace
//go:nosplit
func (c *joinChild) run() (JoinStep, sys.Errno) {
	if int32(c.userns) >= 0 {
		if e := raw6(unix.SYS_SETNS, c.userns, unix.CLONE_NEWUSER, 0, 0, 0); e != 0 {
			return JoinUser, e
		}
	}
	if int32(c.netns) >= 0 {
		if e := raw6(unix.SYS_SETNS, c.netns, unix.CLONE_NEWNET, 0, 0, 0); e != 0 {
			return JoinNet, e
		}
	}
	if e := c.keepCaps(); e != 0 {
		return JoinCaps, e
	}
	if e := c.moveFiles(); e != 0 {
		return JoinFiles, e
	}
	// After the credentials: their change clears the parent-death signal. A parent that is already gone sends none.
	if e := raw6(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); e != 0 {
		return JoinParent, e
	}
	if p, _, _ := syscall.RawSyscall(unix.SYS_GETPPID, 0, 0, 0); p != c.ppid {
		return JoinParent, unix.ESRCH
	}
	c.resetSignals()
	e := raw6(unix.SYS_EXECVEAT, c.exe, uintptr(unsafe.Pointer(&c.empty)), c.argv, c.env, unix.AT_EMPTY_PATH)
	return JoinExec, e
}

// keepCaps reduces bounding, permitted, effective and inheritable sets to what is wanted and there, and makes it
// ambient: then the exec keeps exactly that, for user id 0 (by the bounding set) and any other (by the ambient set).
//
//go:noinline
//go:norace
//go:nosplit
func (c *joinChild) keepCaps() sys.Errno {
	hdr, data := uintptr(unsafe.Pointer(&c.caps.version)), uintptr(unsafe.Pointer(&c.caps.data))
	c.caps.version = unix.LINUX_CAPABILITY_VERSION_3
	if e := raw6(unix.SYS_CAPGET, hdr, data, 0, 0, 0); e != 0 {
		return e
	}
	keep := c.keep & (uint64(c.caps.data[0].permitted) | uint64(c.caps.data[1].permitted)<<32)
	for n := uintptr(0); n < 64; n++ {
		if keep>>n&1 != 0 {
			continue
		}
		// EPERM (no CAP_SETPCAP): the set only counts for an exec, and the agent drops the rest itself. EINVAL: past the last.
		if e := raw6(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, n, 0, 0, 0); e != 0 {
			break
		}
	}
	c.caps.set(CapSets{Effective: keep, Permitted: keep, Inheritable: keep})
	if e := raw6(unix.SYS_CAPSET, hdr, data, 0, 0, 0); e != 0 {
		return e
	}
	for n := uintptr(0); n < 64; n++ {
		if keep>>n&1 != 0 {
			if e := raw6(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, n, 0, 0); e != 0 {
				return e
			}
		}
	}
	return 0
}

// moveFiles puts files[i] at number i. First all go above the target range (with the executable and the report
// pipe), so that none is overwritten before it was moved; everything above the range closes at the exec.
//
//go:noinline
//go:norace
//go:nosplit
func (c *joinChild) moveFiles() sys.Errno {
	var e sys.Errno
	for i := 0; i < c.nfiles; i++ {
		if c.files[i], _, e = syscall.RawSyscall(unix.SYS_FCNTL, c.files[i], unix.F_DUPFD_CLOEXEC, MaxJoinFiles); e != 0 {
			return e
		}
	}
	if c.exe, _, e = syscall.RawSyscall(unix.SYS_FCNTL, c.exe, unix.F_DUPFD_CLOEXEC, MaxJoinFiles); e != 0 {
		return e
	}
	if c.report, _, e = syscall.RawSyscall(unix.SYS_FCNTL, c.report, unix.F_DUPFD_CLOEXEC, MaxJoinFiles); e != 0 {
		return e
	}
	for i := 0; i < c.nfiles; i++ {
		if e = raw6(unix.SYS_DUP3, c.files[i], uintptr(i), 0, 0, 0); e != 0 {
			return e
		}
	}
	// Kernels before 5.11 refuse the flag; what leaked then is closed by the agent's own CloseFrom.
	raw6(unix.SYS_CLOSE_RANGE, uintptr(c.nfiles), 0xffffffff, unix.CLOSE_RANGE_CLOEXEC, 0, 0)
	return 0
}

// resetSignals gives every caught signal its default and then restores the mask: the exec would do the first, but a
// signal between the two must not run a handler of the Go runtime here.
//
//go:noinline
//go:norace
//go:nosplit
func (c *joinChild) resetSignals() {
	act := uintptr(unsafe.Pointer(&c.act))
	for n := uintptr(1); n <= 64; n++ {
		if raw6(unix.SYS_RT_SIGACTION, n, 0, act, 8, 0) != 0 || c.act[0] <= 1 { // SIG_DFL 0, SIG_IGN 1
			continue
		}
		c.act = [4]uint64{}
		raw6(unix.SYS_RT_SIGACTION, n, act, 0, 8, 0)
	}
	raw6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&c.mask)), 0, 8, 0)
}
