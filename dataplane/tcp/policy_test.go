// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"bytes"
	"syscall"
	"testing"

	"passt/dataplane/flow"
	"passt/dataplane/wire"
	"passt/internal/sys"
)

// spec tcp check 40: one request and its answer cost at most one pure acknowledgement.
func TestRequest_AtMostOnePureAck(t *testing.T) {
	r := newRig(t, tso)
	g := r.dial(linuxSyn)
	for k := range 20 {
		g.send(wire.ACK|wire.PSH, fill(100, byte(k)))
		r.turn(0)
		r.pass(50) // the peer is far away
		g.hostReads(100)
		g.hostWrites(fill(100, byte(k)))
		g.waitBytes(100)
		pure := 0
		for _, s := range r.take() {
			if len(s.data) == 0 {
				pure++
			}
		}
		if pure > 1 {
			t.Fatalf("%d pure acknowledgements", pure)
		}
		g.ackd += 100
	}
}

// A run of several data segments draws one acknowledgement, and none where data carries it.
func TestAck_OnePerTurn_OrCarriedByData(t *testing.T) {
	r := newRig(t, tso)
	g := r.dial(linuxSyn)
	for range 5 {
		g.send(wire.ACK, fill(100, 1))
	}
	r.turn(0)
	if s := r.one("five segments", wire.ACK); s.ack != g.seq {
		t.Errorf("got %+v", s)
	}
	g.hostReads(500)
	g.hostWrites([]byte("answer"))
	r.settle()
	r.take()
	g.ackd += 6
	g.hostWrites([]byte("more"))
	g.send(wire.ACK, fill(100, 1)) // and the host's bytes are there before the turn ends
	n := 0
	r.until("data", func() bool { return len(payload(r.out)) == 4 })
	r.settle()
	for _, s := range r.take() {
		if len(s.data) == 0 {
			n++
		}
		if s.ack != g.seq {
			t.Errorf("got %+v", s)
		}
	}
	if n > 1 {
		t.Errorf("%d pure acknowledgements", n)
	}
}

// B019: the last segment of each burst has PSH.
func TestToGuest_Bursts_EachPushed(t *testing.T) {
	for _, f := range []bool{true, false} {
		r := newRig(t, tso)
		r.link.feat.TSO, r.link.feat.Csum = f, f
		g := r.dial(linuxSyn)
		for k := range 10 {
			g.hostWrites(fill(100, byte(k)))
			g.waitBytes(100)
			if o := r.take(); len(o) != 1 || o[0].flags != wire.ACK|wire.PSH {
				t.Errorf("got %+v", o)
			}
			g.ackd += 100
			r.pass(50)
		}
	}
}

// RFC 9293 s.3.10.7.4, RFC 5961: what an open connection answers to segments that do not fit.
func TestOpen_OddSegments_AnsweredByRule(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(s *seg, edge uint32)
		acks int // answers
		live bool
	}{
		{"no flags", func(s *seg, _ uint32) { s.flags = 0; s.data = []byte("x") }, 0, true},
		{"SYN at the next number", func(s *seg, _ uint32) { s.flags = wire.SYN }, 1, true},
		{"SYN,ACK again", func(s *seg, _ uint32) { s.flags = wire.SYN | wire.ACK; s.seq = guestISN }, 1, true},
		{"SYN far away", func(s *seg, _ uint32) { s.flags = wire.SYN; s.seq += 1 << 30 }, 1, true},
		{"data beyond the window", func(s *seg, e uint32) { s.seq = e + 1; s.data = []byte("x") }, 1, true},
		{"acknowledgement beyond the window", func(s *seg, e uint32) { s.seq = e + 1 }, 1, true},
		{"acknowledgement of what was not sent", func(s *seg, _ uint32) { s.ack++ }, 1, true},
		{"acknowledgement from long ago", func(s *seg, _ uint32) { s.ack -= oldAck + 1 }, 1, true},
		{"old acknowledgement", func(s *seg, _ uint32) { s.ack -= 5 }, 0, true},
		{"RST at the edge", func(s *seg, e uint32) { s.flags = wire.RST; s.seq = e }, 1, true},
		{"RST beyond it", func(s *seg, e uint32) { s.flags = wire.RST; s.seq = e + 1 }, 0, true},
		{"RST before", func(s *seg, _ uint32) { s.flags = wire.RST; s.seq-- }, 0, true},
		{"RST,ACK at the next number", func(s *seg, _ uint32) { s.flags = wire.RST | wire.ACK }, 0, false},
		{"RST with data and SYN", func(s *seg, _ uint32) { s.flags = wire.RST | wire.SYN; s.data = []byte("x") }, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, tso)
			g := r.dial(linuxSyn)
			s := g.mk(wire.ACK, nil)
			c.edit(&s, uint32(r.conn().rcvEdge))
			r.guest(s)
			r.turn(0)
			o := r.take()
			if len(o) != c.acks || r.gone() == c.live {
				t.Fatalf("gone %v, got %+v", r.gone(), o)
			}
			for _, a := range o {
				if a.flags != wire.ACK || a.seq != g.ackd || a.ack != g.seq {
					t.Errorf("got %+v", a)
				}
			}
			if c.live {
				g.send(wire.ACK, []byte("alive"))
				r.turn(0)
				if b := g.hostReads(5); string(b) != "alive" {
					t.Errorf("host read %q", b)
				}
			}
		})
	}
}

