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

// spec tcp checks 1, 29: options are MSS, NOP, window scale; ack is the guest's number and 1.
func TestConnect_ListeningPort_SynAck(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		r := newRig(t, tso)
		r.v6 = v6
		r.server()
		r.guest(seg{flags: wire.SYN, seq: guestISN, win: 64240, opts: linuxSyn})
		r.until("SYN,ACK", func() bool { return len(r.out) > 0 })
		s := r.one("answer", wire.SYN|wire.ACK)
		mss := 1460
		if v6 {
			mss = 1440
		}
		if s.ack != guestISN+1 || !bytes.Equal(s.opts, []byte{2, 4, byte(mss >> 8), byte(mss), 1, 3, 3, ourShift}) || s.win != 65535 {
			t.Errorf("got %+v", s)
		}
		if q := r.asked[0]; q.Op != flow.OpTCP || int(q.MSS) != mss || q.DstPort != r.dport {
			t.Errorf("request %+v", q)
		}
	}
}

// check 2
func TestOurMSS_ByMTU(t *testing.T) {
	for _, c := range []struct {
		mtu  int
		a    wire.Addr
		want int
	}{{65520, gw4, 61440}, {1500, gw4, 1460}, {1280, gw6, 1220}, {0, gw4, 1460}, {4136, gw4, 4096}, {68, gw4, minMSS}} {
		r := newRig(t, tso, func(f *flow.Config) { f.MTU = c.mtu })
		if got := r.tcp.ourMSS(&c.a); got != c.want {
			t.Errorf("MTU %d: %d, want %d", c.mtu, got, c.want)
		}
	}
}

// check 3: refused by the broker's connect, or later by the network.
func TestConnect_Refused_ResetWithAck(t *testing.T) {
	r := newRig(t, tso)
	l := r.server()
	l.Close()
	r.guest(seg{flags: wire.SYN, seq: guestISN, win: 64240, opts: linuxSyn})
	r.until("RST", func() bool { return len(r.out) > 0 })
	if s := r.one("closed port", wire.RST|wire.ACK); s.ack != guestISN+1 || s.seq != 0 {
		t.Errorf("got %+v", s)
	}
	if !r.gone() {
		t.Error("flow left")
	}
	r.refuse = sys.ECONNREFUSED
	r.guest(seg{flags: wire.SYN, seq: 5000, win: 64240})
	r.turn(0)
	if s := r.one("broker's errno", wire.RST|wire.ACK); s.ack != 5001 {
		t.Errorf("got %+v", s)
	}
	r.refuse = sys.ENOBUFS
	r.guest(seg{flags: wire.SYN, seq: 6000, win: 64240})
	r.turn(0)
	r.none("a shortage that passes")
	if !r.gone() {
		t.Error("flow left")
	}
}

func TestConnect_NotAllowed_Silent(t *testing.T) {
	r := newRig(t, tso)
	r.env.Fwd.TCP = false
	r.dport = 9
	r.guest(seg{flags: wire.SYN, seq: 1, win: 1})
	r.turn(0)
	r.none("TCP is off")
	r.env.Fwd.TCP = true
	r.dport = 0
	r.guest(seg{flags: wire.SYN, seq: 1, win: 1})
	r.turn(0)
	r.none("port 0")
	if r.env.Drops[wire.DropNoRule] != 1 || r.env.Drops[wire.DropPort] != 1 || len(r.asked) != 0 {
		t.Errorf("drops %v, asked %v", r.drops(), r.asked)
	}
}

func TestConnect_TableFull_SilentAndCounted(t *testing.T) {
	r := newRig(t, tso)
	r.server()
	for r.env.Table.Alloc(flow.KindPing) != flow.NoFlow {
	}
	r.guest(seg{flags: wire.SYN, seq: 1, win: 1})
	r.turn(0)
	r.none("table full")
	if r.env.Drops[wire.DropTableFull] != 1 {
		t.Errorf("drops %v", r.drops())
	}
}

// checks 4, 5: nothing while the host connects, and one connection for repeated SYNs, also in one run.
func TestConnect_RepeatedSyn_OneConnection(t *testing.T) {
	r := newRig(t, tso)
	r.server()
	r.hold = true
	syn := seg{flags: wire.SYN, seq: guestISN, win: 64240}
	r.guest(syn, syn)
	r.turn(0)
	r.pass(1000)
	r.guest(syn)
	r.none("connecting")
	if r.env.Table.Used() != 1 {
		t.Errorf("%d flows", r.env.Table.Used())
	}
	r.hold = false
	r.until("SYN,ACK", func() bool { return len(r.out) > 0 })
	if len(r.asked) != 1 {
		t.Errorf("%d requests", len(r.asked))
	}
}

