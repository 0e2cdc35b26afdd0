// SPDX-License-Identifier: Apache-2.0

package sys

import (
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// CtrlSize is the room for ancillary data of one message, bytes: packet information of both families (32 + 40),
// GRO size (24) and one extended error with its offender (64) fit together.
const CtrlSize = 192

type mmsghdr struct {
	msghdr
	n uint32
	_ uint32
}

// Msgs is a set of message headers for receiving datagrams, with room for name and ancillary data of each. It lives
// outside the Go heap. Not safe for concurrent use.
type Msgs struct {
	hdr  []mmsghdr
	vec  []Iovec // two for each message
	name []SockAddr
	ctrl []byte
}

// NewMsgs makes room for n messages.
// policy: boot
func NewMsgs(n int) *Msgs {
	m := &Msgs{hdr: AllocOf[mmsghdr](n), vec: AllocOf[Iovec](2 * n), name: AllocOf[SockAddr](n), ctrl: Alloc(n * CtrlSize)}
	for i := range m.hdr {
		h := &m.hdr[i]
		h.name = uintptr(unsafe.Pointer(&m.name[i].raw))
		h.iov = uintptr(unsafe.Pointer(&m.vec[2*i]))
		h.control = uintptr(unsafe.Pointer(&m.ctrl[i*CtrlSize]))
	}
	return m
}

// Set gives message i its room: a first, then b (nil: none). Both must stay where they are until Recv returns.
func (m *Msgs) Set(i int, a, b []byte) {
	v := m.vec[2*i : 2*i+2]
	v[0].Set(a)
	m.hdr[i].iovlen = 1
	if b != nil {
		v[1].Set(b)
		m.hdr[i].iovlen = 2
	}
}

// Recv receives up to n datagrams into the room that Set gave, without waiting.
//
//	out:    datagrams received, at least 1 when errno is 0; fewer than n mean that the queue was empty or an error is pending
//	source: recvmsg(2), recvmmsg(2)
//
// policy: worker
func (m *Msgs) Recv(fd FD, n, flags int) (int, Errno) {
	for i := range n {
		h := &m.hdr[i]
		h.namelen, h.controllen, h.flags = 28, CtrlSize, 0
	}
	flags |= MsgDontWait
	for {
		var r uintptr
		var e Errno
		if n == 1 {
			r, _, e = syscall.RawSyscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&m.hdr[0])), uintptr(flags))
			if e == 0 {
				m.hdr[0].n, r = uint32(r), 1
			}
		} else {
			r, _, e = syscall.RawSyscall6(unix.SYS_RECVMMSG, uintptr(fd), uintptr(unsafe.Pointer(&m.hdr[0])), uintptr(n), uintptr(flags), 0, 0)
		}
		if e == EINTR {
			continue
		}
		runtime.KeepAlive(m)
		if e != 0 {
			return 0, e
		}
		return int(r), 0
	}
}

// Len gives the bytes of message i.
func (m *Msgs) Len(i int) int { return int(m.hdr[i].n) }

// Truncated tells whether message i was longer than its room.
func (m *Msgs) Truncated(i int) bool { return m.hdr[i].flags&MsgTrunc != 0 }

// From gives the sender of message i (of an error: where the datagram had gone); false when there is none.
func (m *Msgs) From(i int) ([16]byte, uint16, bool) {
	if m.hdr[i].namelen < 16 {
		return [16]byte{}, 0, false
	}
	return m.name[i].Get()
}

// Control gives the ancillary data of message i, valid until the next Recv.
func (m *Msgs) Control(i int) []byte {
	return m.ctrl[i*CtrlSize:][:min(m.hdr[i].controllen, CtrlSize)]
}

// CopyToVec copies b into the vectors, which must have room for it, and tells how much it copied.
// policy: worker
func CopyToVec(v []Iovec, b []byte) int {
	done := 0
	for i := range v {
		if done == len(b) {
			break
		}
		// The base is kept as a number; it points outside the Go heap or at memory that the caller keeps.
		p := *(*unsafe.Pointer)(unsafe.Pointer(&v[i].base))
		done += copy(unsafe.Slice((*byte)(p), int(v[i].n)), b[done:])
	}
	return done
}

// ReleaseOf is Release for a table from AllocOf.
// policy: worker
func ReleaseOf[T any](t []T) {
	var x T
	Release(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(t))), len(t)*int(unsafe.Sizeof(x))))
}
