// SPDX-License-Identifier: Apache-2.0

package priv

import (
	"syscall"

	"golang.org/x/sys/unix"

	"passt/internal/sys"
)

// IDs gives the effective user and group.
// policy: boot
func IDs() (uid, gid int) { return unix.Geteuid(), unix.Getegid() }

// ClearGroups drops the supplementary groups of all threads; EPERM without CAP_SETGID and where a user namespace
// denies setgroups.
// policy: boot
func ClearGroups() sys.Errno { return errno(syscall.Setgroups(nil)) }

// Setgid sets real, effective and saved group of all threads.
// policy: boot
func Setgid(gid int) sys.Errno { return errno(syscall.Setresgid(gid, gid, gid)) }

// Setuid sets real, effective and saved user of all threads; leaving 0 empties the capability sets.
// policy: boot
func Setuid(uid int) sys.Errno { return errno(syscall.Setresuid(uid, uid, uid)) }

// ParentPid gives the process that would reap us; 0 from inside a PID namespace of our own.
// policy: boot
func ParentPid() int { return unix.Getppid() }

// Pid gives our process number in our own PID namespace.
// policy: boot
func Pid() int { return unix.Getpid() }
