// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"bytes"
	"errors"
	"io"
	"syscall"
	"testing"

	"passt/dataplane/flow"
	"passt/dataplane/wire"
	"passt/internal/sys"
)

// Both sides end at the same time: each FIN is acknowledged, and the flow goes without a reset.
func TestFIN_Simultaneous_CleanEnd(t *testing.T) {
	r := newRig(t, tso)
	g := r.dial(linuxSyn)
	g.host.CloseWrite()
	g.until("FIN", func() bool { return len(r.out) > 0 })
	r.one("FIN", wire.FIN|wire.ACK)
	g.send(wire.ACK|wire.FIN, nil) // it has not seen ours
	r.turn(0)
	if s := r.one("acknowledgement of the guest's", wire.ACK); s.ack != g.seq || s.seq != g.ackd+1 {
		t.Errorf("got %+v", s)
	}
	if r.gone() {
		t.Fatal("ended before our FIN was acknowledged")
	}
	if b, err := io.ReadAll(g.host); len(b) != 0 || err != nil {
		t.Errorf("host: %q, %v", b, err)
	}
	g.ackd++
	g.send(wire.ACK, nil)
	r.turn(0)
	r.none("end")
	if !r.gone() {
		t.Error("flow left")
	}
}

// The guest's FIN acknowledges ours: one acknowledgement, then the end.
func TestFIN_AcknowledgesOurs_LastAckThenEnd(t *testing.T) {
	r := newRig(t, tso)
	g := r.dial(linuxSyn)
	g.host.CloseWrite()
	g.until("FIN", func() bool { return len(r.out) > 0 })
	r.take()
	g.ackd++
	g.send(wire.ACK|wire.FIN, []byte("last"))
	if s := r.one("last acknowledgement", wire.ACK); s.ack != g.seq {
		t.Errorf("got %+v", s)
	}
	r.turn(0)
	if b, err := io.ReadAll(g.host); string(b) != "last" || err != nil {
		t.Errorf("host: %q, %v", b, err)
	}
	if !r.gone() {
		t.Error("flow left")
	}
}

// Our acknowledgement of the guest's FIN is lost while the host still sends: the repeated FIN is acknowledged each time.
func TestFIN_Repeated_AckWhileFlowLives(t *testing.T) {
	r := newRig(t, tso)
	g := r.dial(linuxSyn)
	fin := g.mk(wire.ACK|wire.FIN, []byte("end"))
	for k := range 3 {
		r.guest(fin)
		r.turn(0)
		if s := r.one("FIN", wire.ACK); s.ack != g.seq+4 {
			t.Errorf("%d: got %+v", k, s)
		}
	}
	g.seq += 4
	g.hostWrites(fill(100, 1))
	g.waitBytes(100)
	r.take()
	bare := seg{flags: wire.ACK | wire.FIN, seq: g.seq - 1, ack: g.ackd, win: g.win}
	r.guest(bare)
	r.turn(0)
	if s := r.one("bare FIN", wire.ACK); s.ack != g.seq {
		t.Errorf("got %+v", s)
	}
	if b, err := io.ReadAll(g.host); string(b) != "end" || err != nil {
		t.Errorf("host: %q, %v", b, err)
	}
}

// Our FIN is lost, then its acknowledgement: sent again with the same number, also after data that was acknowledged late.
func TestFIN_Lost_SameNumberAgain(t *testing.T) {
	r := newRig(t, tso)
	g := r.dial(linuxSyn)
	g.hostWrites(fill(2000, 1))
	g.host.CloseWrite()
	g.waitBytes(2000)
	r.settle()
	r.take()
	r.pass(1000) // data again, no FIN: it waits for the acknowledgement
	for _, s := range r.take() {
		if s.flags&wire.FIN != 0 {
			t.Errorf("got %+v", s)
		}
	}
	g.ackd += 1460
	g.send(wire.ACK, nil)
	r.settle()
	for _, s := range r.take() {
		if s.flags&wire.FIN != 0 {
			t.Errorf("FIN before all data: %+v", s)
		}
	}
	g.ackd += 540
	g.send(wire.ACK, nil)
	r.settle()
	first := r.one("FIN", wire.FIN|wire.ACK)
	if first.seq != g.ackd {
		t.Errorf("got %+v", first)
	}
	n := 0
	for range 40 {
		r.pass(100)
		for _, s := range r.take() {
			if n++; s.flags != wire.FIN|wire.ACK || s.seq != first.seq {
				t.Errorf("got %+v", s)
			}
		}
	}
	if n < 2 || n > 6 {
		t.Errorf("FIN %d times in 4 s", n)
	}
	dup := g.mk(wire.ACK, nil)
	r.guest(dup) // the guest repeats its acknowledgement: FIN at once
	r.settle()
	if s := r.one("after a duplicate", wire.FIN|wire.ACK); s.seq != first.seq {
		t.Errorf("got %+v", s)
	}
	g.ackd++
	g.send(wire.ACK, nil)
	r.pass(5000)
	r.none("after the acknowledgement")
}

