// SPDX-License-Identifier: Apache-2.0

package sys

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// SpliceFlags are the only flags that Splice uses: no call waits.
const SpliceFlags = unix.SPLICE_F_MOVE | unix.SPLICE_F_NONBLOCK

// Splice moves up to n bytes between a pipe and a stream socket without copying them to user space (splice(2)).
//
//	out:    bytes moved; from a socket 0 means end of file
//	errors: EAGAIN when the source is empty or the sink is full
//
// policy: worker
func Splice(from, to FD, n int) (int, Errno) {
	for {
		r, _, e := syscall.RawSyscall6(unix.SYS_SPLICE, uintptr(from), 0, uintptr(to), 0, uintptr(n), SpliceFlags)
		if e != EINTR {
			return int(r), e
		}
	}
}

// CongestionName is the name of a congestion control, zero-padded (TCP_CA_NAME_MAX).
type CongestionName [16]byte

// Congestion reads a TCP socket's congestion control: getsockopt level 6, option 13.
// policy: worker
func Congestion(fd FD) (name CongestionName, e Errno) {
	n := uint32(len(name))
	_, _, e = syscall.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION,
		uintptr(unsafe.Pointer(&name)), uintptr(unsafe.Pointer(&n)), 0)
	return name, e
}
