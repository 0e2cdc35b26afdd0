// SPDX-License-Identifier: Apache-2.0

package priv

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"passt/internal/sys"
)

// PidfdOpen gives a descriptor that becomes readable when the process ends (pidfd_open(2), Linux 5.3).
// policy: boot
func PidfdOpen(pid int) (sys.FD, sys.Errno) {
	fd, err := unix.PidfdOpen(pid, 0)
	return sys.FD(fd), errno(err)
}

// Wait takes a child's end without blocking: ended false while it runs. status is the exit code; signal is
// not 0 when a signal ended it.
// policy: supervisor
func Wait(pid int) (status, signal int, ended bool, e sys.Errno) {
	var ws syscall.WaitStatus
	for {
		n, _, e := syscall.RawSyscall6(unix.SYS_WAIT4, uintptr(pid), uintptr(unsafe.Pointer(&ws)), unix.WNOHANG, 0, 0, 0)
		switch {
		case e == unix.EINTR:
			continue
		case e != 0:
			return 0, 0, false, e
		case n == 0:
			return 0, 0, false, 0
		case ws.Signaled():
			return 0, int(ws.Signal()), true, 0
		}
		return ws.ExitStatus(), 0, true, 0
	}
}

// Signal sends a signal through a pidfd: it cannot hit another process (pidfd_send_signal(2)).
// policy: supervisor
func Signal(pidfd sys.FD, sig int) sys.Errno {
	_, _, e := syscall.RawSyscall6(unix.SYS_PIDFD_SEND_SIGNAL, uintptr(pidfd), uintptr(sig), 0, 0, 0, 0)
	return e
}

// SignalName gives the usual name, SIGSYS and so on.
func SignalName(sig int) string { return unix.SignalName(syscall.Signal(sig)) }

// Setsid starts a new session (setsid(2)).
// policy: boot
func Setsid() sys.Errno {
	_, err := unix.Setsid()
	return errno(err)
}

// Dup2 puts from at the number to, inheritable.
// policy: boot
func Dup2(from, to sys.FD) sys.Errno { return errno(unix.Dup3(int(from), int(to), 0)) }

// OpenFile creates or truncates a regular file for this user alone; the last component may not be a symbolic link.
//
//	errors: ELOOP for a link, EINVAL for anything that is no regular file
//
// policy: boot
func OpenFile(path string) (sys.FD, sys.Errno) {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0o600)
	if err != nil {
		return sys.NoFD, errno(err)
	}
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = unix.EINVAL
	}
	if err == nil {
		err = unix.Ftruncate(fd, 0)
	}
	if err != nil {
		sys.Close(sys.FD(fd))
		return sys.NoFD, errno(err)
	}
	return sys.FD(fd), 0
}

// Syslog connects a datagram socket to the system logger; NoFD when there is none.
// policy: boot
func Syslog() sys.FD {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return sys.NoFD
	}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: "/dev/log"}); err != nil {
		sys.Close(sys.FD(fd))
		return sys.NoFD
	}
	return sys.FD(fd)
}

// Pipe makes a close-on-exec pipe; nonblock concerns both ends.
// policy: boot
func Pipe(nonblock bool) (r, w sys.FD, e sys.Errno) {
	var p [2]int
	flags := unix.O_CLOEXEC
	if nonblock {
		flags |= unix.O_NONBLOCK
	}
	err := unix.Pipe2(p[:], flags)
	return sys.FD(p[0]), sys.FD(p[1]), errno(err)
}

// WatchDir watches a directory for entries that are deleted in it (inotify(7)).
// policy: boot
func WatchDir(path string) (sys.FD, sys.Errno) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return sys.NoFD, errno(err)
	}
	if _, err := unix.InotifyAddWatch(fd, path, unix.IN_DELETE|unix.IN_DELETE_SELF); err != nil {
		sys.Close(sys.FD(fd))
		return sys.NoFD, errno(err)
	}
	return sys.FD(fd), 0
}

