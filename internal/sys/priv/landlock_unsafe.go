// SPDX-License-Identifier: Apache-2.0

package priv

import (
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"passt/internal/sys"
)

// LandlockAttr is struct landlock_ruleset_attr as of ABI 6: what is denied where no rule allows it.
type LandlockAttr struct {
	AccessFS  uint64
	AccessNet uint64
	Scoped    uint64
}

// Flags of landlock_create_ruleset(2).
const (
	landlockVersion = 1 // LANDLOCK_CREATE_RULESET_VERSION
	landlockErrata  = 2 // LANDLOCK_CREATE_RULESET_ERRATA
)

// LandlockABI asks for the kernel's Landlock version; ENOSYS or EOPNOTSUPP without Landlock.
// policy: boot
func LandlockABI() (int, sys.Errno) {
	n, _, e := syscall.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, landlockVersion)
	return int(n), e
}

// LandlockErrata gives the bits of repaired kernel faults (bit n-1 for erratum n); EINVAL where the kernel cannot tell.
// policy: boot
func LandlockErrata() (uint, sys.Errno) {
	n, _, e := syscall.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, landlockErrata)
	return uint(n), e
}

// LandlockCreate makes a rule set without any rule. Fields that the kernel's version does not know must be zero and
// are left out by size (bytes: 8 up to ABI 3, 16 up to ABI 5, 24 since).
// policy: boot
func LandlockCreate(a *LandlockAttr, size uintptr) (sys.FD, sys.Errno) {
	n, _, e := syscall.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(a)), size, 0)
	runtime.KeepAlive(a)
	if e != 0 {
		return sys.NoFD, e
	}
	return sys.FD(n), 0
}

// LandlockRestrict puts every thread under the rule set. Each needs no_new_privs before.
// policy: boot
func LandlockRestrict(rules sys.FD) sys.Errno {
	_, _, e := syscall.AllThreadsSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(rules), 0, 0)
	return e
}
