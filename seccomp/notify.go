// SPDX-License-Identifier: Apache-2.0

package seccomp

import (
	"encoding/binary"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"

	"passt/internal/sys"
)

// LoadNotify is Load with one difference: a call outside of the list does not end the process by itself. It stops there, never runs,
// and the holder of the returned listener learns its number and ends the process, so that the name of the call can be
// said (seccomp_unotify(2)). If the holder is gone, the call fails with ENOSYS. Kernels before 5.7 get the plain filter
// and NoFD.
func LoadNotify(role Role) (sys.FD, error) {
	prog := append([]byte(nil), Program(role, runtime.GOARCH)...)
	if len(prog) == 0 || len(prog)%8 != 0 {
		return sys.NoFD, fmt.Errorf("seccomp: no program for %s on %s", role, runtime.GOARCH)
	}
	const ret = unix.BPF_RET | unix.BPF_K
	le := binary.LittleEndian
	for i := 0; i < len(prog); i += 8 {
		if le.Uint16(prog[i:]) == ret && le.Uint32(prog[i+4:]) == unix.SECCOMP_RET_KILL_PROCESS {
			le.PutUint32(prog[i+4:], unix.SECCOMP_RET_USER_NOTIF)
		}
	}
	sys.SettleThreads()
	fd, e := sys.SeccompListener(prog)
	if e == sys.EINVAL {
		return sys.NoFD, Load(role)
	}
	if e != 0 {
		return sys.NoFD, fmt.Errorf("seccomp: load filter for %s: %w", role, e)
	}
	return fd, nil
}

// CallName names a system call of this machine; "unknown" for a number that has none.
func CallName(nr int) string {
	_, names := Numbers(runtime.GOARCH)
	if n := names[uint32(nr)]; n != "" {
		return n
	}
	return "unknown"
}