func TestConnect_ResetWhileConnecting_FlowEnds(t *testing.T) {
	r := newRig(t, tso)
	r.server()
	r.hold = true
	r.guest(seg{flags: wire.SYN, seq: guestISN})
	r.guest(seg{flags: wire.RST, seq: 77})
	if r.gone() {
		t.Error("a reset with a wrong number ended it")
	}
	r.guest(seg{flags: wire.RST, seq: guestISN + 1})
	r.turn(0)
	r.none("reset")
	if !r.gone() {
		t.Error("flow left")
	}
}

// check 6: payload of the segment that completes the handshake, alone in its run.
func TestHandshake_AckWithPayload_Delivered(t *testing.T) {
	r := newRig(t, tso)
	l := r.server()
	r.guest(seg{flags: wire.SYN, seq: guestISN, win: 64240, opts: linuxSyn})
	r.until("SYN,ACK", func() bool { return len(r.out) > 0 })
	s := r.one("answer", wire.SYN|wire.ACK)
	g := &guestTCP{rig: r, host: accept(t, l), seq: guestISN + 1, ackd: s.seq + 1, win: 502}
	g.send(wire.ACK|wire.PSH, []byte("hello"))
	r.turn(0)
	if a := r.one("acknowledgement", wire.ACK); a.ack != g.seq {
		t.Errorf("ack %d", a.ack)
	}
	if b := g.hostReads(5); string(b) != "hello" {
		t.Errorf("host read %q", b)
	}
}

// check 38
func TestHandshake_PayloadAndFIN_HostReadsThenEOF(t *testing.T) {
	r := newRig(t, tso)
	l := r.server()
	r.guest(seg{flags: wire.SYN, seq: guestISN, win: 64240, opts: linuxSyn})
	r.until("SYN,ACK", func() bool { return len(r.out) > 0 })
	s := r.one("answer", wire.SYN|wire.ACK)
	g := &guestTCP{rig: r, host: accept(t, l), seq: guestISN + 1, ackd: s.seq + 1, win: 502}
	wrong := g.mk(wire.ACK, []byte("junk"))
	wrong.ack += 7
	g.guest(wrong)
	if x := r.one("wrong acknowledgement", wire.RST); x.seq != wrong.ack {
		t.Errorf("got %+v", x)
	}
	g.send(wire.ACK|wire.FIN, []byte("all"))
	r.turn(0)
	if b, err := io.ReadAll(g.host); string(b) != "all" || err != nil {
		t.Errorf("host read %q, %v", b, err)
	}
	if a := r.one("acknowledgement", wire.ACK); a.ack != g.seq {
		t.Errorf("ack %d, want %d", a.ack, g.seq)
	}
}

// check 7
func TestHandshake_SynAckLost_SameAgainAfterOneSecond(t *testing.T) {
	r := newRig(t, tso)
	r.server()
	r.guest(seg{flags: wire.SYN, seq: guestISN, win: 64240, opts: linuxSyn})
	r.until("SYN,ACK", func() bool { return len(r.out) > 0 })
	first := r.one("first", wire.SYN|wire.ACK)
	r.pass(999)
	r.none("before a second")
	r.pass(1)
	if s := r.one("second", wire.SYN|wire.ACK); s.seq != first.seq || s.ack != first.ack || !bytes.Equal(s.opts, first.opts) {
		t.Errorf("got %+v, first %+v", s, first)
	}
	r.guest(seg{flags: wire.SYN, seq: guestISN, win: 64240, opts: linuxSyn})
	if s := r.one("after the guest's SYN", wire.SYN|wire.ACK); s.seq != first.seq {
		t.Errorf("got %+v", s)
	}
}

// check 8
func TestAccept_GuestSilent_SynTimesAndReset(t *testing.T) {
	r := newRig(t, tso)
	c, first := r.inbound()
	start := r.env.NowMs
	var at []int64
	for r.env.NowMs-start < 18_990 {
		r.pass(10)
		for _, s := range r.take() {
			if s.flags != wire.SYN || s.seq != first.seq {
				t.Fatalf("got %+v, first %+v", s, first)
			}
			at = append(at, (r.env.NowMs-start)/10*10)
		}
	}
	want := []int64{1000, 2000, 3000, 4000, 5000, 7000, 11000}
	if len(at) != len(want) {
		t.Fatalf("times %v", at)
	}
	for k := range at {
		if at[k] != want[k] {
			t.Errorf("times %v", at)
		}
	}
	r.pass(20)
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("client: %v", err)
	}
	if !r.gone() {
		t.Error("flow left")
	}
}

// check 9
func TestAccept_GuestRefuses_ClientReset(t *testing.T) {
	r := newRig(t, tso)
	c, s := r.inbound()
	r.guest(seg{flags: wire.RST | wire.ACK, ack: s.seq + 9})
	if r.gone() {
		t.Fatal("a reset for another number ended it")
	}
	r.guest(seg{flags: wire.RST | wire.ACK, ack: s.seq + 1})
	r.turn(0)
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("client: %v", err)
	}
}

