// SPDX-License-Identifier: Apache-2.0

package isolation

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"passt/internal/sys"
	"passt/internal/sys/priv"
)

// hostnameMax is HOST_NAME_MAX, bytes.
const hostnameMax = 64

// LauncherSetup makes the command's namespaces look right: a /proc of its own PID namespace, ping sockets for user 0,
// a host name ("" means "pasta-" and the host's, cut to 64 bytes). Nothing of it is worth failing for.
func LauncherSetup(hostname string) (warnings []string) {
	warn := func(what string, err error) {
		warnings = append(warnings, fmt.Sprintf("%s: %v", what, err))
	}
	// Private first: a mount of ours must not show up outside.
	if e := priv.Mount("", "/", "", priv.MountRec|priv.MountPrivate, ""); e != 0 {
		warn("make mounts private", e)
	} else if e := priv.Mount("proc", "/proc", "proc", priv.MountNoSuid|priv.MountNoDev|priv.MountNoExec, ""); e != 0 {
		warn("mount /proc", e)
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ping_group_range", []byte("0 0"), 0); err != nil {
		warn("allow ping sockets", err)
	}
	if hostname == "" {
		old, _ := priv.Hostname() // cannot fail with a valid buffer (uname(2))
		hostname = "pasta-" + old
		hostname = hostname[:min(len(hostname), hostnameMax)]
	}
	if e := priv.SetHostname(hostname); e != 0 {
		warn("set host name "+hostname, e)
	}
	return warnings
}

// LauncherExec waits for the release byte and then becomes the command. It returns only on failure, with the exit
// status that a shell would give: 127 not found, 126 not executable, 1 where the supervisor went away instead.
//
//	in:    file, looked up in PATH unless it has a slash; argv, argv[0] included
//	state: signals as pasta's caller had them: Go's handlers end with the exec, nothing of ours is blocked or ignored,
//	       HUP and INT ignored by the caller (nohup) stay so; descriptor limit as before Go raised it
func LauncherExec(release sys.FD, file string, argv []string) (status int, err error) {
	if ok, e := priv.ReadByte(release); e != 0 {
		return 1, fmt.Errorf("wait for the supervisor: %w", e)
	} else if !ok {
		return 1, errors.New("supervisor ended before the command started")
	}
	// What the launcher was given is not the command's. Before Linux 5.11 only the release descriptor can be closed.
	sys.Close(release)
	_ = priv.CloseRangeAtExec(FirstFD)
	if e := priv.DeathSignal(0); e != 0 {
		return 1, fmt.Errorf("outlive the supervisor: %w", e)
	}
	e := errNoEntry
	for _, path := range candidates(file, os.Getenv("PATH")) {
		switch got := execOne(path, argv); got {
		case errNoEntry, errNotDir:
		case sys.EACCES:
			// A later "not found" does not hide it (execvp(3)), unless it is a PATH directory that we may not search.
			if _, err := os.Stat(path); err == nil || path == file {
				e = got
			}
		default:
			return 126, fmt.Errorf("%s: %w", path, got)
		}
	}
	if e == errNoEntry {
		return 127, fmt.Errorf("%s: %w", file, e)
	}
	return 126, fmt.Errorf("%s: %w", file, e)
}

// Numbers that only this file compares with; the same on amd64 and arm64.
const (
	errNoEntry = sys.Errno(2)  // ENOENT
	errNoExec  = sys.Errno(8)  // ENOEXEC
	errNotDir  = sys.Errno(20) // ENOTDIR
)

// execOne runs one file; a text without a "#!" line goes to the shell, as execvp(3) does.
func execOne(path string, argv []string) sys.Errno {
	e := priv.ExecPath(path, argv, os.Environ())
	if e == errNoExec {
		args := append([]string{"sh", path}, argv[min(1, len(argv)):]...)
		e = priv.ExecPath("/bin/sh", args, os.Environ())
	}
	return e
}

// candidates lists the paths to try for file, in order; an empty PATH element is the working directory.
func candidates(file, path string) []string {
	if file == "" {
		return nil
	}
	if strings.Contains(file, "/") {
		return []string{file}
	}
	if path == "" {
		path = "/bin:/usr/bin" // the default of execvp(3)
	}
	var out []string
	for dir := range strings.SplitSeq(path, ":") {
		if dir == "" {
			dir = "."
		}
		out = append(out, dir+"/"+file)
	}
	return out
}
