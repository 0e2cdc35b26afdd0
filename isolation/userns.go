// SPDX-License-Identifier: Apache-2.0

package isolation

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"passt/internal/sys"
	"passt/internal/sys/priv"
)

// InInitialUserNS tells whether ids mean what they mean on the host: the map is the identity over all of them.
func InInitialUserNS() bool {
	b, err := os.ReadFile("/proc/self/uid_map")
	f := strings.Fields(string(b))
	return err == nil && len(f) == 3 && f[0] == "0" && f[1] == "0" && f[2] == "4294967295"
}

// BecomeUser changes to user and group for good, on all threads, without supplementary groups. Groups that cannot be
// dropped (no right to, or a user namespace that denies it) are kept. A change of user makes Linux hide our /proc
// files even from that user; id maps of children could not be written then, so that is undone.
func BecomeUser(uid, gid int) error {
	if e := priv.ClearGroups(); e != 0 && e != sys.EPERM {
		return fmt.Errorf("drop supplementary groups: %w", e)
	}
	if e := priv.Setgid(gid); e != 0 {
		return fmt.Errorf("become group %d: %w", gid, e)
	}
	if e := priv.Setuid(uid); e != 0 {
		return fmt.Errorf("become user %d: %w", uid, e)
	}
	if e := priv.Dumpable(true); e != 0 {
		return fmt.Errorf("show own /proc files: %w", e)
	}
	return nil
}

// userNSError names the setting behind a refused clone(CLONE_NEWUSER ...). Other numbers come back as they are.
//
//	source: user_namespaces(7), namespaces(7): ENOSPC over a limit in /proc/sys/user; EPERM from Debian's and Ubuntu's
//	        own switches, inside chroot, or under a container's filter; EUSERS (before 4.9) and ENOSPC beyond 32 levels
func userNSError(e sys.Errno) error {
	switch e {
	case sys.ENOSPC, errUsers:
		for _, kind := range [...]string{"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"} {
			name := "user.max_" + kind + "_namespaces"
			if sysctl(name) == "0" {
				return fmt.Errorf("%w: %s is 0: %w", ErrNoUserNS, name, e)
			}
		}
		return fmt.Errorf("%w: user.max_user_namespaces (now %s) or the nesting depth of 32 is reached: %w", ErrNoUserNS,
			sysctl("user.max_user_namespaces"), e)
	case sys.EPERM, sys.EACCES:
		if sysctl("kernel.unprivileged_userns_clone") == "0" {
			return fmt.Errorf("%w: kernel.unprivileged_userns_clone is 0: %w", ErrNoUserNS, e)
		}
		if sysctl("kernel.apparmor_restrict_unprivileged_userns") == "1" {
			return fmt.Errorf("%w: AppArmor forbids them (kernel.apparmor_restrict_unprivileged_userns is 1): %w", ErrNoUserNS, e)
		}
		return fmt.Errorf("%w: refused here (chroot, container filter or security module): %w", ErrNoUserNS, e)
	case sys.EINVAL:
		return fmt.Errorf("%w: kernel built without them: %w", ErrNoUserNS, e)
	}
	return e
}

const errUsers = sys.Errno(87) // EUSERS, the same number on amd64 and arm64

// sysctl reads one setting by its dotted name; "" where the kernel does not have it.
func sysctl(name string) string {
	b, err := os.ReadFile("/proc/sys/" + strings.ReplaceAll(name, ".", "/"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// LookupUser reads the argument of --runas: UID, UID:GID, LOGIN or LOGIN:GROUP, numbers decimal, 0x hexadecimal or
// 0 octal. A lone UID is the group too, a lone LOGIN brings its primary group. Only /etc/passwd and /etc/group are
// asked: a static program has no name service.
func LookupUser(spec string) (uid, gid int, err error) {
	user, group, hasGroup := strings.Cut(spec, ":")
	if uid, err = parseID(user); err == nil {
		gid = uid
	} else if uid, gid, err = lookupPasswd(user); err != nil {
		return 0, 0, err
	}
	if !hasGroup {
		return uid, gid, nil
	}
	if gid, err = parseID(group); err == nil {
		return uid, gid, nil
	}
	gid, err = lookupGroup(group)
	return uid, gid, err
}

// parseID reads an id; 2^32-1 means "no change" to the kernel and is refused.
func parseID(s string) (int, error) {
	if s == "" || s[0] < '0' || s[0] > '9' || strings.Contains(s, "_") {
		return 0, fmt.Errorf("%q is not a number", s)
	}
	n, err := strconv.ParseUint(s, 0, 32)
	if err != nil || n == 1<<32-1 {
		return 0, fmt.Errorf("%q is not an id", s)
	}
	return int(n), nil
}

func lookupPasswd(name string) (uid, gid int, err error) {
	f, err := lookupLine("/etc/passwd", name, 4)
	if err != nil {
		return 0, 0, fmt.Errorf("user %q: %w", name, err)
	}
	if uid, err = parseID(f[2]); err == nil {
		gid, err = parseID(f[3])
	}
	if err != nil {
		return 0, 0, fmt.Errorf("user %q in /etc/passwd: %w", name, err)
	}
	return uid, gid, nil
}

func lookupGroup(name string) (gid int, err error) {
	f, err := lookupLine("/etc/group", name, 3)
	if err == nil {
		gid, err = parseID(f[2])
	}
	if err != nil {
		return 0, fmt.Errorf("group %q: %w", name, err)
	}
	return gid, nil
}

// lookupLine finds the first line whose first field is name and that has at least n fields (passwd(5), group(5)).
func lookupLine(path, name string, n int) ([]string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return findLine(string(b), name, n)
}

func findLine(text, name string, n int) ([]string, error) {
	for line := range strings.Lines(text) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), ":")
		if name != "" && f[0] == name && len(f) >= n {
			return f, nil
		}
	}
	return nil, os.ErrNotExist
}
