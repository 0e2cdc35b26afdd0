// SPDX-License-Identifier: Apache-2.0

package seccomp

import (
	"fmt"
	"runtime"

	"passt/internal/sys"
)

// NotifyProgram is Program in the form that LoadNotify loads: a call outside of the list notifies instead of killing.
// Calls of a foreign architecture and x32 calls kill in this form too: their numbers name other calls.
func NotifyProgram(role Role, arch string) []byte {
	b, err := programs.ReadFile("programs/" + role.String() + "-notify." + arch + ".bpf")
	if err != nil {
		return nil
	}
	return b
}

// LoadNotify is Load with one difference: a call outside of the list does not end the process by itself. It stops there, never runs,
// and the holder of the returned listener learns its number and ends the process, so that the name of the call can be
// said (seccomp_unotify(2)). If the holder is gone, the call fails with ENOSYS. Kernels before 5.7 get the plain filter
// and NoFD.
func LoadNotify(role Role) (sys.FD, error) {
	prog := NotifyProgram(role, runtime.GOARCH)
	if prog == nil {
		return sys.NoFD, fmt.Errorf("seccomp: no notifying program for %s on %s", role, runtime.GOARCH)
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
