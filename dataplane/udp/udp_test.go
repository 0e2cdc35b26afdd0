// SPDX-License-Identifier: Apache-2.0

package udp

import (
	"testing"

	"passt/dataplane/wire"
	"passt/internal/sys"
)

func TestTimer_IdleFlow_EndsAfterItsLimit(t *testing.T) {
	fire := func(r *rig, seconds int64) {
		r.env.NowMs = r.u.st[r.flow()].lastMs + seconds*1000
		r.env.RunTimers(r.u.Timer)
		r.env.EndTurn()
	}
	for _, c := range []struct {
		rounds int
		stays  int64
		gone   int64
	}{{0, 30, 31}, {1, 30, 31}, {2, 120, 121}} {
		r, h := newRig(t), peer(t, "127.0.0.1:0")
		p := packet(t, guest4, gw4, 4444, portOf(h), 64, []byte("x"))
		r.u.FromGuest([]wire.Packet{p})
		r.turn(0)
		_, from := read(t, h)
		for k := range c.rounds {
			h.WriteToUDP([]byte("y"), from)
			r.until("reply", func() bool { return len(r.link.got) == k+1 })
		}
		fire(r, c.stays)
		if r.env.Table.Used() != 1 {
			t.Errorf("%d replies: gone after %d s", c.rounds, c.stays)
			continue
		}
		fd := r.env.Table.Rows[r.flow()].FD[1]
		fire(r, c.gone)
		if r.env.Table.Used() != 0 {
			t.Errorf("%d replies: still there after %d s", c.rounds, c.gone)
		}
		if _, e := sys.LocalAddr(fd); e != sys.EBADF {
			t.Errorf("socket is still open: %v", e)
		}
	}
}

func TestSteadyPaths_NoAllocation(t *testing.T) {
	r, h := newRig(t), peer(t, "127.0.0.1:0")
	run := []wire.Packet{}
	for range 8 {
		run = append(run, packet(t, guest4, gw4, 4444, portOf(h), 64, fill(1000, 1)))
	}
	r.u.FromGuest(run[:1])
	r.turn(0)
	_, from := read(t, h)
	r.link.mute = true
	i := r.flow()
	if n := testing.AllocsPerRun(50, func() { r.u.FromGuest(run) }); n != 0 {
		t.Errorf("from guest: %v allocations", n)
	}
	ap := from.AddrPort()
	b := fill(1000, 1)
	if n := testing.AllocsPerRun(50, func() {
		for range 4 {
			h.WriteToUDPAddrPort(b, ap)
		}
		r.u.Event(i, 1, sys.PollIn)
	}); n != 0 {
		t.Errorf("from host: %v allocations", n)
	}
	if r.link.count == 0 {
		t.Error("nothing came")
	}
}
