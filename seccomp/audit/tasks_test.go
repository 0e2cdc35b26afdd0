// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"passt/seccomp"
)

// A victim is this test program again: it loads a filter and does what victimEnv says. Its exit status tells that it
// got through; SIGSYS tells that it did not.
const (
	victimEnv = "PASST_SECCOMP_VICTIM" // ROLE TASK ARGUMENTS...
	through   = 42
	noFilter  = 43
)

func TestMain(m *testing.M) {
	if task := os.Getenv(victimEnv); task != "" {
		victim(strings.Fields(task))
	}
	os.Exit(m.Run())
}

func roleNamed(name string) seccomp.Role {
	for _, r := range seccomp.Roles() {
		if r.String() == name {
			return r
		}
	}
	return 0
}

// victim never returns.
func victim(f []string) {
	role, task, args := roleNamed(f[0]), f[1], f[2:]
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		os.Exit(noFilter)
	}
	prepare, run := tasks(task, args)
	prepare()
	if task == "stopped" {
		stopped(role, args[0])
	}
	if f[0] == "notify" {
		if fd, err := seccomp.LoadNotify(seccomp.WorkerPasta); err != nil || fd < 0 {
			os.Exit(noFilter)
		}
	}
	if role != 0 { // "none" measures without a filter
		if err := seccomp.Load(role); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(noFilter)
		}
	}
	run()
	syscall.RawSyscall(unix.SYS_EXIT_GROUP, through, 0, 0)
}

// stopped loads the listening filter, tells its descriptor, waits for a word and then makes a forbidden call.
func stopped(role seccomp.Role, call string) {
	warm(4)
	fd, err := seccomp.LoadNotify(role)
	if err != nil {
		os.Exit(noFilter)
	}
	fmt.Println("listener", int(fd))
	var word [2]byte
	_, _ = unix.Read(0, word[:])
	nr, a := parse(call)
	syscall.RawSyscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
	fmt.Println("went on")
	os.Exit(through)
}

// parse reads "NR,A0,..,A5" in hexadecimal.
func parse(s string) (nr uintptr, a [6]uintptr) {
	for i, x := range strings.Split(s, ",") {
		v, err := strconv.ParseUint(x, 16, 64)
		if err != nil {
			os.Exit(noFilter)
		}
		if i == 0 {
			nr = uintptr(v)
		} else {
			a[i-1] = uintptr(v)
		}
	}
	return
}

func format(d *Data) string {
	s := strconv.FormatUint(uint64(d.Nr), 16)
	for _, a := range d.Args {
		s += "," + strconv.FormatUint(a, 16)
	}
	return s
}

// tasks gives what a victim does before and after it is confined.
func tasks(task string, args []string) (prepare, run func()) {
	prepare = func() {}
	var after func()
	switch task {
	case "calls":
		prepare = func() { warm(4) }
		run = func() {
			for _, s := range args {
				nr, a := parse(s)
				syscall.RawSyscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
			}
		}
	case "int80":
		prepare = func() {
			warm(4)
			after = int80()
		}
		run = func() { after() }
	case "time": // args: one call, how often; prints nanoseconds
		prepare = func() { warm(4) }
		run = func() {
			nr, a := parse(args[0])
			n, _ := strconv.Atoi(args[1])
			start := time.Now()
			for range n {
				syscall.RawSyscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
			}
			fmt.Println(time.Since(start).Nanoseconds())
		}
	case "runtime":
		prepare = func() { warm(12) }
		run = func() { exercise(false) }
	case "threads":
		run = func() { exercise(true) }
	case "stopped": // see stopped
	case "panic":
		prepare = func() { warm(4) }
		run = func() { panic("the end of a victim") }
	case "signal":
		run = func() {
			fmt.Println("ready")
			runtime.UnlockOSThread()
			time.Sleep(time.Minute)
		}
	default:
		os.Exit(noFilter)
	}
	return prepare, run
}

// warm makes the runtime start n threads, as the worker does before its filter.
func warm(n int) {
	time.Sleep(time.Microsecond)
	up, release, done := make(chan bool), make(chan bool), make(chan bool)
	for range n {
		go func() {
			runtime.LockOSThread()
			up <- true
			<-release
			runtime.UnlockOSThread()
			done <- true
		}()
	}
	for range n {
		<-up
	}
	close(release)
	for range n {
		<-done
	}
}

// exercise makes the runtime do what it does in a long life: collect, grow the heap and stacks, sleep, recover.
func exercise(threads bool) {
	var keep [][]byte
	var deep func(n int) int
	deep = func(n int) int {
		var pad [128]byte
		if n == 0 {
			return int(pad[0])
		}
		return deep(n-1) + int(pad[1])
	}
	for i := range 20 {
		for range 64 {
			keep = append(keep, make([]byte, 32<<10))
		}
		if i%5 == 4 {
			keep = nil
		}
		runtime.GC()
		time.Sleep(time.Millisecond)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() { deep(2000) })
		}
		wg.Wait()
		func() {
			defer func() { _ = recover() }()
			var p *int
			*p = 1
		}()
	}
	if !threads {
		return
	}
	// Goroutines blocked in calls: each needs a thread of its own.
	var wg sync.WaitGroup
	for range 24 {
		wg.Go(func() {
			ts := unix.NsecToTimespec(5e6)
			_ = unix.Nanosleep(&ts, nil)
		})
	}
	wg.Wait()
}
