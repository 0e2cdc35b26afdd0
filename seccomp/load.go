// SPDX-License-Identifier: Apache-2.0

package seccomp

import (
	"embed"
	"fmt"
	"runtime"

	"passt/internal/sys"
)

//go:embed programs
var programs embed.FS

// Program gives the filter of a role for an architecture (Go's name), 8 bytes for each instruction in the machine's
// order (little-endian on both); nil when there is none.
func Program(role Role, arch string) []byte {
	b, err := programs.ReadFile("programs/" + role.String() + "." + arch + ".bpf")
	if err != nil {
		return nil
	}
	return b
}

// Load puts the role's filter on all threads of this process, for good.
//
//	before: no_new_privs is set on the calling thread (the kernel sets it on the others); every thread that the
//	        role's list does not allow to start exists
//	errors: no program for this machine; the kernel's refusal (EACCES: no_new_privs is not set; ENOSYS, EINVAL:
//	        built without seccomp filters; ESRCH: a thread has another filter)
//	after:  a call outside of the list ends the process with SIGSYS
func Load(role Role) error {
	prog := Program(role, runtime.GOARCH)
	if prog == nil {
		return fmt.Errorf("seccomp: no program for %s on %s", role, runtime.GOARCH)
	}
	sys.SettleThreads()
	if e := sys.SeccompFilter(prog); e != 0 {
		return fmt.Errorf("seccomp: load filter for %s: %w", role, e)
	}
	return nil
}
