// SPDX-License-Identifier: Apache-2.0

package priv

import (
	"syscall"

	"golang.org/x/sys/unix"

	"passt/internal/sys"
)

// Namespace bits of clone(2).
const (
	NewUser   = unix.CLONE_NEWUSER
	NewNS     = unix.CLONE_NEWNS
	NewPID    = unix.CLONE_NEWPID
	NewIPC    = unix.CLONE_NEWIPC
	NewUTS    = unix.CLONE_NEWUTS
	NewNet    = unix.CLONE_NEWNET
	NewCgroup = unix.CLONE_NEWCGROUP
)

// SpawnAttr describes a child that runs this same executable.
type SpawnAttr struct {
	Argv, Env []string
	Files     []sys.FD // become 0, 1, 2, ... in the child; none is NoFD
	Flags     uintptr  // namespaces to make
	MapTo     int      // with NewUser: the one id inside, for user and group, that stands for the caller's effective ids
	Ambient   []uint   // capabilities (in the new user namespace) kept over the exec
}

// Spawn forks, enters new namespaces, and executes /proc/self/exe. The child gets SIGKILL when the calling *thread*
// ends. Its signals are as this process found them, save that ignored ones other than HUP and INT do not survive Go.
//
//	errors: of clone, of writing the id maps, or of the exec: the kernel's number does not tell which
//
// policy: boot
func Spawn(a *SpawnAttr) (pid int, pidfd sys.FD, e sys.Errno) {
	files := make([]uintptr, len(a.Files))
	for i, f := range a.Files {
		files[i] = uintptr(f)
	}
	pfd := -1
	attr := &syscall.SysProcAttr{Cloneflags: a.Flags, Pdeathsig: syscall.SIGKILL, PidFD: &pfd}
	for _, c := range a.Ambient {
		attr.AmbientCaps = append(attr.AmbientCaps, uintptr(c))
	}
	if a.Flags&NewUser != 0 {
		uid, gid := IDs()
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: a.MapTo, HostID: uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: a.MapTo, HostID: gid, Size: 1}} // setgroups: "deny"
	}
	pid, err := syscall.ForkExec("/proc/self/exe", a.Argv, &syscall.ProcAttr{Env: a.Env, Files: files, Sys: attr})
	if err != nil {
		return 0, sys.NoFD, errno(err)
	}
	return pid, sys.FD(pfd), 0
}
