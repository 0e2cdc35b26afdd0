// SPDX-License-Identifier: Apache-2.0

package priv

import (
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"passt/internal/sys"
)

// ExecFD replaces this process by the file behind fd; it returns only on failure. Raw: the other threads just end.
// policy: boot
func ExecFD(fd sys.FD, argv, env []string) sys.Errno {
	av, ev, e := execVectors(argv, env)
	if e != 0 {
		return e
	}
	empty := new(byte)
	_, _, e = syscall.RawSyscall6(unix.SYS_EXECVEAT, uintptr(fd), uintptr(unsafe.Pointer(empty)), uintptr(unsafe.Pointer(&av[0])),
		uintptr(unsafe.Pointer(&ev[0])), unix.AT_EMPTY_PATH, 0)
	runtime.KeepAlive(av)
	runtime.KeepAlive(ev)
	return e
}

// ExecPath replaces this process by a program; it returns only on failure. The program gets the descriptor limit that
// this process was started with (Go raises the soft one for itself).
// policy: boot
func ExecPath(path string, argv, env []string) sys.Errno { return errno(syscall.Exec(path, argv, env)) }

func execVectors(argv, env []string) (av, ev []*byte, e sys.Errno) {
	av, err := syscall.SlicePtrFromStrings(argv)
	if err == nil {
		ev, err = syscall.SlicePtrFromStrings(env)
	}
	return av, ev, errno(err)
}

// Environ copies the environment.
func Environ() []string { return syscall.Environ() }
