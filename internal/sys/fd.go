// SPDX-License-Identifier: Apache-2.0

package sys

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// Errno is a kernel error number; 0 is success. Small enough to be returned by value everywhere.
type Errno = syscall.Errno

// FD is a file descriptor; NoFD means none.
type FD int32

// NoFD is the absent descriptor.
const NoFD FD = -1

// Error numbers that callers compare with.
const (
	EPERM         = unix.EPERM
	EINTR         = unix.EINTR
	EIO           = unix.EIO
	EBADF         = unix.EBADF
	EAGAIN        = unix.EAGAIN
	ENOMEM        = unix.ENOMEM
	EACCES        = unix.EACCES
	EINVAL        = unix.EINVAL
	ENFILE        = unix.ENFILE
	EMFILE        = unix.EMFILE
	ENOSPC        = unix.ENOSPC
	EPIPE         = unix.EPIPE
	EMSGSIZE      = unix.EMSGSIZE
	EOPNOTSUPP    = unix.EOPNOTSUPP
	EAFNOSUPPORT  = unix.EAFNOSUPPORT
	EADDRINUSE    = unix.EADDRINUSE
	EADDRNOTAVAIL = unix.EADDRNOTAVAIL
	ENETDOWN      = unix.ENETDOWN
	ENETUNREACH   = unix.ENETUNREACH
	ECONNABORTED  = unix.ECONNABORTED
	ECONNRESET    = unix.ECONNRESET
	ENOBUFS       = unix.ENOBUFS
	ENOTCONN      = unix.ENOTCONN
	ETIMEDOUT     = unix.ETIMEDOUT
	ECONNREFUSED  = unix.ECONNREFUSED
	EHOSTDOWN     = unix.EHOSTDOWN
	EHOSTUNREACH  = unix.EHOSTUNREACH
	EALREADY      = unix.EALREADY
	EINPROGRESS   = unix.EINPROGRESS
	ENOPROTOOPT   = unix.ENOPROTOOPT
)

// Close closes fd; closing NoFD does nothing. EINTR means closed (Linux).
// policy: worker, supervisor, agent
func Close(fd FD) {
	if fd >= 0 {
		_, _, _ = syscall.RawSyscall(unix.SYS_CLOSE, uintptr(fd), 0, 0)
	}
}
