// SPDX-License-Identifier: Apache-2.0

package priv

import (
	"os"

	"golang.org/x/sys/unix"

	"passt/internal/sys"
)

// Steal takes the descriptor out of an os.File (a close-on-exec duplicate; the file is closed), so that the Go
// runtime's poller has no part in it. NoFD when it cannot be duplicated.
// policy: boot
func Steal(f *os.File) sys.FD {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	_ = f.Close() // read-only or already duplicated: nothing is lost
	if err != nil {
		return sys.NoFD
	}
	return sys.FD(fd)
}
