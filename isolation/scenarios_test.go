// SPDX-License-Identifier: Apache-2.0

package isolation

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"passt/internal/sys"
)

// scenarios are the supervisor's sides of the tests.
var scenarios = map[string]func(args []string){
	"worker":   func(a []string) { superWorker(len(a) > 0 && a[0] == "fallback") },
	"become":   superBecome,
	"limit":    superLimit,
	"join":     superJoin,
	"refused":  superRefused,
	"launch":   superLaunch,
	"lock":     superLock,
	"stdio":    superStdio,
	"nonblock": superNonblock,
	"whoami":   func([]string) { fmt.Println("initial", InInitialUserNS()) },
}

func superWorker(fallback bool) {
	readyR, readyW := rope()
	relR, relW := rope()
	errR, errW := rope()
	fail(syscall.Dup3(2, 88, 0)) // no close-on-exec: must not reach the worker
	start := time.Now()
	c, err := StartWorker(WorkerOpts{FDs: []sys.FD{fdOf(readyW), fdOf(relR)}, Stderr: fdOf(errW), ChrootFallback: fallback})
	fail(err)
	_ = errW.Close()
	_ = readyW.Close()
	go copyLines(errR, "stderr")
	line, err := bufio.NewReader(readyR).ReadString('\n')
	if err != nil {
		fmt.Println("error: worker said nothing:", err)
		waitEOF(errR)
		os.Exit(3)
	}
	fmt.Println("took", time.Since(start).Microseconds())
	fmt.Print(line)
	fmt.Println("pid", c.Pid)
	waitEOF(os.Stdin)
	_ = relW.Close()
	var ws syscall.WaitStatus
	_, err = syscall.Wait4(c.Pid, &ws, 0, nil)
	fail(err)
	fmt.Println("status", ws.ExitStatus())
}

func copyLines(r *os.File, word string) {
	for sc := bufio.NewScanner(r); sc.Scan(); {
		fmt.Println(word, sc.Text())
	}
}

func superBecome(args []string) {
	uid, gid, err := LookupUser(args[0])
	fail(err)
	fail(BecomeUser(uid, gid))
	fmt.Println("self", os.Getpid())
	superWorker(false)
}

func superLimit([]string) {
	fail(os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0))
	_, err := StartWorker(WorkerOpts{Stderr: sys.NoFD})
	fmt.Println("refused", err)
}

// target starts a sleeper in new namespaces, user id mapTo there; without userns in a network namespace alone.
func target(userns bool, mapTo int) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{roleSleep}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if userns {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: mapTo, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: mapTo, HostID: os.Getgid(), Size: 1}}
	}
	return cmd
}

// unshareTarget is the same by the usual tool; it is ready when its namespace differs from ours, and ends with us.
func unshareTarget() *exec.Cmd { return exec.Command("unshare", "-Urn", "cat") }

func superJoin(args []string) {
	userns, mapTo := args[0] != "net", 0
	cmd := unshareTarget()
	if args[0] != "unshare" {
		mapTo, _ = strconv.Atoi(args[1])
		cmd = target(userns, mapTo)
	}
	_, err := cmd.StdinPipe()
	fail(err)
	fail(cmd.Start())
	dir := fmt.Sprintf("/proc/%d/ns/", cmd.Process.Pid)
	own, _ := os.Readlink("/proc/self/ns/net")
	for range 5000 {
		if l, err := os.Readlink(dir + "net"); err == nil && l != own {
			break
		}
		time.Sleep(time.Millisecond)
	}
	opts := JoinOpts{UserNS: sys.NoFD, Role: RoleAgent, Stderr: 2, Env: []string{"GODEBUG=updatemaxprocs=0,containermaxprocs=0"}}
	if userns {
		opts.UserNSName = dir + "user"
		opts.UserNS, err = OpenNamespace(opts.UserNSName)
		fail(err)
	}
	opts.NetNSName = dir + "net"
	opts.NetNS, err = OpenNamespace(opts.NetNSName)
	fail(err)
	readyR, readyW := rope()
	relR, relW := rope()
	opts.FDs = []sys.FD{fdOf(readyW), fdOf(relR)}
	fail(syscall.Dup3(2, 88, 0)) // no close-on-exec: must not reach the agent
	start := time.Now()
	c, err := JoinAndStart(opts, CapNetAdmin, CapNetBindService)
	fail(err)
	fmt.Println("took", time.Since(start).Microseconds())
	_ = readyW.Close()
	fmt.Println("target", cmd.Process.Pid)
	fmt.Println("pid", c.Pid)
	for sc := bufio.NewScanner(readyR); sc.Scan(); {
		fmt.Println(sc.Text())
		if sc.Text() == "ready" {
			break
		}
	}
	waitEOF(os.Stdin)
	_ = relW.Close()
	_ = cmd.Process.Kill()
}

