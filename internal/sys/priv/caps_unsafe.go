// SPDX-License-Identifier: Apache-2.0

package priv

import (
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"passt/internal/sys"
)

// CapSets are the three sets that capget(2) and capset(2) carry, bit n is capability n.
type CapSets struct {
	Effective, Permitted, Inheritable uint64
}

// capData is struct __user_cap_header_struct followed by two __user_cap_data_struct.
type capData struct {
	version uint32
	pid     int32
	data    [2]struct{ effective, permitted, inheritable uint32 }
}

//go:nosplit
func (c *capData) set(s CapSets) {
	c.version, c.pid = unix.LINUX_CAPABILITY_VERSION_3, 0
	c.data[0].effective, c.data[1].effective = uint32(s.Effective), uint32(s.Effective>>32)
	c.data[0].permitted, c.data[1].permitted = uint32(s.Permitted), uint32(s.Permitted>>32)
	c.data[0].inheritable, c.data[1].inheritable = uint32(s.Inheritable), uint32(s.Inheritable>>32)
}

// Capget reads this thread's capability sets.
// policy: boot
func Capget() (CapSets, sys.Errno) {
	c := &capData{version: unix.LINUX_CAPABILITY_VERSION_3}
	_, _, e := syscall.RawSyscall(unix.SYS_CAPGET, uintptr(unsafe.Pointer(&c.version)), uintptr(unsafe.Pointer(&c.data)), 0)
	wide := func(lo, hi uint32) uint64 { return uint64(lo) | uint64(hi)<<32 }
	return CapSets{
		Effective:   wide(c.data[0].effective, c.data[1].effective),
		Permitted:   wide(c.data[0].permitted, c.data[1].permitted),
		Inheritable: wide(c.data[0].inheritable, c.data[1].inheritable),
	}, e
}

// Capset replaces the capability sets; permitted can only shrink.
// policy: boot
func Capset(s Scope, sets CapSets) sys.Errno {
	c := new(capData)
	c.set(sets)
	var e sys.Errno
	if s == AllThreads {
		// c is on the heap (it escapes below), so every thread reads the same, unmoved bytes.
		_, _, e = syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&c.version)), uintptr(unsafe.Pointer(&c.data)), 0)
	} else {
		_, _, e = syscall.RawSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&c.version)), uintptr(unsafe.Pointer(&c.data)), 0)
	}
	runtime.KeepAlive(c)
	return e
}

// DropBounding takes one capability out of the bounding set. EPERM without CAP_SETPCAP, EINVAL above the last one.
// policy: boot
func DropBounding(s Scope, c uint) sys.Errno { return prctl(s, unix.PR_CAPBSET_DROP, uintptr(c), 0, 0) }

// InBounding tells whether capability c is in the bounding set; EINVAL above the kernel's last one.
// policy: boot
func InBounding(c uint) (bool, sys.Errno) {
	n, _, e := syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_CAPBSET_READ, uintptr(c), 0, 0, 0, 0)
	return n == 1, e
}

// ClearAmbient empties the ambient set.
// policy: boot
func ClearAmbient(s Scope) sys.Errno {
	return prctl(s, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0)
}

// LockSecurebits makes uid 0 an ordinary number for good: no rights by uid at exec or setuid, no ambient set, all
// of it locked (capabilities(7); 0xef is every bit but KEEP_CAPS). Needs CAP_SETPCAP.
// policy: boot
func LockSecurebits(s Scope) sys.Errno { return prctl(s, unix.PR_SET_SECUREBITS, 0xef, 0, 0) }
