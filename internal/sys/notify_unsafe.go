// SPDX-License-Identifier: Apache-2.0

package sys

import (
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// SeccompListener is SeccompFilter for a program that notifies: it gives the descriptor on which a supervisor learns of
// stopped calls (SECCOMP_FILTER_FLAG_NEW_LISTENER with TSYNC needs TSYNC_ESRCH, Linux 5.7: EINVAL before).
// policy: boot
func SeccompListener(prog []byte) (FD, Errno) {
	insns := make([]unix.SockFilter, len(prog)/8)
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&insns[0])), len(prog)), prog)
	f := unix.SockFprog{Len: uint16(len(insns)), Filter: &insns[0]}
	n, _, e := syscall.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_TSYNC|unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|unix.SECCOMP_FILTER_FLAG_TSYNC_ESRCH, uintptr(unsafe.Pointer(&f)))
	runtime.KeepAlive(insns)
	if e != 0 {
		return NoFD, e
	}
	return FD(n), 0
}
