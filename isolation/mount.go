// SPDX-License-Identifier: Apache-2.0

package isolation

import (
	"fmt"

	"passt/internal/sys"
	"passt/internal/sys/priv"
)

// mountAt is a directory that every root has; what was there is gone with the old root.
const mountAt = "/proc"

// EmptyRoot replaces everything that this process sees of the file system by one read-only, empty directory that
// takes no file (two inodes: the root's and none to spare; mode 0111: a tmpfs of mode 0 cannot even be entered).
//
//	needs:    CAP_SYS_ADMIN in a mount namespace of our own (fallback: CAP_SYS_CHROOT too)
//	fallback: move the mount over the root and chroot there, for a root that pivot_root refuses (initial ramfs). The
//	          old root is then still mounted beneath; without capabilities there is no way back to it
//	cost:     0.15 ms
func EmptyRoot(fallback bool) error {
	flags := uintptr(priv.MountReadOnly | priv.MountNoSuid | priv.MountNoDev | priv.MountNoExec)
	steps := []mountStep{
		{"make mounts private", func() sys.Errno { return priv.Mount("", "/", "", priv.MountRec|priv.MountPrivate, "") }},
		{"mount empty root", func() sys.Errno {
			return priv.Mount("none", mountAt, "tmpfs", flags, "nr_inodes=2,nr_blocks=1,mode=0111")
		}},
		{"enter empty root", func() sys.Errno { return priv.Chdir(mountAt) }},
	}
	if fallback {
		steps = append(steps,
			mountStep{"move empty root", func() sys.Errno { return priv.Mount(".", "/", "", priv.MountMove, "") }},
			mountStep{"chroot", func() sys.Errno { return priv.Chroot(".") }})
	} else {
		steps = append(steps,
			mountStep{"pivot_root", func() sys.Errno { return priv.PivotRoot(".", ".") }},
			mountStep{"unmount old root", func() sys.Errno { return priv.Detach(".") }})
	}
	steps = append(steps, mountStep{"enter /", func() sys.Errno { return priv.Chdir("/") }})
	for _, s := range steps {
		if e := s.do(); e != 0 {
			return fmt.Errorf("%s: %w", s.name, e)
		}
	}
	return nil
}

type mountStep struct {
	name string
	do   func() sys.Errno
}
