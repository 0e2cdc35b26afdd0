// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"os"
	"syscall"
	"testing"

	"passt/dataplane/fwd"
	"passt/internal/sys"
)

var ruleTo80 = fwd.Rule{First: 9, Last: 9, To: 80, Proto: fwd.ProtoTCP}

// pair makes a connection over loopback: the accepted end, non-blocking, and the client's.
func pair() (sys.FD, int, error) {
	l, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, 0, err
	}
	defer syscall.Close(l)
	if err = syscall.Bind(l, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return 0, 0, err
	}
	if err = syscall.Listen(l, 1); err != nil {
		return 0, 0, err
	}
	a, err := syscall.Getsockname(l)
	if err != nil {
		return 0, 0, err
	}
	c, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, 0, err
	}
	if err = syscall.Connect(c, a); err != nil {
		return 0, 0, err
	}
	s, _, err := syscall.Accept4(l, syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC)
	return sys.FD(s), c, err
}

// descriptors counts what this process has open.
func descriptors(t *testing.T) int {
	t.Helper()
	d, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	return len(d)
}
