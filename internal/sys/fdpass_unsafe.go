// SPDX-License-Identifier: Apache-2.0

package sys

import (
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxPass is the most descriptors in one message of ours.
const maxPass = 16

// cmsgRights is room for one SCM_RIGHTS message: a header of 16 bytes and the descriptors.
type cmsgRights struct {
	n     uint64
	level int32
	kind  int32
	fds   [maxPass]int32
}

// RecvFDs receives one packet with the descriptors that came in it, close-on-exec set.
//
//	out:    bytes, descriptors stored in fds; 0 bytes: the other side is gone
//	errors: EAGAIN; EMSGSIZE when the packet did not fit (what came is closed); EMFILE when it was received but not all of
//	        its descriptors: too many of them, or none free in this process (bytes and count are valid, the first ones are stored)
//
// policy: worker, supervisor, agent
func RecvFDs(fd FD, b []byte, fds []FD) (int, int, Errno) {
	var v Iovec
	v.Set(b)
	var c cmsgRights
	m := msghdr{iov: uintptr(unsafe.Pointer(&v)), iovlen: 1, control: uintptr(unsafe.Pointer(&c)), controllen: uint64(unsafe.Sizeof(c))}
	var n uintptr
	var e Errno
	for {
		n, _, e = syscall.RawSyscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&m)), unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
		if e != EINTR {
			break
		}
	}
	runtime.KeepAlive(b)
	if e != 0 {
		return 0, 0, e
	}
	k := 0
	if m.controllen >= 16 && c.level == unix.SOL_SOCKET && c.kind == unix.SCM_RIGHTS && c.n >= 16 {
		for i := range min(int(c.n-16)/4, maxPass) {
			if k < len(fds) {
				fds[k] = FD(c.fds[i])
				k++
				continue
			}
			Close(FD(c.fds[i]))
			m.flags |= unix.MSG_CTRUNC
		}
	}
	if m.flags&unix.MSG_TRUNC != 0 {
		for _, f := range fds[:k] {
			Close(f)
		}
		return 0, 0, EMSGSIZE
	}
	if m.flags&unix.MSG_CTRUNC != 0 {
		return int(n), k, EMFILE
	}
	return int(n), k, 0
}

// SendFDs sends one packet with at most 16 descriptors; they stay open here.
// policy: supervisor, agent
func SendFDs(fd FD, b []byte, fds []FD) Errno {
	var v Iovec
	v.Set(b)
	m := msghdr{iov: uintptr(unsafe.Pointer(&v)), iovlen: 1}
	var c cmsgRights
	if len(fds) > 0 {
		c.n = uint64(16 + 4*len(fds))
		c.level, c.kind = unix.SOL_SOCKET, unix.SCM_RIGHTS
		for i, f := range fds {
			c.fds[i] = int32(f)
		}
		m.control, m.controllen = uintptr(unsafe.Pointer(&c)), uint64(16+(4*len(fds)+7)&^7)
	}
	for {
		_, _, e := syscall.RawSyscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(&m)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		if e != EINTR {
			runtime.KeepAlive(b)
			return e
		}
	}
}
