// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"passt/dataplane/flow"
	"passt/dataplane/fwd"
	"passt/dataplane/wire"
	"passt/internal/sys"
)

// listener makes a TCP listener on 127.0.0.1 and one waiting client for each of n.
func listener(t *testing.T, n int) (l sys.FD, clients []int) {
	t.Helper()
	l, e := sys.Socket(sys.AFInet, sys.SockStream, 0)
	if e != 0 {
		t.Fatal(e)
	}
	sa := sys.MakeSockAddr4([4]byte{127, 0, 0, 1}, 0)
	if e := sys.Bind(l, &sa); e != 0 {
		t.Fatal(e)
	}
	if e := sys.Listen(l, 128); e != 0 {
		t.Fatal(e)
	}
	to, err := unix.Getsockname(int(l))
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		c, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Connect(c, to); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(c) })
		clients = append(clients, c)
	}
	return l, clients
}

// events polls the plane's descriptor without waiting and counts listener events.
func (r *rig) listenEvents() (tags []uint64) {
	var evs [8]sys.PollEvent
	n, e := sys.EpollWait(r.env.Ep, evs[:], 0, false)
	if e != 0 {
		r.t.Fatal(e)
	}
	for i := range n {
		if flow.PollKind(evs[i].Data()>>56) == flow.PollListen {
			tags = append(tags, evs[i].Data())
		}
	}
	return tags
}

func TestListenEvent_OutOfDescriptors_RestsAndComesBack(t *testing.T) {
	r := newRig(t, nil)
	l, clients := listener(t, 1)
	// No rule: an accepted connection is refused with a reset, which is what the test waits for.
	if e := r.p.Grant(flow.Listener{FD: l, Pif: fwd.PifHost, ID: 5, Rule: 9}); e != 0 {
		t.Fatal(e)
	}
	tags := r.listenEvents()
	if len(tags) != 1 {
		t.Fatalf("%d events", len(tags))
	}
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	r.p.ListenEvent(uint32(tags[0]), uint32(tags[0]>>32)&flow.GenMask, sys.PollIn)
	r.p.ListenEvent(uint32(tags[0]), uint32(tags[0]>>32)&flow.GenMask, sys.PollIn)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if len(r.listenEvents()) != 0 {
		t.Error("a resting listener is still watched")
	}
	if len(r.logs) != 1 || !strings.Contains(r.logs[0], "descriptors") {
		t.Errorf("%q", r.logs)
	}
	at, ok := r.p.Deadline()
	if !ok || at != r.env.NowMs+retryMs {
		t.Errorf("deadline %d %v", at-r.env.NowMs, ok)
	}
	r.p.EndTurn()
	if len(r.listenEvents()) != 0 {
		t.Error("woken too early")
	}
	r.env.NowMs, r.env.NowNs = at, at*1e6
	r.p.EndTurn()
	if len(r.listenEvents()) != 1 {
		t.Fatal("the listener does not come back")
	}
	r.p.ListenEvent(uint32(tags[0]), uint32(tags[0]>>32)&flow.GenMask, sys.PollIn)
	if _, err := unix.Read(clients[0], make([]byte, 1)); err != unix.ECONNRESET {
		t.Errorf("refused connection: %v", err)
	}
	if r.env.Drops[wire.DropNoRule] != 1 {
		t.Errorf("%v", r.env.Drops)
	}
}

func TestRevoke_Listener_ClosedAndSlotReused(t *testing.T) {
	r := newRig(t, nil)
	var fds []sys.FD
	for i := range 3 {
		l, _ := listener(t, 1)
		fds = append(fds, l)
		// The same ID on the other side is another listener.
		pif := fwd.PifHost
		if i == 2 {
			pif = fwd.PifSplice
		}
		if e := r.p.Grant(flow.Listener{FD: l, Pif: pif, ID: uint32(i % 2), Rule: 9}); e != 0 {
			t.Fatal(e)
		}
	}
	if n := len(r.listenEvents()); n != 3 {
		t.Fatalf("%d events", n)
	}
	r.p.Revoke(fwd.PifHost, 7)
	r.p.Revoke(fwd.PifHost, 0)
	if n := len(r.listenEvents()); n != 2 {
		t.Errorf("%d events after one was revoked", n)
	}
	if _, err := unix.FcntlInt(uintptr(fds[0]), unix.F_GETFD, 0); err == nil {
		t.Error("the revoked descriptor is open")
	}
	r.p.ListenEvent(0, 0, sys.PollIn)   // its slot, stale
	r.p.ListenEvent(1, 99, sys.PollIn)  // wrong generation
	r.p.ListenEvent(500, 0, sys.PollIn) // no such slot
	if r.env.Drops[wire.DropNoRule] != 0 {
		t.Error("a stale event was served")
	}
	l, _ := listener(t, 1)
	if e := r.p.Grant(flow.Listener{FD: l, Pif: fwd.PifHost, ID: 8, Rule: 9}); e != 0 {
		t.Fatal(e)
	}
	if len(r.p.listeners) != 3 || r.p.listeners[0].ID != 8 || r.p.unused != 0 {
		t.Errorf("slot not reused: %+v", r.p.listeners)
	}
	r.p.ListenEvent(0, 0, sys.PollIn)
	if r.env.Drops[wire.DropNoRule] != 0 {
		t.Error("an event of the listener before was served")
	}
	r.p.ListenEvent(0, 8, sys.PollIn)
	if r.env.Drops[wire.DropNoRule] != 1 {
		t.Error("the new one is not served")
	}
	r.p.Revoke(fwd.PifHost, 8|1<<24)
	if r.p.listeners[0].FD != sys.NoFD {
		t.Error("a name beyond 24 bits cannot be revoked")
	}
}

func TestOpened_FlowGone_DescriptorsClosed(t *testing.T) {
	r := newRig(t, nil)
	qs := r.turn(udpTo(guest4, remote4, 4000, 1001, "x"))
	if len(qs) != 1 {
		t.Fatal(ops(qs))
	}
	for _, c := range []struct {
		i   flow.Index
		gen uint32
	}{{qs[0].Flow, qs[0].Gen() + 1}, {qs[0].Flow + 1, 0}, {flow.NoFlow, 0}, {255, 0}} {
		a, b, e := sys.SeqPair()
		if e != 0 {
			t.Fatal(e)
		}
		r.p.Opened(&flow.Opened{Flow: c.i, FD: a, FD2: b}, c.gen)
		for _, fd := range []sys.FD{a, b} {
			if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil {
				t.Errorf("flow %d generation %d: descriptor stays open", c.i, c.gen)
			}
		}
	}
	r.p.FlowEvent(uint32(qs[0].Flow)<<1, qs[0].Gen()+1, sys.PollIn)
	r.p.FlowEvent(0xffffffff, 0, sys.PollIn)
	r.p.Opened(&flow.Opened{Flow: qs[0].Flow, Errno: sys.EMFILE, FD: sys.NoFD, FD2: sys.NoFD}, qs[0].Gen())
	if len(r.logs) != 1 {
		t.Errorf("%q", r.logs)
	}
}

func TestLinkEvent_LinkGone_Error(t *testing.T) {
	r := newRig(t, nil)
	if e := sys.Shutdown(r.guest, sys.ShutWr); e != 0 {
		t.Fatal(e)
	}
	if e := r.p.LinkEvent(sys.PollIn); e == 0 {
		t.Error("the end of the link is not reported")
	}
}
