// SPDX-License-Identifier: Apache-2.0

package priv

import (
	"golang.org/x/sys/unix"

	"passt/internal/sys"
)

// CloseRangeAtExec marks every descriptor from first on as closing at an exec. EINVAL before Linux 5.11.
// policy: boot
func CloseRangeAtExec(first uint) sys.Errno {
	return errno(unix.CloseRange(first, ^uint(0)&0xffffffff, unix.CLOSE_RANGE_CLOEXEC))
}

// IsOpen tells whether fd is open.
// policy: boot
func IsOpen(fd sys.FD) bool {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	return err == nil
}

// IsInherited tells whether fd is open and came (or would go) over an exec.
// policy: boot
func IsInherited(fd sys.FD) bool {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	return err == nil && flags&unix.FD_CLOEXEC == 0
}

// OpenNull opens /dev/null for reading and writing at the lowest free number.
//
//	inherit: the descriptor outlives an exec
//
// policy: boot
func OpenNull(inherit bool) (sys.FD, sys.Errno) {
	flags := unix.O_RDWR
	if !inherit {
		flags |= unix.O_CLOEXEC
	}
	return open("/dev/null", flags)
}

// OpenRead opens a file (a namespace, say) for reading.
// policy: boot
func OpenRead(path string) (sys.FD, sys.Errno) { return open(path, unix.O_RDONLY|unix.O_CLOEXEC) }

// OpenSelf opens this process's executable as a place only: it can be executed even where it cannot be read.
// policy: boot
func OpenSelf() (sys.FD, sys.Errno) { return open("/proc/self/exe", unix.O_PATH|unix.O_CLOEXEC) }

// ReadByte blocks until one byte came; ok is false at the end of the file.
// policy: boot
func ReadByte(fd sys.FD) (ok bool, e sys.Errno) {
	var b [1]byte
	for {
		n, err := unix.Read(int(fd), b[:])
		if err != unix.EINTR {
			return n == 1, errno(err)
		}
	}
}

func open(path string, flags int) (sys.FD, sys.Errno) {
	for {
		fd, err := unix.Open(path, flags, 0)
		if err == nil {
			return sys.FD(fd), 0
		}
		if err != unix.EINTR {
			return sys.NoFD, errno(err)
		}
	}
}
