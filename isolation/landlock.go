// SPDX-License-Identifier: Apache-2.0

package isolation

import (
	"fmt"

	"passt/internal/sys"
	"passt/internal/sys/priv"
)

// The rights that we deny, pinned: a right that a later kernel adds is denied when we have read what it does.
// Source: landlock(7) and the kernel's userspace-api/landlock document, by ABI.
const (
	landlockFS1  = 1<<13 - 1 // ABI 1: execute, write, read, list, remove, make of every kind
	landlockFS2  = 1 << 13   // ABI 2: link or rename across directories
	landlockFS3  = 1 << 14   // ABI 3: truncate
	landlockFS5  = 1 << 15   // ABI 5: ioctl on devices opened from now on
	landlockTCP4 = 1<<0 | 1<<1
	landlockAbs6 = 1 << 0 // ABI 6: connect to abstract Unix sockets outside
	landlockSig6 = 1 << 1 // ABI 6: signal processes outside
)

// erratumThreads is set where a domain with the signal scope still lets the threads of one process signal each
// other (Linux 6.15 and stable releases). The Go runtime does that, also to bring the other threads into the domain.
const erratumThreads = 1 << 1

// landlockDeny says what, besides all file access, is taken away.
type landlockDeny struct {
	tcp     bool // bind and connect, also on sockets handed over
	signals bool // to processes outside the domain: children started before are outside
}

// landlockAll takes all file access, abstract Unix sockets and what deny says from every thread, as far as the kernel
// can. Files already open stay usable. It needs no_new_privs, comes after the last mount (mount fails after it) and the
// last open, and returns the kernel's ABI, 0 where there is no Landlock.
func landlockAll(deny landlockDeny) (abi int, err error) {
	abi, e := priv.LandlockABI()
	if e != 0 {
		return 0, nil // not built in or not switched on: the other walls stand
	}
	attr, size := landlockAttr(abi, landlockErrata(), deny)
	rules, e := priv.LandlockCreate(&attr, size)
	if e != 0 {
		return abi, fmt.Errorf("landlock (ABI %d): make rules: %w", abi, e)
	}
	defer sys.Close(rules)
	if e := priv.LandlockRestrict(rules); e != 0 {
		return abi, fmt.Errorf("landlock (ABI %d): enforce: %w", abi, e)
	}
	return abi, nil
}

func landlockErrata() uint {
	bits, e := priv.LandlockErrata()
	if e != 0 {
		return 0
	}
	return bits
}

// landlockAttr gives the request and how many bytes of it this ABI takes.
func landlockAttr(abi int, errata uint, deny landlockDeny) (a priv.LandlockAttr, size uintptr) {
	a.AccessFS, size = landlockFS1, 8
	if abi >= 2 {
		a.AccessFS |= landlockFS2
	}
	if abi >= 3 {
		a.AccessFS |= landlockFS3
	}
	if abi >= 4 {
		size = 16
		if deny.tcp {
			a.AccessNet = landlockTCP4
		}
	}
	if abi >= 5 {
		a.AccessFS |= landlockFS5
	}
	if abi >= 6 {
		size = 24
		a.Scoped = landlockAbs6
		if deny.signals && errata&erratumThreads != 0 {
			a.Scoped |= landlockSig6
		}
	}
	return a, size
}
