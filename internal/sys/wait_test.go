// SPDX-License-Identifier: Apache-2.0

package sys

import (
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A signal with a handler must not end the wait: children that end together once left zombies, and a window that changed its
// size while pasta started made it give up.
func TestWaitReadable_SignalsArrive_WaitsOn(t *testing.T) {
	r, w, e := Pipe(4096)
	if e != 0 {
		t.Fatal(e)
	}
	defer Close(w)
	defer Close(r)
	runtime.LockOSThread() // the signals must hit the thread that waits
	defer runtime.UnlockOSThread()
	tid, stop := unix.Gettid(), make(chan struct{})
	go func() {
		defer close(stop)
		for range 40 {
			_ = unix.Tgkill(unix.Getpid(), tid, syscall.SIGWINCH)
			time.Sleep(time.Millisecond)
		}
		_, _ = Write(w, []byte{1})
	}()
	if !WaitReadable(r, NoFD, 5000) {
		t.Error("gave up before the time was over")
	}
	<-stop
	var b [1]byte
	_, _ = Read(r, b[:])
	start := NowNs()
	if WaitReadable(r, NoFD, 20) || NowNs()-start < 20e6 {
		t.Errorf("empty pipe: %d ns, want the 20 ms over", NowNs()-start)
	}
}
