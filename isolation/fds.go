// SPDX-License-Identifier: Apache-2.0

package isolation

import (
	"fmt"
	"os"
	"strconv"

	"passt/internal/sys"
	"passt/internal/sys/priv"
)

// FirstFD is the number of the first descriptor that a role process is given; 0, 1 and 2 are its standard ones.
const FirstFD = 3

// CloseFrom closes every inherited descriptor from n on: what the caller leaked to us is neither ours nor our
// children's. Inherited are those without close-on-exec. A plain close_range would also take the Go runtime's poller,
// which exists before main when a standard descriptor is non-blocking. Without /proc the descriptors stay open here
// but are closed in every child.
func CloseFrom(n int) error {
	dir, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		if e := priv.CloseRangeAtExec(uint(n)); e != 0 {
			return fmt.Errorf("close descriptors from %d on at exec: %w", n, e)
		}
		return fmt.Errorf("close descriptors from %d on: %w", n, err)
	}
	for _, entry := range dir {
		fd, err := strconv.Atoi(entry.Name())
		if err == nil && fd >= n && priv.IsInherited(sys.FD(fd)) {
			sys.Close(sys.FD(fd))
		}
	}
	return nil
}

// FillStdio opens /dev/null on each of 0, 1 and 2 that is closed, so that no later descriptor lands there.
func FillStdio() error {
	for want := sys.FD(0); want < FirstFD; want++ {
		if priv.IsOpen(want) {
			continue
		}
		if got, e := priv.OpenNull(true); e != 0 || got != want {
			return fmt.Errorf("fill descriptor %d with /dev/null (got %d): %w", want, got, e)
		}
	}
	return nil
}

// RaiseNOFILE makes the soft limit of open descriptors the hard one and returns what holds then.
func RaiseNOFILE() (soft uint64) {
	soft, hard, e := priv.Getrlimit(priv.LimitNofile)
	if e == 0 && soft < hard && priv.Setrlimit(priv.LimitNofile, hard, hard) == 0 {
		return hard
	}
	return soft
}

// withStdio is the descriptor list of a child whose input and output are null.
func withStdio(null, stderr sys.FD, fds []sys.FD) []sys.FD {
	if stderr == sys.NoFD {
		stderr = null
	}
	return append([]sys.FD{null, null, stderr}, fds...)
}
