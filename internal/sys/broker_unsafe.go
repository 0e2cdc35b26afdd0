// SPDX-License-Identifier: Apache-2.0

package sys

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Socket types and protocols that the brokers make.
const (
	AFInet  = unix.AF_INET
	AFInet6 = unix.AF_INET6

	SockStream = unix.SOCK_STREAM
	SockDgram  = unix.SOCK_DGRAM

	ProtoICMP   = unix.IPPROTO_ICMP
	ProtoICMPv6 = unix.IPPROTO_ICMPV6
)

// Socket makes a non-blocking, close-on-exec socket.
// policy: supervisor, agent
func Socket(family, kind, proto int) (FD, Errno) {
	n, _, e := syscall.RawSyscall(unix.SYS_SOCKET, uintptr(family), uintptr(kind|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC), uintptr(proto))
	if e != 0 {
		return NoFD, e
	}
	return FD(n), 0
}

// SockAddr is an IPv4 or IPv6 socket address as the kernel wants it: 28 bytes suffice for both.
type SockAddr struct {
	raw [28]byte
	n   uint32
}

// MakeSockAddr4 builds sockaddr_in (ip(7)).
func MakeSockAddr4(a [4]byte, port uint16) (s SockAddr) {
	s.family(unix.AF_INET)
	s.raw[2], s.raw[3] = byte(port>>8), byte(port)
	copy(s.raw[4:8], a[:])
	s.n = 16
	return s
}

// MakeSockAddr6 builds sockaddr_in6 (ipv6(7)).
func MakeSockAddr6(a [16]byte, port uint16, scope uint32) (s SockAddr) {
	s.family(unix.AF_INET6)
	s.raw[2], s.raw[3] = byte(port>>8), byte(port)
	copy(s.raw[8:24], a[:])
	*(*uint32)(unsafe.Pointer(&s.raw[24])) = scope
	s.n = 28
	return s
}

func (s *SockAddr) family(f uint16) { *(*uint16)(unsafe.Pointer(&s.raw[0])) = f }

// Get gives address (IPv4 as ::ffff:a.b.c.d) and port; false for another family.
func (s *SockAddr) Get() (a [16]byte, port uint16, ok bool) {
	port = uint16(s.raw[2])<<8 | uint16(s.raw[3])
	switch *(*uint16)(unsafe.Pointer(&s.raw[0])) {
	case unix.AF_INET:
		a[10], a[11] = 0xff, 0xff
		copy(a[12:], s.raw[4:8])
		return a, port, true
	case unix.AF_INET6:
		copy(a[:], s.raw[8:24])
		return a, port, true
	}
	return a, 0, false
}

// Bind binds a socket.
// policy: supervisor, agent
func Bind(fd FD, s *SockAddr) Errno {
	_, _, e := syscall.RawSyscall(unix.SYS_BIND, uintptr(fd), uintptr(unsafe.Pointer(&s.raw)), uintptr(s.n))
	return e
}

// Connect connects a non-blocking socket: EINPROGRESS is the usual answer for TCP.
// policy: supervisor, agent
func Connect(fd FD, s *SockAddr) Errno {
	for {
		_, _, e := syscall.RawSyscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&s.raw)), uintptr(s.n))
		if e != EINTR {
			return e
		}
	}
}

// Listen makes a TCP socket accept connections.
// policy: supervisor, agent
func Listen(fd FD, backlog int) Errno {
	_, _, e := syscall.RawSyscall(unix.SYS_LISTEN, uintptr(fd), uintptr(backlog), 0)
	return e
}

// LocalAddr reads a socket's own address (getsockname(2)).
// policy: worker, supervisor, agent
func LocalAddr(fd FD) (s SockAddr, e Errno) {
	s.n = uint32(len(s.raw))
	_, _, e = syscall.RawSyscall(unix.SYS_GETSOCKNAME, uintptr(fd), uintptr(unsafe.Pointer(&s.raw)), uintptr(unsafe.Pointer(&s.n)))
	return s, e
}

// Accept takes one connection, non-blocking and close-on-exec, and tells the peer.
// policy: worker
func Accept(fd FD) (FD, SockAddr, Errno) {
	s := SockAddr{n: 28}
	for {
		n, _, e := syscall.RawSyscall6(unix.SYS_ACCEPT4, uintptr(fd), uintptr(unsafe.Pointer(&s.raw)), uintptr(unsafe.Pointer(&s.n)),
			unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0, 0)
		if e == 0 {
			return FD(n), s, 0
		}
		if e != EINTR {
			return NoFD, s, e
		}
	}
}

// BindToDevice ties a socket to an interface (SO_BINDTODEVICE); name is zero-padded.
// policy: supervisor, agent
func BindToDevice(fd FD, name *[16]byte) Errno {
	_, _, e := syscall.RawSyscall6(unix.SYS_SETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_BINDTODEVICE, uintptr(unsafe.Pointer(name)), 16, 0)
	return e
}

// TCP states of TCPState (tcp_states.h).
const (
	TCPEstablished = 1
	TCPSynSent     = 2
	TCPClose       = 7
)

// TCPState reads a connection's state: the first byte of struct tcp_info.
// policy: supervisor, agent
func TCPState(fd FD) (int, Errno) {
	var state uint8
	n := uint32(1)
	_, _, e := syscall.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.IPPROTO_TCP, unix.TCP_INFO, uintptr(unsafe.Pointer(&state)), uintptr(unsafe.Pointer(&n)), 0)
	return int(state), e
}

// Pipe makes a non-blocking pipe of at most size bytes: read end, write end.
// policy: supervisor, agent
func Pipe(size int) (r, w FD, e Errno) {
	var p [2]int32
	_, _, e = syscall.RawSyscall(unix.SYS_PIPE2, uintptr(unsafe.Pointer(&p)), unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if e != 0 {
		return NoFD, NoFD, e
	}
	if size > 0 {
		// A smaller pipe works too: the per-user limit may be used up (pipe(7)).
		for ; size > 65536; size /= 2 {
			if _, _, e := syscall.RawSyscall(unix.SYS_FCNTL, uintptr(p[0]), unix.F_SETPIPE_SZ, uintptr(size)); e == 0 {
				break
			}
		}
	}
	return FD(p[0]), FD(p[1]), 0
}

// SeqPair makes a connected pair of sequenced-packet Unix sockets, non-blocking, close-on-exec.
// policy: boot
func SeqPair() (a, b FD, e Errno) {
	var p [2]int32
	_, _, e = syscall.RawSyscall6(unix.SYS_SOCKETPAIR, unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0, uintptr(unsafe.Pointer(&p)), 0, 0)
	return FD(p[0]), FD(p[1]), e
}
