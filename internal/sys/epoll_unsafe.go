// SPDX-License-Identifier: Apache-2.0

package sys

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Poll event bits (epoll_ctl(2)).
const (
	PollIn    = unix.EPOLLIN
	PollOut   = unix.EPOLLOUT
	PollErr   = unix.EPOLLERR
	PollHup   = unix.EPOLLHUP
	PollRdHup = unix.EPOLLRDHUP
	PollEdge  = 1 << 31
)

// EpollCreate makes the loop's epoll descriptor.
// policy: boot
func EpollCreate() (FD, Errno) {
	n, _, e := syscall.RawSyscall(unix.SYS_EPOLL_CREATE1, unix.EPOLL_CLOEXEC, 0, 0)
	if e != 0 {
		return NoFD, e
	}
	return FD(n), 0
}

// EpollAdd watches fd; tag comes back with each event.
// policy: worker, supervisor, agent
func EpollAdd(ep, fd FD, events uint32, tag uint64) Errno {
	return epollCtl(ep, unix.EPOLL_CTL_ADD, fd, events, tag)
}

// EpollMod changes what is watched.
// policy: worker, supervisor, agent
func EpollMod(ep, fd FD, events uint32, tag uint64) Errno {
	return epollCtl(ep, unix.EPOLL_CTL_MOD, fd, events, tag)
}

// EpollDel ends watching; closing the last copy of a descriptor does it too.
// policy: worker, supervisor, agent
func EpollDel(ep, fd FD) Errno { return epollCtl(ep, unix.EPOLL_CTL_DEL, fd, 0, 0) }

func epollCtl(ep FD, op int, fd FD, events uint32, tag uint64) Errno {
	ev := PollEvent{Events: events, Tag: [2]uint32{uint32(tag), uint32(tag >> 32)}}
	_, _, e := syscall.RawSyscall6(unix.SYS_EPOLL_CTL, uintptr(ep), uintptr(op), uintptr(fd), uintptr(unsafe.Pointer(&ev)), 0, 0)
	return e
}

// EpollWait waits for at most timeoutMs (0: not at all, -1: for ever) and fills evs.
// With block false the call goes past the Go scheduler: keep its time-out short. EINTR counts as no event.
// policy: worker, supervisor, agent
func EpollWait(ep FD, evs []PollEvent, timeoutMs int, block bool) (int, Errno) {
	p := uintptr(unsafe.Pointer(unsafe.SliceData(evs)))
	var n uintptr
	var e Errno
	if block {
		n, _, e = syscall.Syscall6(unix.SYS_EPOLL_PWAIT, uintptr(ep), p, uintptr(len(evs)), uintptr(timeoutMs), 0, 0)
	} else {
		n, _, e = syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(ep), p, uintptr(len(evs)), uintptr(timeoutMs), 0, 0)
	}
	if e == EINTR {
		return 0, 0
	}
	if e != 0 {
		return 0, e
	}
	return int(n), 0
}