// Deleted reads pending events of a WatchDir descriptor and tells whether name (or the directory itself) was deleted.
// policy: supervisor
func Deleted(fd sys.FD, name string) bool {
	var b [4096]byte
	gone := false
	for {
		n, e := sys.Read(fd, b[:])
		if e != 0 || n <= 0 {
			return gone
		}
		for at := 0; at+unix.SizeofInotifyEvent <= n; {
			ev := (*unix.InotifyEvent)(unsafe.Pointer(&b[at]))
			l := int(ev.Len)
			raw := b[at+unix.SizeofInotifyEvent : at+unix.SizeofInotifyEvent+l]
			if ev.Mask&(unix.IN_DELETE_SELF|unix.IN_IGNORED) != 0 || ev.Mask&unix.IN_DELETE != 0 && string(cut(raw)) == name {
				gone = true
			}
			at += unix.SizeofInotifyEvent + l
		}
	}
}

func cut(b []byte) []byte {
	for i, c := range b {
		if c == 0 {
			return b[:i]
		}
	}
	return b
}

// WallMinusMono is the time of day minus CLOCK_MONOTONIC, ns.
// policy: boot
func WallMinusMono() int64 {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_REALTIME, &ts) != nil {
		return 0
	}
	return ts.Nano() - sys.NowNs()
}

// Random fills b from the kernel's generator.
// policy: boot
func Random(b []byte) sys.Errno {
	_, err := unix.Getrandom(b, 0)
	return errno(err)
}

// IsProcfs tells whether a path lies on procfs, where deletions raise no events.
// policy: boot
func IsProcfs(path string) bool {
	var st unix.Statfs_t
	return unix.Statfs(path, &st) == nil && st.Type == unix.PROC_SUPER_MAGIC
}

// Signals that the supervisor handles.
const (
	SIGTERM = unix.SIGTERM
	SIGQUIT = unix.SIGQUIT
	SIGINT  = unix.SIGINT
	SIGHUP  = unix.SIGHUP
	SIGPIPE = unix.SIGPIPE
)

// WriteAll writes b to a blocking descriptor and closes it.
// policy: supervisor
func WriteAll(fd sys.FD, b []byte) error {
	defer sys.Close(fd)
	for len(b) > 0 {
		n, err := unix.Write(int(fd), b)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// Restart runs this program again under another name, standard descriptors kept, ready as descriptor 3.
// policy: boot
func Restart(argv0 string, argv []string, ready sys.FD) (pid int, e sys.Errno) {
	args := append([]string{argv0}, argv...)
	pid, err := syscall.ForkExec("/proc/self/exe", args, &syscall.ProcAttr{
		Env: syscall.Environ(), Files: []uintptr{0, 1, 2, uintptr(ready)}, Sys: &syscall.SysProcAttr{Setsid: true}})
	return pid, errno(err)
}

// WaitStatus waits for a child and gives its exit status, 128 + signal where a signal ended it.
// policy: boot
func WaitStatus(pid int) int {
	var ws syscall.WaitStatus
	for {
		_, err := syscall.Wait4(pid, &ws, 0, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return 1
		case ws.Signaled():
			return 128 + int(ws.Signal())
		default:
			return ws.ExitStatus()
		}
	}
}

// PidfdGetfd copies descriptor fd out of a process that we may trace (pidfd_getfd(2), Linux 5.6); a child in a user
// namespace of our own making is one, dumpable or not.
// policy: boot
func PidfdGetfd(pidfd sys.FD, fd int) (sys.FD, sys.Errno) {
	n, _, e := syscall.RawSyscall(unix.SYS_PIDFD_GETFD, uintptr(pidfd), uintptr(fd), 0)
	if e != 0 {
		return sys.NoFD, e
	}
	return sys.FD(n), 0
}

// seccompNotif is struct seccomp_notif (seccomp(2)).
type seccompNotif struct {
	id    uint64
	pid   uint32
	flags uint32
	nr    int32
	arch  uint32
	ip    uint64
	args  [6]uint64
}

// seccompNotifRecv is SECCOMP_IOCTL_NOTIF_RECV, _IOWR('!', 0, struct seccomp_notif) of 80 bytes.
const seccompNotifRecv = 0xc0502100

// Forbidden takes the notice of a call that a filter stopped: its number, and its arguments. The caller stays stopped.
// policy: supervisor
func Forbidden(listener sys.FD) (nr int, args [6]uint64, e sys.Errno) {
	var n seccompNotif
	_, _, e = syscall.RawSyscall(unix.SYS_IOCTL, uintptr(listener), seccompNotifRecv, uintptr(unsafe.Pointer(&n)))
	return int(n.nr), n.args, e
}