// The guest ends, then the host; then the guest's last acknowledgement comes twice: the second belongs to no flow.
func TestFIN_LastAckTwice_SecondIsUnknown(t *testing.T) {
	r := newRig(t, tso)
	g := r.dial(linuxSyn)
	g.send(wire.ACK|wire.FIN, nil)
	r.turn(0)
	r.take()
	g.host.Close()
	g.until("FIN", func() bool { return len(r.out) > 0 })
	r.take()
	g.ackd++
	last := g.mk(wire.ACK, nil)
	r.guest(last)
	r.turn(0)
	r.none("end")
	r.guest(last)
	if s := r.one("second", wire.RST); s.seq != g.ackd {
		t.Errorf("got %+v", s)
	}
}

// The host's application is gone while the guest's data is pending: EPIPE or ECONNRESET, a reset for the guest, no leak.
func TestHostGone_GuestDataPending_ResetAndNothingLeft(t *testing.T) {
	r := newRig(t, tso)
	g := r.dial(linuxSyn)
	g.stuff(t)
	if r.tcp.pool.used == 0 {
		t.Fatal("nothing pending")
	}
	g.host.Close() // with unread data: the kernel sends a reset
	g.until("RST", func() bool { return len(r.out) > 0 && r.out[len(r.out)-1].flags&wire.RST != 0 })
	r.turn(0)
	if r.tcp.pool.used != 0 || !r.gone() {
		t.Errorf("%d chunks, gone %v", r.tcp.pool.used, r.gone())
	}
}

// The write itself meets the error, before its event was seen.
func TestHostGone_WriteFails_Reset(t *testing.T) {
	r := newRig(t, tso)
	g := r.dial(linuxSyn)
	_ = g.host.SetLinger(0)
	g.host.Close()
	g.send(wire.ACK, []byte("too late"))
	r.turn(0)
	o := r.take()
	if len(o) == 0 || o[len(o)-1].flags&wire.RST == 0 || !r.gone() {
		t.Errorf("got %+v", o)
	}
}

// EPOLLHUP and EPOLLERR in each state and combination: no panic, and an error always ends both sides.
func TestEvent_Combinations_ErrorEndsFlow(t *testing.T) {
	bits := []uint32{sys.PollIn, sys.PollOut, sys.PollRdHup, sys.PollHup, sys.PollErr}
	for m := range 1 << len(bits) {
		ev := uint32(0)
		for k, b := range bits {
			if m>>k&1 != 0 {
				ev |= b
			}
		}
		for state := range 3 {
			r := newRig(t, tso)
			switch state {
			case 0:
				r.dial(linuxSyn)
			case 1:
				r.inbound()
			case 2:
				r.server()
				r.guest(seg{flags: wire.SYN, seq: guestISN, win: 64240, opts: linuxSyn})
				r.until("SYN,ACK", func() bool { return len(r.out) > 0 })
				r.take()
			}
			r.tcp.Event(0, 0, ev)
			r.tcp.EndTurn()
			r.env.EndTurn()
			if r.gone() != (ev&sys.PollErr != 0) {
				t.Errorf("state %d, events %#x: gone %v", state, ev, r.gone())
			}
			if r.gone() {
				if o := r.take(); len(o) != 1 || o[0].flags&wire.RST == 0 {
					t.Errorf("state %d, events %#x: got %+v", state, ev, o)
				}
			}
		}
	}
}

