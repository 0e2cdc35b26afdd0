// SPDX-License-Identifier: Apache-2.0

package sys

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// WaitWritable waits until fd can be written, or for timeoutMs.
// policy: supervisor, agent
func WaitWritable(fd FD, timeoutMs int) {
	p := unix.PollFd{Fd: int32(fd), Events: unix.POLLOUT}
	ts := unix.NsecToTimespec(int64(timeoutMs) * 1e6)
	_ = ppoll(&p, 1, &ts)
}

// ppoll goes on after a signal: SIGCHLD and SIGWINCH have handlers in every Go process. The system call, unlike the C function,
// leaves the time that is left in ts (ppoll(2), "C library/kernel differences").
func ppoll(p *unix.PollFd, n int, ts *unix.Timespec) int {
	for {
		got, _, e := syscall.Syscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(p)), uintptr(n), uintptr(unsafe.Pointer(ts)), 0, 0, 0)
		if e != EINTR {
			return int(got)
		}
	}
}

// Pread reads at an offset: /proc/net tables are read again from their start.
// policy: supervisor, agent
func Pread(fd FD, b []byte, off int64) (int, Errno) {
	n, _, e := syscall.RawSyscall6(unix.SYS_PREAD64, uintptr(fd), ptr(b), uintptr(len(b)), uintptr(off), 0, 0)
	return int(n), e
}

// WaitReadable waits until a or b (NoFD: none) can be read; false when timeoutMs passed.
// policy: boot
func WaitReadable(a, b FD, timeoutMs int) bool {
	p := [2]unix.PollFd{{Fd: int32(a), Events: unix.POLLIN}, {Fd: int32(b), Events: unix.POLLIN}}
	ts := unix.NsecToTimespec(int64(max(timeoutMs, 0)) * 1e6)
	n := ppoll(&p[0], 2, &ts)
	return n > 0 && n <= 2 // -1 on an error
}
