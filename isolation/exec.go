// SPDX-License-Identifier: Apache-2.0

package isolation

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"passt/internal/sys"
	"passt/internal/sys/priv"
)

// Role words: argv[0] of this program's other processes.
const (
	RoleWorker  = "passt:worker"  // stage 1, still with capabilities in its own user namespace
	RoleWorker2 = "passt:worker2" // stage 2, the worker proper
	RoleAgent   = "passt:agent"
	RoleLaunch  = "passt:launch"
)

// overflowID is the user and group "nobody" that the worker sees itself as (user_namespaces(7)).
const overflowID = 65534

// workerEnv is the worker's whole environment: one loop; no preemption signals (the filter has no tgkill); the
// collector only near a limit, since tables and buffers are mapped outside the heap; no run-time thread that
// re-reads the CPU limits, no naming of mappings (both would be calls that the filter kills).
func workerEnv() []string {
	return []string{
		"GOMAXPROCS=1", "GOGC=off", "GOMEMLIMIT=64MiB",
		"GODEBUG=asyncpreemptoff=1,updatemaxprocs=0,containermaxprocs=0,decoratemappings=0",
	}
}

// Child is a started process; PidFD is readable when it has ended. The caller closes it.
type Child struct {
	Pid   int
	PidFD sys.FD
}

// WorkerOpts says what StartWorker hands to the worker.
type WorkerOpts struct {
	FDs            []sys.FD // become 3, 4, ...
	Stderr         sys.FD   // becomes 2 (the text of a panic); NoFD: /dev/null
	ChrootFallback bool     // root is an initial ramfs, where pivot_root cannot work
}

// chrootWord is the only argument that a worker ever gets.
const chrootWord = "chroot-fallback"

// StartWorker starts this program as RoleWorker in seven new namespaces of its own.
//
//	thread: the worker dies with the calling thread: the calling goroutine is locked to it from here on
//	errors: ErrNoUserNS where the system refuses user namespaces
//	cost:   1.7 ms
func StartWorker(o WorkerOpts) (Child, error) {
	runtime.LockOSThread()
	null, e := priv.OpenNull(false)
	if e != 0 {
		return Child{}, fmt.Errorf("open /dev/null: %w", e)
	}
	defer sys.Close(null)
	argv := []string{RoleWorker}
	if o.ChrootFallback {
		argv = append(argv, chrootWord)
	}
	return spawn("start worker", &priv.SpawnAttr{
		Argv: argv, Env: workerEnv(), Files: withStdio(null, o.Stderr, o.FDs),
		Flags: priv.NewUser | priv.NewNS | priv.NewPID | priv.NewIPC | priv.NewUTS | priv.NewNet | priv.NewCgroup,
		MapTo: overflowID, Ambient: []uint{uint(CapSysAdmin), uint(CapSetPcap), uint(CapSysChroot)},
	})
}

// LaunchOpts says how `pasta COMMAND` starts its launcher.
type LaunchOpts struct {
	Args      []string // arguments after argv[0], for the launcher's own main
	Env       []string // nil: this process's
	NetnsOnly bool     // no new user namespace (needs CAP_SYS_ADMIN)
}

// StartLauncher starts this program as RoleLaunch, user 0 in namespaces that the command will own; standard
// descriptors are the caller's own, fds become 3, 4, ... Thread and errors as StartWorker.
func StartLauncher(o LaunchOpts, fds []sys.FD) (Child, error) {
	runtime.LockOSThread()
	a := &priv.SpawnAttr{
		Argv: append([]string{RoleLaunch}, o.Args...), Env: o.Env, Files: append([]sys.FD{0, 1, 2}, fds...),
		Flags: priv.NewNS | priv.NewPID | priv.NewIPC | priv.NewUTS | priv.NewNet,
	}
	if a.Env == nil {
		a.Env = priv.Environ()
	}
	if !o.NetnsOnly {
		a.Flags |= priv.NewUser
	}
	return spawn("start command's namespaces", a)
}