func agentMain() {
	out := os.NewFile(3, "out")
	b, err := os.ReadFile("/proc/thread-self/status")
	fail(err)
	st := fields(string(b))
	_, _ = fmt.Fprintf(out, "caps %s %s %s\n", st["CapEff"], st["CapPrm"], st["CapBnd"])
	_, _ = fmt.Fprintf(out, "signals %s\n", st["SigBlk"])
	dir, err := os.ReadDir("/proc/self/fd")
	fail(err)
	var fds []string
	for _, d := range dir {
		if l, err := os.Readlink("/proc/self/fd/" + d.Name()); err == nil && !strings.Contains(l, "anon_inode") && !strings.HasSuffix(l, "/fd") {
			fds = append(fds, d.Name())
		}
	}
	_, _ = fmt.Fprintln(out, "fds", strings.Join(fds, ","))
	abi, err := LockdownAgent(CapNetBindService)
	fail(err)
	_, _ = fmt.Fprintf(out, "open %d %v\n", abi, openOnThreads())
	_, err = listen(80)
	_, _ = fmt.Fprintln(out, "listening", err)
	_, _ = fmt.Fprintln(out, "ready")
	waitEOF(os.NewFile(4, "release"))
}

func superRefused([]string) {
	open := func(p string) sys.FD {
		fd, err := OpenNamespace(p)
		fail(err)
		return fd
	}
	o := JoinOpts{UserNS: sys.NoFD, NetNS: open("/proc/self/ns/net"), NetNSName: "/proc/self/ns/net", Role: RoleAgent, Stderr: sys.NoFD}
	_, err := JoinAndStart(o)
	fmt.Println("net", err)
	o.UserNS, o.UserNSName = open("/proc/self/ns/user"), "/proc/self/ns/user"
	_, err = JoinAndStart(o)
	fmt.Println("user", err)
	o.UserNS, o.UserNSName = o.NetNS, "/proc/self/ns/net"
	_, err = JoinAndStart(o)
	fmt.Println("kind", err)
	_, err = syscall.Wait4(-1, nil, 0, nil)
	fmt.Println("children", err)
}

// superLaunch starts the command; it is released by a byte on stdin, and its status is told.
func superLaunch(args []string) {
	signal.Ignore(syscall.SIGPIPE)
	relR, relW := rope()
	o := LaunchOpts{Args: args[1:], NetnsOnly: args[0] == "netns-only"}
	c, err := StartLauncher(o, []sys.FD{fdOf(relR)})
	fail(err)
	_ = relR.Close()
	fmt.Println("pid", c.Pid)
	var b [1]byte
	if n, _ := os.Stdin.Read(b[:]); n == 1 {
		_, err = relW.Write(b[:])
		fail(err)
	}
	_ = relW.Close()
	var ws syscall.WaitStatus
	_, err = syscall.Wait4(c.Pid, &ws, 0, nil)
	fail(err)
	fmt.Println("status", ws.ExitStatus())
}

func superLock([]string) {
	l, err := listen(0)
	fail(err)
	addr, err := syscall.Getsockname(l)
	fail(err)
	child := exec.Command("/proc/self/exe")
	child.Args = []string{roleSleep}
	_, err = child.StdinPipe()
	fail(err)
	fail(child.Start())
	start := time.Now()
	abi, err := LockdownSupervisor()
	fail(err)
	fmt.Println("took", time.Since(start).Microseconds())
	fmt.Println("open", abi, openOnThreads())
	c, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	fail(err)
	fmt.Println("dial", syscall.Connect(c, addr))
	fmt.Println("kill", child.Process.Kill())
	fmt.Println("reaped", child.Wait())
	fmt.Println("pid", os.Getpid())
	waitEOF(os.Stdin)
}

// openOnThreads tries to open a file on eight threads at once and gives the set of answers: they must all agree.
func openOnThreads() map[string]bool {
	answers, all := make(chan string), map[string]bool{}
	for range 8 {
		go func() {
			runtime.LockOSThread()
			_, err := os.Open("/etc/passwd")
			answers <- fmt.Sprint(err)
			select {} // keeps the thread busy: the others are others
		}()
	}
	for range 8 {
		all[<-answers] = true
	}
	return all
}

// superNonblock has a poller before main: the runtime must outlive the closing of inherited descriptors.
func superNonblock([]string) {
	r, w, err := os.Pipe() // polled
	fail(err)
	go func() { time.Sleep(time.Millisecond); _, _ = w.Write([]byte("x")) }()
	var b [1]byte
	_, err = r.Read(b[:])
	_, leaked := os.Lstat("/proc/self/fd/77")
	fmt.Println("read", err, leaked)
}

// listen avoids package net: it links cgo, with which Go refuses system calls on all threads.
func listen(port int) (fd int, err error) {
	fd, err = syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err == nil {
		err = syscall.Bind(fd, &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
	}
	if err == nil {
		err = syscall.Listen(fd, 1)
	}
	return fd, err
}

func superStdio([]string) {
	out, err := syscall.Dup(1)
	fail(err)
	for n := range 3 {
		_ = syscall.Close(n)
	}
	ferr := FillStdio()
	var got []string
	for n := range 3 {
		l, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", n))
		got = append(got, l)
	}
	_, _ = fmt.Fprintln(os.NewFile(uintptr(out), "out"), "stdio", ferr, got)
}
