// SPDX-License-Identifier: Apache-2.0

package priv

import (
	"syscall"

	"golang.org/x/sys/unix"

	"passt/internal/sys"
)

// Scope says whose attributes a call changes: credentials, no_new_privs and Landlock domains belong to a thread,
// and a Go process always has several.
type Scope bool

// The two scopes. OneThread is right only on a locked thread that is about to exec.
const (
	OneThread  Scope = false
	AllThreads Scope = true
)

func prctl(s Scope, op, a, b, c uintptr) sys.Errno {
	if s == AllThreads {
		_, _, e := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, op, a, b, c, 0, 0)
		return e
	}
	_, _, e := syscall.RawSyscall6(unix.SYS_PRCTL, op, a, b, c, 0, 0)
	return e
}

// NoNewPrivs forbids that an exec ever gives rights again (PR_SET_NO_NEW_PRIVS).
// policy: boot
func NoNewPrivs(s Scope) sys.Errno { return prctl(s, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0) }

// DeathSignal asks for a signal when the thread that forked us ends; 0 takes the wish back (PR_SET_PDEATHSIG).
// The kernel forgets it at a change of credentials.
// policy: boot
func DeathSignal(sig int) sys.Errno {
	return prctl(OneThread, unix.PR_SET_PDEATHSIG, uintptr(sig), 0, 0)
}

// Dumpable lets (or forbids) the same user trace this process and open its /proc files (PR_SET_DUMPABLE).
// policy: boot
func Dumpable(on bool) sys.Errno {
	v := uintptr(0)
	if on {
		v = 1
	}
	return prctl(OneThread, unix.PR_SET_DUMPABLE, v, 0, 0)
}

// NoExecGain forbids executable memory that was or becomes writable (PR_SET_MDWE, Linux 6.3; EINVAL before).
// policy: boot
func NoExecGain() sys.Errno {
	return prctl(OneThread, unix.PR_SET_MDWE, unix.PR_MDWE_REFUSE_EXEC_GAIN, 0, 0)
}

// Resource names a limit of setrlimit(2).
type Resource int

// Limits that start-up code sets.
const (
	LimitCore     Resource = unix.RLIMIT_CORE
	LimitData     Resource = unix.RLIMIT_DATA
	LimitMemlock  Resource = unix.RLIMIT_MEMLOCK
	LimitMsgQueue Resource = unix.RLIMIT_MSGQUEUE
	LimitNproc    Resource = unix.RLIMIT_NPROC
	LimitNofile   Resource = unix.RLIMIT_NOFILE
)

// Getrlimit reads the soft and the hard limit.
// policy: boot
func Getrlimit(r Resource) (soft, hard uint64, e sys.Errno) {
	var l unix.Rlimit
	e = errno(unix.Prlimit(0, int(r), nil, &l))
	return l.Cur, l.Max, e
}

// Setrlimit sets both limits. It goes past syscall.Setrlimit, which would make Go forget the descriptor limit
// that it owes to the programs it starts.
// policy: boot
func Setrlimit(r Resource, soft, hard uint64) sys.Errno {
	return errno(unix.Prlimit(0, int(r), &unix.Rlimit{Cur: soft, Max: hard}, nil))
}

// errno turns an error of x/sys/unix into the number it holds.
func errno(err error) sys.Errno {
	if err == nil {
		return 0
	}
	return err.(sys.Errno)
}
