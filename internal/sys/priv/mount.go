// SPDX-License-Identifier: Apache-2.0

package priv

import (
	"golang.org/x/sys/unix"

	"passt/internal/sys"
)

// Flags of Mount (mount(2)).
const (
	MountReadOnly = unix.MS_RDONLY
	MountNoSuid   = unix.MS_NOSUID
	MountNoDev    = unix.MS_NODEV
	MountNoExec   = unix.MS_NOEXEC
	MountRec      = unix.MS_REC
	MountPrivate  = unix.MS_PRIVATE
	MountMove     = unix.MS_MOVE
)

// Mount is mount(2).
// policy: boot
func Mount(source, target, fstype string, flags uintptr, data string) sys.Errno {
	return errno(unix.Mount(source, target, fstype, flags, data))
}

// Detach takes a mount out of sight; it goes away with its last user (umount2(2), MNT_DETACH).
// policy: boot
func Detach(target string) sys.Errno { return errno(unix.Unmount(target, unix.MNT_DETACH)) }

// PivotRoot is pivot_root(2). EINVAL where the root is the initial ramfs.
// policy: boot
func PivotRoot(newRoot, putOld string) sys.Errno { return errno(unix.PivotRoot(newRoot, putOld)) }

// Chroot is chroot(2); needs CAP_SYS_CHROOT.
// policy: boot
func Chroot(path string) sys.Errno { return errno(unix.Chroot(path)) }

// Chdir is chdir(2), for all threads at once (they share it).
// policy: boot
func Chdir(path string) sys.Errno { return errno(unix.Chdir(path)) }

// SetHostname is sethostname(2), in this UTS namespace.
// policy: boot
func SetHostname(name string) sys.Errno { return errno(unix.Sethostname([]byte(name))) }

// Hostname gives the node name of this UTS namespace.
// policy: boot
func Hostname() (string, sys.Errno) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "", errno(err)
	}
	return unix.ByteSliceToString(u.Nodename[:]), 0
}
