// SPDX-License-Identifier: Apache-2.0

package sys

import (
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Flags of Recv and Send.
const (
	MsgPeek     = unix.MSG_PEEK
	MsgTrunc    = unix.MSG_TRUNC
	MsgDontWait = unix.MSG_DONTWAIT
	MsgNoSignal = unix.MSG_NOSIGNAL
	MsgMore     = unix.MSG_MORE
	MsgErrQueue = unix.MSG_ERRQUEUE
)

//go:nosplit
func rawSyscall(nr, a, b, c uintptr) (uintptr, uintptr, Errno) {
	return syscall.RawSyscall(nr, a, b, c)
}

// Read reads from a non-blocking descriptor.
//
//	out:    bytes read, 0 at end of file; or errno
//
// policy: worker, supervisor, agent
func Read(fd FD, b []byte) (int, Errno) {
	for {
		n, _, e := syscall.RawSyscall(unix.SYS_READ, uintptr(fd), ptr(b), uintptr(len(b)))
		if e != EINTR {
			runtime.KeepAlive(b)
			return int(n), e
		}
	}
}

// Write writes to a non-blocking descriptor; the count may be short.
// policy: worker, supervisor, agent
func Write(fd FD, b []byte) (int, Errno) {
	for {
		n, _, e := syscall.RawSyscall(unix.SYS_WRITE, uintptr(fd), ptr(b), uintptr(len(b)))
		if e != EINTR {
			runtime.KeepAlive(b)
			return int(n), e
		}
	}
}

// Writev writes the vectors in order; at most 1024 (UIO_MAXIOV). SIGPIPE is ignored process-wide, EPIPE comes back.
// policy: worker
func Writev(fd FD, v []Iovec) (int, Errno) {
	for {
		n, _, e := syscall.RawSyscall(unix.SYS_WRITEV, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(v))), uintptr(len(v)))
		if e != EINTR {
			runtime.KeepAlive(v)
			return int(n), e
		}
	}
}

// Readv reads into the vectors in order.
// policy: boot
func Readv(fd FD, v []Iovec) (int, Errno) {
	for {
		n, _, e := syscall.RawSyscall(unix.SYS_READV, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(v))), uintptr(len(v)))
		if e != EINTR {
			runtime.KeepAlive(v)
			return int(n), e
		}
	}
}

// Recv receives from a socket without asking for the sender (recvfrom(2)).
// policy: worker
func Recv(fd FD, b []byte, flags int) (int, Errno) {
	for {
		n, _, e := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), ptr(b), uintptr(len(b)), uintptr(flags|MsgDontWait), 0, 0)
		if e != EINTR {
			runtime.KeepAlive(b)
			return int(n), e
		}
	}
}

// Discard drops up to n bytes from the head of a TCP socket's queue without copying (tcp(7), MSG_TRUNC).
// policy: worker
func Discard(fd FD, n int) (int, Errno) {
	for {
		r, _, e := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), 0, uintptr(n), MsgTrunc|MsgDontWait, 0, 0)
		if e != EINTR {
			return int(r), e
		}
	}
}

// Send sends on a connected socket (sendto(2) without an address: the worker's policy allows no other form).
// policy: worker
func Send(fd FD, b []byte, flags int) (int, Errno) {
	for {
		n, _, e := syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), ptr(b), uintptr(len(b)), uintptr(flags|MsgDontWait|MsgNoSignal), 0, 0)
		if e != EINTR {
			runtime.KeepAlive(b)
			return int(n), e
		}
	}
}

type msghdr struct {
	name       uintptr
	namelen    uint32
	_          uint32
	iov        uintptr
	iovlen     uint64
	control    uintptr
	controllen uint64
	flags      int32
	_          int32
}

// RecvVec receives (or peeks) from a stream into vectors, one call.
// policy: worker
func RecvVec(fd FD, v []Iovec, flags int) (int, Errno) {
	m := msghdr{iov: uintptr(unsafe.Pointer(unsafe.SliceData(v))), iovlen: uint64(len(v))}
	for {
		n, _, e := syscall.RawSyscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&m)), uintptr(flags|MsgDontWait))
		if e != EINTR {
			runtime.KeepAlive(v)
			return int(n), e
		}
	}
}
