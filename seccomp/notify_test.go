// SPDX-License-Identifier: Apache-2.0

package seccomp

import (
	"bufio"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// notice is struct seccomp_notif (seccomp_unotify(2)).
type notice struct {
	id         uint64
	pid, flags uint32
	nr         int32
	arch       uint32
	ip         uint64
	args       [6]uint64
}

func TestLoadNotify_ForbiddenCall_IsStoppedAndNamed(t *testing.T) {
	needFilter(t)
	byName, _ := Numbers(runtime.GOARCH)
	c := command(fmt.Sprintf("worker-pasta stopped %s", format(&Data{Nr: byName["socket"], Args: [6]uint64{unix.AF_INET, unix.SOCK_STREAM}})))
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	}()
	lines := bufio.NewReader(out)
	line, _ := lines.ReadString('\n')
	var number int
	if _, err := fmt.Sscanf(line, "listener %d", &number); err != nil {
		t.Fatalf("victim said %q", line)
	}
	if number < 0 {
		t.Skip("this kernel has no listeners")
	}
	pidfd, err := unix.PidfdOpen(c.Process.Pid, 0)
	if err != nil {
		t.Skipf("pidfd_open: %v", err)
	}
	defer unix.Close(pidfd)
	listener, err := unix.PidfdGetfd(pidfd, number, 0)
	if err != nil {
		t.Skipf("pidfd_getfd: %v", err)
	}
	defer unix.Close(listener)
	if _, err := in.Write([]byte("go")); err != nil {
		t.Fatal(err)
	}
	p := []unix.PollFd{{Fd: int32(listener), Events: unix.POLLIN}}
	if n, err := unix.Poll(p, 10_000); n != 1 || p[0].Revents&unix.POLLIN == 0 {
		t.Fatalf("no notice: %v %v", p, err)
	}
	var n notice
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(listener), notifRecv, uintptr(unsafe.Pointer(&n))); e != 0 {
		t.Fatal(e)
	}
	if CallName(int(n.nr)) != "socket" || n.args[0] != unix.AF_INET || n.args[1] != unix.SOCK_STREAM {
		t.Errorf("notice of %s, arguments %#x", CallName(int(n.nr)), n.args)
	}
	_ = c.Process.Kill()
	rest, _ := lines.ReadString(0)
	if strings.Contains(rest, "went on") {
		t.Error("the victim went on after its call")
	}
}
