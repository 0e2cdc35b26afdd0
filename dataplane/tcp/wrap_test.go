// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"bytes"
	"testing"

	"passt/dataplane/wire"
)

// Both sides' numbers wrap around in the middle of the data, of a retransmission, and at FIN.
func TestSequence_BothWrap_StreamsIdentical(t *testing.T) {
	for back := range uint32(12) {
		r := newRig(t, tso)
		l := r.server()
		r.hold = true
		isn := ^uint32(0) - back*700
		r.guest(seg{flags: wire.SYN, seq: isn, win: 64240, opts: linuxSyn})
		c := r.conn()
		c.iss = Seq(isn)
		c.sndUna, c.sndNxt, c.sndMax = c.iss, c.iss, c.iss
		r.hold = false
		r.until("SYN,ACK", func() bool { return len(r.out) > 0 })
		r.take()
		g := &guestTCP{rig: r, host: accept(t, l), seq: isn + 1, ackd: isn + 1, win: 502}
		g.send(wire.ACK, nil)
		b := fill(9000, byte(back))
		for k := range 9 {
			g.send(wire.ACK, b[1000*k:][:1000])
			r.turn(0)
			if s := r.one("data", wire.ACK); s.ack != g.seq {
				t.Fatalf("got %+v, want %d", s, g.seq)
			}
		}
		if !bytes.Equal(g.hostReads(9000), b) {
			t.Error("to the host: data differ")
		}
		g.hostWrites(b)
		g.waitBytes(9000)
		r.take()
		r.pass(1000)
		if o := r.take(); !bytes.Equal(payload(o), b) || o[0].seq != g.ackd {
			t.Errorf("retransmission: %d bytes", len(payload(o)))
		}
		g.ackd += 9000
		g.send(wire.ACK|wire.FIN, nil)
		r.turn(0)
		r.one("acknowledgement of FIN", wire.ACK)
		g.host.Close()
		g.until("FIN", func() bool { return len(r.out) > 0 })
		r.one("FIN", wire.FIN|wire.ACK)
		g.ackd++
		g.send(wire.ACK, nil)
		r.turn(0)
		if !r.gone() {
			t.Error("flow left")
		}
	}
}

// Every state but the closed one is left by a timer at the latest.
func TestStates_EachArmed(t *testing.T) {
	for _, s := range []State{StateConnecting, StateSynAckSent, StateSynSent, StateOpen} {
		r := newRig(t, tso)
		switch s {
		case StateConnecting:
			r.server()
			r.hold = true
			r.guest(seg{flags: wire.SYN, seq: 1})
		case StateSynAckSent:
			r.server()
			r.guest(seg{flags: wire.SYN, seq: 1})
			r.until("SYN,ACK", func() bool { return len(r.out) > 0 })
		case StateSynSent:
			r.inbound()
		case StateOpen:
			r.dial(linuxSyn)
		}
		if got := r.conn().state; got != s {
			t.Fatalf("state %v, want %v", got, s)
		}
		if _, ok := r.env.Armed(0); !ok {
			t.Errorf("%v: no timer", s)
		}
		r.pass(inactivityMs + 1000)
		if !r.gone() {
			t.Errorf("%v: still there", s)
		}
	}
}

// A guest that leaves the handshake open is told so by a reset, and the host's peer too.
func TestHandshake_NeverCompleted_BothReset(t *testing.T) {
	r := newRig(t, tso)
	l := r.server()
	r.guest(seg{flags: wire.SYN, seq: guestISN, win: 64240, opts: linuxSyn})
	r.until("SYN,ACK", func() bool { return len(r.out) > 0 })
	h := accept(t, l)
	r.pass(19_000)
	o := r.take()
	if len(o) != 9 || o[8].flags&wire.RST == 0 || !r.gone() {
		t.Fatalf("%d segments, last %+v", len(o), o[len(o)-1])
	}
	for _, s := range o[:8] {
		if s.flags != wire.SYN|wire.ACK || s.seq != o[0].seq {
			t.Errorf("got %+v", s)
		}
	}
	if _, err := h.Read(make([]byte, 1)); err == nil {
		t.Error("peer not reset")
	}
}
