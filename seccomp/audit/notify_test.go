// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"passt/seccomp"
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
	byName, _ := seccomp.Numbers(runtime.GOARCH)
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
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(listener), 0xc0502100, uintptr(unsafe.Pointer(&n))); e != 0 {
		t.Fatal(e)
	}
	if seccomp.CallName(int(n.nr)) != "socket" || n.args[0] != unix.AF_INET || n.args[1] != unix.SOCK_STREAM {
		t.Errorf("notice of %s, arguments %#x", seccomp.CallName(int(n.nr)), n.args)
	}
	_ = c.Process.Kill()
	rest, _ := lines.ReadString(0)
	if strings.Contains(rest, "went on") {
		t.Error("the victim went on after its call")
	}
}

// notifying gives the program of the only role that is loaded in the listening form.
func notifying(t *testing.T, arch string) []byte {
	t.Helper()
	prog := seccomp.NotifyProgram(seccomp.WorkerPasta, arch)
	if prog == nil {
		t.Fatalf("no program for %s; run make policy", arch)
	}
	return prog
}

func TestNotifyProgram_AllPaths_SayWhatTheRulesSay(t *testing.T) {
	for _, arch := range seccomp.Architectures() {
		ends, err := Compare(notifying(t, arch), seccomp.Rules(seccomp.WorkerPasta, arch), arch, Notify)
		if err != nil {
			t.Errorf("%s: %v; run make policy", arch, err)
		}
		t.Logf("%s: %d ends compared", arch, ends)
	}
}

// What a rewrite of each verdict would give: foreign and x32 calls that notify. The comparison has to see it.
func TestCompare_ForeignCallsThatNotify_AreNoticed(t *testing.T) {
	for _, arch := range seccomp.Architectures() {
		bad := slices.Clone(notifying(t, arch))
		n := 0
		for i := 0; i < len(bad); i += 8 {
			if binary.LittleEndian.Uint16(bad[i:]) == opRet && binary.LittleEndian.Uint32(bad[i+4:]) == Kill {
				binary.LittleEndian.PutUint32(bad[i+4:], Notify)
				n++
			}
		}
		if _, err := Compare(bad, seccomp.Rules(seccomp.WorkerPasta, arch), arch, Notify); err == nil || n == 0 {
			t.Errorf("%s: %d verdicts changed, not noticed", arch, n)
		}
	}
}

func TestNotifyProgram_ForeignCalls_Kill(t *testing.T) {
	prog := notifying(t, "amd64")
	token := ArchToken("amd64")
	for _, c := range []struct {
		d    Data
		want uint32
	}{
		{Data{Nr: 4, Arch: 0x40000003}, Kill},
		{Data{Nr: 1<<30 | 1, Arch: token}, Kill},
		{Data{Nr: 1<<30 | 41, Arch: token}, Kill},
		{Data{Nr: 64, Arch: ArchToken("arm64")}, Kill},
		{Data{Nr: 41, Arch: token}, Notify},
		{Data{Nr: 1, Arch: token}, Allow},
	} {
		if v, _, err := Run(prog, &c.d); v != c.want || err != nil {
			t.Errorf("%+v: %#x %v, want %#x", c.d, v, err, c.want)
		}
	}
}

// A call of a foreign kind ends the victim by itself, with nobody at the listener.
func TestLoadNotify_ForeignCalls_DieBySIGSYS(t *testing.T) {
	needFilter(t)
	if runtime.GOARCH != "amd64" {
		t.Skip("no foreign calls to make on " + runtime.GOARCH)
	}
	byName, _ := seccomp.Numbers("amd64")
	for _, name := range []string{"write", "socket"} {
		d := Data{Nr: x32Bit | byName[name], Args: [6]uint64{1<<64 - 1}}
		if ws, out := outcome(t, "notify calls "+format(&d)); !ws.Signaled() || ws.Signal() != unix.SIGSYS {
			t.Errorf("x32 %s: %#x %s", name, ws, out)
		}
	}
	if ws, _ := outcome(t, "none int80"); ws.ExitStatus() != through {
		t.Skipf("int 0x80: this kernel has no i386 calls (status %#x without a filter)", ws)
	}
	for _, form := range []string{"notify", "worker-pasta", "supervisor", "agent"} {
		if ws, out := outcome(t, form+" int80"); !ws.Signaled() || ws.Signal() != unix.SIGSYS {
			t.Errorf("%s, int 0x80: %#x %s", form, ws, out)
		}
	}
}

// int80 gives a function that makes the i386 call getpid by int 0x80; its page is made executable before the filter.
func int80() func() {
	code := []byte{0xb8, 20, 0, 0, 0, 0xcd, 0x80, 0xc3} // mov eax, 20; int 0x80; ret
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		os.Exit(noFilter)
	}
	copy(page, code)
	entry := &struct{ pc uintptr }{uintptr(unsafe.Pointer(&page[0]))} // what a func value points to
	return *(*func())(unsafe.Pointer(&entry))
}