// check 39: the answer to the first of three SYNs; data waits already.
func TestAccept_LateAnswer_DataFollowsAtOnce(t *testing.T) {
	r := newRig(t, tso)
	c, s := r.inbound()
	if _, err := c.Write([]byte("early")); err != nil {
		t.Fatal(err)
	}
	r.pass(2500)
	r.take()
	r.guest(seg{flags: wire.SYN | wire.ACK, seq: 5000, ack: s.seq + 1, win: 64240, opts: linuxSyn})
	r.turn(0)
	o := r.take()
	if len(o) != 1 || string(payload(o)) != "early" || o[0].seq != s.seq+1 || o[0].ack != 5001 {
		t.Fatalf("got %+v", o)
	}
	g := &guestTCP{rig: r, host: c, seq: 5001, ackd: s.seq + 6, win: 502}
	g.send(wire.ACK|wire.PSH, []byte("late"))
	r.turn(0)
	if b := g.hostReads(4); string(b) != "late" {
		t.Errorf("client read %q", b)
	}
}

func TestAccept_SameTupleTwice_SecondReset(t *testing.T) {
	r := newRig(t, tso)
	r.inbound()
	row := r.env.Table.Rows[0]
	fd, _ := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK, 0)
	r.tcp.Accept(&flow.Listener{Port: r.env.HostRules[0].First}, sys.FD(fd), row.Side[0].Ep, row.Side[0].Our, row.Side[0].EpPort, row.Side[0].OurPort)
	r.turn(0)
	r.none("second")
	if r.env.Table.Used() != 1 || r.env.Drops[wire.DropDuplicate] != 1 {
		t.Errorf("%d flows, drops %v", r.env.Table.Used(), r.drops())
	}
}

// checks 28, 35
func TestConnect_OddOptions_DataFlows(t *testing.T) {
	for _, c := range []struct {
		name   string
		opts   []byte
		mss    int
		synLen int
	}{
		{"none", nil, 536, 4},
		{"MSS 0", []byte{2, 4, 0, 0}, 88, 4},
		{"MSS 3", []byte{2, 4, 0, 3}, 88, 4},
		{"MSS without value", []byte{2, 2, 1, 1}, 536, 4},
		{"length 0", []byte{2, 0, 1, 1}, 536, 4},
		{"shift 15", []byte{3, 3, 15, 0}, 536, 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, f := range []bool{false, true} {
				r := newRig(t, plain)
				r.link.feat.TSO, r.link.feat.Csum = f, f
				l := r.server()
				r.guest(seg{flags: wire.SYN, seq: guestISN, win: 64240, opts: c.opts})
				r.until("SYN,ACK", func() bool { return len(r.out) > 0 })
				s := r.one("answer", wire.SYN|wire.ACK)
				if len(s.opts) != c.synLen {
					t.Errorf("options %v", s.opts)
				}
				g := &guestTCP{rig: r, host: accept(t, l), seq: guestISN + 1, ackd: s.seq + 1, win: 30000}
				g.send(wire.ACK, nil)
				g.hostWrites(fill(1000, 1))
				g.waitBytes(1000)
				for _, s := range r.out {
					if len(s.data) > c.mss {
						t.Errorf("segment of %d bytes", len(s.data))
					}
					if c.synLen == 4 && s.win < 60000 {
						t.Errorf("window %d, not unscaled", s.win)
					}
				}
				if !bytes.Equal(payload(r.take()), fill(1000, 1)) {
					t.Error("data differ")
				}
			}
		})
	}
}

// check 27
func TestUnknown_Segments_AnsweredByRule(t *testing.T) {
	r := newRig(t, tso)
	r.dport = 9
	r.guest(seg{flags: wire.ACK, seq: 5, ack: 77})
	if s := r.one("ACK", wire.RST); s.seq != 77 {
		t.Errorf("got %+v", s)
	}
	r.guest(seg{flags: wire.RST, seq: 5})
	r.none("RST")
	r.guest(seg{flags: wire.PSH, seq: 5, data: []byte("abc")})
	if s := r.one("data", wire.RST|wire.ACK); s.seq != 0 || s.ack != 8 {
		t.Errorf("got %+v", s)
	}
	r.guest(seg{flags: wire.SYN | wire.FIN, seq: 5})
	if s := r.one("SYN and FIN", wire.RST|wire.ACK); s.ack != 7 {
		t.Errorf("got %+v", s)
	}
}

func TestAnswerOf_Table(t *testing.T) {
	for e, want := range map[sys.Errno]answer{sys.ECONNREFUSED: answerReset, sys.EHOSTUNREACH: answerReset, sys.ENETUNREACH: answerReset,
		sys.ETIMEDOUT: answerReset, sys.EMFILE: answerReset, sys.EACCES: answerReset, sys.EPERM: answerReset, sys.ENOMEM: answerSilent, sys.ENOBUFS: answerSilent} {
		if got := answerOf(e); got != want {
			t.Errorf("%v: %d", e, got)
		}
	}
}
