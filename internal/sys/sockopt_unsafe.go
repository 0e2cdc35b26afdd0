// SPDX-License-Identifier: Apache-2.0

package sys

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// SetsockoptInt sets one integer option.
// policy: worker, supervisor, agent (each has its own list of level and name)
func SetsockoptInt(fd FD, level, name, value int) Errno {
	v := int32(value)
	_, _, e := syscall.RawSyscall6(unix.SYS_SETSOCKOPT, uintptr(fd), uintptr(level), uintptr(name), uintptr(unsafe.Pointer(&v)), 4, 0)
	return e
}

// GetsockoptInt reads one integer option.
// policy: worker, supervisor, agent (each has its own list of level and name)
func GetsockoptInt(fd FD, level, name int) (int, Errno) {
	var v int32
	n := uint32(4)
	_, _, e := syscall.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(level), uintptr(name), uintptr(unsafe.Pointer(&v)), uintptr(unsafe.Pointer(&n)), 0)
	return int(v), e
}

// SocketError takes the pending error of a socket (SO_ERROR, which clears it).
// policy: worker, supervisor, agent
func SocketError(fd FD) Errno {
	v, e := GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if e != 0 {
		return e
	}
	return Errno(v)
}

// SetLingerZero makes the next close send a reset (SO_LINGER with zero time).
// policy: worker, supervisor
func SetLingerZero(fd FD) Errno {
	l := [2]int32{1, 0}
	_, _, e := syscall.RawSyscall6(unix.SYS_SETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_LINGER, uintptr(unsafe.Pointer(&l)), 8, 0)
	return e
}

// SetPeekOffset sets where MSG_PEEK begins (SO_PEEK_OFF; TCP since 6.9). Consuming moves it back by itself.
// policy: worker
func SetPeekOffset(fd FD, off int) Errno {
	return SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEEK_OFF, off)
}

// Shutdown directions.
const (
	ShutRd = unix.SHUT_RD
	ShutWr = unix.SHUT_WR
)

// Shutdown ends one direction of a connection.
// policy: worker, supervisor, agent
func Shutdown(fd FD, how int) Errno {
	_, _, e := syscall.RawSyscall(unix.SYS_SHUTDOWN, uintptr(fd), uintptr(how), 0)
	return e
}
