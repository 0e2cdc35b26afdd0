// SPDX-License-Identifier: Apache-2.0

package sys

import (
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// SeccompFilter puts a classic BPF program on every thread of this process (seccomp(2), SECCOMP_FILTER_FLAG_TSYNC).
//
//	in:     prog, 8 bytes for each instruction (struct sock_filter), 1..4096 instructions
//	errors: ESRCH, a thread that has another filter could not take this one (then none did); EACCES, no_new_privs is
//	        not set; EINVAL, ENOSYS, a kernel without filters
//
// policy: boot
func SeccompFilter(prog []byte) Errno {
	if len(prog) < 8 || len(prog)%8 != 0 || len(prog)/8 > unix.BPF_MAXINSNS {
		return EINVAL
	}
	insns := make([]unix.SockFilter, len(prog)/8) // aligned, as the kernel reads it by fields
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&insns[0])), len(prog)), prog)
	f := unix.SockFprog{Len: uint16(len(insns)), Filter: &insns[0]}
	n, _, e := syscall.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&f)))
	runtime.KeepAlive(insns)
	if e == 0 && n != 0 { // the answer is the number of that thread (TSYNC_ESRCH needs Linux 5.7)
		return unix.ESRCH
	}
	return e
}

// SettleThreads waits until every thread of the runtime has started, so that none makes a call under the filter that
// only a start needs (seen under strace: one process in thirty died at its start). Each thread has to answer a signal,
// and they block signals until all of those calls but the last, gettid(2), are done (runtime.minit).
//
//	cost: 30..100 µs
//
// policy: boot
func SettleThreads() {
	_, _, _ = syscall.AllThreadsSyscall(unix.SYS_GETPID, 0, 0, 0) // ENOTSUP only where a test binary links cgo
}