// The peer sends and closes before the handshake with the guest is complete: all of it arrives, then FIN.
func TestAccept_PeerSendsAndCloses_GuestGetsAll(t *testing.T) {
	r := newRig(t, tso)
	c, s := r.inbound()
	want := fill(5000, 1)
	if _, err := c.Write(want); err != nil {
		t.Fatal(err)
	}
	c.CloseWrite()
	r.settle()
	r.none("before the answer")
	r.guest(seg{flags: wire.SYN | wire.ACK, seq: 5000, ack: s.seq + 1, win: 64240, opts: linuxSyn})
	r.settle()
	if o := r.take(); !bytes.Equal(payload(o), want) {
		t.Fatalf("%d bytes", len(payload(o)))
	}
	r.guest(seg{flags: wire.ACK, seq: 5001, ack: s.seq + 5001, win: 500})
	r.settle()
	if f := r.one("FIN", wire.FIN|wire.ACK); f.seq != s.seq+5001 {
		t.Errorf("got %+v", f)
	}
	r.guest(seg{flags: wire.ACK | wire.FIN, seq: 5001, ack: s.seq + 5002, win: 500})
	r.turn(0)
	if b, err := io.ReadAll(c); len(b) != 0 || err != nil {
		t.Errorf("client: %q, %v", b, err)
	}
	if !r.gone() {
		t.Error("flow left")
	}
}

// No address of the guest is known: the client is reset and nothing is left.
func TestAccept_GuestUnknown_ClientReset(t *testing.T) {
	r := newRig(t, tso)
	r.env.Guest.Seen4 = wire.Addr{}
	a, b, err := pair()
	if err != nil {
		t.Skip(err)
	}
	r.env.HostRules = append(r.env.HostRules, ruleTo80)
	r.tcp.Accept(&flow.Listener{Port: 9}, a, wire.Addr4(203, 0, 113, 9), wire.Addr4(203, 0, 113, 1), 5555, 9)
	r.turn(0)
	r.none("guest unknown")
	if !r.gone() || r.env.Drops[wire.DropNoRule] != 1 {
		t.Errorf("drops %v", r.drops())
	}
	if _, err := syscall.Read(b, make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("client: %v", err)
	}
	syscall.Close(b)
}

// B010: guests that vanish. The keep-alive draws a reset from one that restarted; one that says nothing ends when there is data
// for it, or after two hours.
func TestGuestVanishes_DescriptorsReturn(t *testing.T) {
	const n = 40
	for _, kind := range []string{"restarted", "restarted after FIN", "silent", "silent with data"} {
		t.Run(kind, func(t *testing.T) {
			r := newRig(t, tso)
			before := descriptors(t)
			for k := range n {
				r.sport = uint16(42000 + k)
				g := r.dial(linuxSyn)
				switch kind {
				case "restarted after FIN":
					g.send(wire.ACK|wire.FIN, nil)
				case "silent with data":
					g.hostWrites(fill(100, 1))
					g.waitBytes(100)
				}
				r.turn(0)
				r.take()
			}
			r.link.got = func(b []byte, v wire.Vnet) { // any guest: the rig knows only the last port
				var p wire.Packet
				pv := wire.Vnet{}
				if p.Parse(b, &pv) != wire.DropNone {
					t.Fatal("frame")
				}
				s := wire.TCP(p.L4)
				r.sport, r.dport = p.DstPort, p.SrcPort
				r.out = append(r.out, seg{flags: s.Flags(), seq: s.Seq(), ack: s.Ack(), data: []byte{byte(p.DstPort >> 8), byte(p.DstPort), byte(p.SrcPort >> 8), byte(p.SrcPort)}})
			}
			switch kind {
			case "silent":
				r.pass(inactivityMs + 1000)
			case "silent with data":
				r.pass(giveUpMs + 1000)
			default:
				r.pass(2 * keepAliveMs)
				for _, s := range r.take() {
					r.sport, r.dport = be.Uint16(s.data), be.Uint16(s.data[2:])
					r.guest(seg{flags: wire.RST, seq: s.ack})
				}
				r.turn(0)
			}
			if !r.gone() {
				t.Errorf("%d flows left", r.env.Table.Used())
			}
			// The host's ends of the connections stay open here, as do the listeners: two for each.
			if got := descriptors(t); got-before > 2*n+2 {
				t.Errorf("%d descriptors more", got-before)
			}
		})
	}
}