func spawn(what string, a *priv.SpawnAttr) (Child, error) {
	// The child gets what it is handed and nothing else, also where some code of ours forgot close-on-exec. Before
	// Linux 5.11 that is on the code alone.
	_ = priv.CloseRangeAtExec(FirstFD)
	pid, pidfd, e := priv.Spawn(a)
	if e == 0 {
		return Child{pid, pidfd}, nil
	}
	if a.Flags&priv.NewUser != 0 {
		return Child{}, fmt.Errorf("%s: %w", what, userNSError(e))
	}
	return Child{}, fmt.Errorf("%s: %w", what, e)
}

// JoinOpts says where JoinAndStart goes. The names are for messages ("/proc/123/ns/user").
type JoinOpts struct {
	UserNS, NetNS         sys.FD // NoFD: stay where we are
	UserNSName, NetNSName string
	Role                  string   // argv[0]
	Args                  []string // the other arguments
	Env                   []string
	FDs                   []sys.FD // become 3, 4, ...; at most priv.MaxJoinFiles - 3
	Stderr                sys.FD   // becomes 2; NoFD: /dev/null
}

// JoinAndStart starts this program inside existing namespaces, with exactly the named capabilities there (those of
// them that the caller has in them), also where the user id does not map to 0.
//
//	errors: the step and its object ("join user namespace /proc/123/ns/user: operation not permitted")
//	thread: as StartWorker
//	cost:   0.1 ms up to the exec
func JoinAndStart(o JoinOpts, keep ...Cap) (Child, error) {
	runtime.LockOSThread()
	null, e := priv.OpenNull(false)
	if e != 0 {
		return Child{}, fmt.Errorf("open /dev/null: %w", e)
	}
	defer sys.Close(null)
	exe, e := priv.OpenSelf()
	if e != 0 {
		return Child{}, fmt.Errorf("open own executable: %w", e)
	}
	defer sys.Close(exe)
	pid, pidfd, step, e := priv.ForkJoin(&priv.JoinAttr{
		UserNS: o.UserNS, NetNS: o.NetNS, Exe: exe, Keep: capMask(keep),
		Argv: append([]string{o.Role}, o.Args...), Env: o.Env, Files: withStdio(null, o.Stderr, o.FDs),
	})
	if e != 0 {
		return Child{}, fmt.Errorf("%s: %w", joinStep(step, &o), e)
	}
	return Child{pid, pidfd}, nil
}

func joinStep(s priv.JoinStep, o *JoinOpts) string {
	switch s {
	case priv.JoinUser:
		return "join user namespace " + o.UserNSName
	case priv.JoinNet:
		return "join network namespace " + o.NetNSName
	case priv.JoinCaps:
		return "keep capabilities in " + o.NetNSName
	case priv.JoinFiles:
		return "hand over descriptors to " + o.Role
	case priv.JoinParent:
		return "tie " + o.Role + " to its parent"
	case priv.JoinExec:
		return "execute " + o.Role
	}
	return "fork " + o.Role
}

// OpenNamespace opens a namespace by its path, for JoinOpts.
//
//	errors: also what is no regular file, as a namespace is: opening a pipe would wait for its writer
func OpenNamespace(path string) (sys.FD, error) {
	if fi, err := os.Stat(path); err == nil && !fi.Mode().IsRegular() {
		return sys.NoFD, fmt.Errorf("open namespace %s: it is no namespace (mode %v)", path, fi.Mode())
	}
	fd, e := priv.OpenRead(path)
	if e != 0 {
		return sys.NoFD, fmt.Errorf("open namespace %s: %w", path, e)
	}
	return fd, nil
}

// dieWithParent renews the parent-death signal, which a change of credentials clears. A parent that died before is
// noticed by the end of file on the control socket.
func dieWithParent() error {
	if e := priv.DeathSignal(sigKill); e != 0 {
		return fmt.Errorf("parent-death signal: %w", e)
	}
	return nil
}

const sigKill = 9

// ErrNoUserNS tells that the system lets this user make no user namespace; the text around it says which setting.
var ErrNoUserNS = errors.New("no user namespaces")