// The window moves with what is taken, without scale too, and opens after it was shut.
func TestWindow_Unscaled_ShutsAndReopens(t *testing.T) {
	r := newRig(t, tso)
	g := r.dial(linuxSyn[:4])
	_ = sys.SetsockoptInt(r.tcp.fd(0), 1, 7, 32<<10) // SO_SNDBUF
	edge, quiet := r0(g), 0
	var sent []byte
	note := func() {
		for _, s := range r.take() {
			if e := s.ack + uint32(s.win); int32(e-edge) < 0 {
				t.Fatalf("right edge back by %d", edge-e)
			} else {
				edge = e
			}
		}
	}
	for quiet < 5 {
		n := min(1460, int(int32(edge-g.seq)))
		if quiet++; n > 0 {
			quiet = 0
			b := fill(n, byte(len(sent)>>4))
			sent = append(sent, b...)
			g.send(wire.ACK, b)
		}
		r.turn(1)
		note()
	}
	if r.conn().pend.bytes == 0 || edge != g.seq {
		t.Fatalf("pending %d, window %d", r.conn().pend.bytes, edge-g.seq)
	}
	got := make(chan []byte)
	go func() { b := g.hostReads(len(sent)); got <- b }()
	r.until("window update", func() bool { note(); return edge-g.seq >= 1460 })
	r.until("drained", func() bool { note(); return r.conn().pend.bytes == 0 })
	if !bytes.Equal(<-got, sent) {
		t.Error("data differ")
	}
}

// Data over IPv6, both ways.
func TestIPv6_DataBothWays(t *testing.T) {
	for _, f := range []bool{true, false} {
		r := newRig(t, tso)
		r.v6 = true
		r.link.feat.TSO, r.link.feat.Csum = f, f
		g := r.dial(linuxSyn)
		g.send(wire.ACK, fill(1440, 1))
		r.turn(0)
		r.one("acknowledgement", wire.ACK)
		if !bytes.Equal(g.hostReads(1440), fill(1440, 1)) {
			t.Error("data differ")
		}
		g.hostWrites(fill(20_000, 2))
		g.waitBytes(20_000)
		if o := r.take(); !bytes.Equal(payload(o), fill(20_000, 2)) || len(o[0].data) != 1440 {
			t.Errorf("first segment of %d bytes", len(o[0].data))
		}
	}
}

// Urgent data of the host: the stream goes on behind it, no byte twice (the urgent byte itself is out of band and left out).
func TestToGuest_UrgentData_StreamGoesOn(t *testing.T) {
	for _, noPeek := range []bool{false, true} {
		r := newRig(t, tso, func(f *flow.Config) { f.NoPeekOffset = noPeek })
		g := r.dial(linuxSyn)
		raw, err := g.host.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		_ = raw.Control(func(fd uintptr) {
			_, _ = syscall.Write(int(fd), []byte("before"))
			_ = syscall.Sendto(int(fd), []byte("!"), syscall.MSG_OOB, nil)
			_, _ = syscall.Write(int(fd), []byte("after"))
		})
		var got []byte
		for range 30 {
			r.settle()
			for _, s := range r.take() {
				if s.flags&wire.RST != 0 {
					t.Fatalf("no peek offset %v: reset after %q", noPeek, got)
				}
				if d := int32(s.seq - g.ackd); d == 0 {
					got = append(got, s.data...)
					g.ackd += uint32(len(s.data))
				}
			}
			g.send(wire.ACK, nil)
			r.pass(100)
		}
		if string(got) != "beforeafter" && string(got) != "before!after" {
			t.Errorf("no peek offset %v: got %q", noPeek, got)
		}
	}
}

// check 34 for what the steady state of the other test does not pass: timers, control segments, a full link, pending data.
func TestColdPaths_NoAllocation(t *testing.T) {
	r := newRig(t, tso)
	g := r.dial(linuxSyn)
	l := r.tap()
	r.link.mute = true
	g.hostWrites(fill(3000, 1))
	r.settle()
	run := []wire.Packet{r.packet(g.mk(wire.ACK, nil))}
	old := g.mk(wire.ACK, fill(10, 1))
	old.seq -= 10
	stale := []wire.Packet{r.packet(old)}
	fire, again := r.tcp.Timer, r.tcp.Again
	if n := testing.AllocsPerRun(100, func() {
		r.tcp.FromGuest(run)
		r.tcp.FromGuest(stale)
		r.env.NowMs += 5
		r.env.NowNs += 5e6
		r.env.RunTimers(fire)
		l.stuck = !l.stuck
		r.tcp.Event(0, 1, sys.PollIn|sys.PollOut)
		r.tcp.LinkReady()
		r.env.RunAgain(again)
		r.tcp.EndTurn()
		r.env.EndTurn()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
