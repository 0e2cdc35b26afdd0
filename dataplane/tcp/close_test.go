// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"bytes"
	"errors"
	"io"
	"syscall"
	"testing"

	"passt/dataplane/wire"
)

// check 22: our FIN follows the last acknowledgement; the guest may still send.
func TestHostHalfClose_FINAfterAllAcknowledged(t *testing.T) {
	r := newRig(t, tso)
	g := r.dial(linuxSyn)
	g.hostWrites(fill(3000, 1))
	g.host.CloseWrite()
	g.waitBytes(3000)
	for range 5 {
		r.turn(1)
	}
	if o := r.take(); len(payload(o)) != 3000 || o[len(o)-1].flags&wire.FIN != 0 {
		t.Fatalf("got %+v", o)
	}
	g.ackd += 3000
	g.send(wire.ACK, nil)
	if s := r.one("FIN", wire.FIN|wire.ACK); s.seq != g.ackd {
		t.Errorf("got %+v", s)
	}
	r.pass(1000) // repeated, at least once
	for _, s := range r.take() {
		if s.flags != wire.FIN|wire.ACK || s.seq != g.ackd {
			t.Errorf("got %+v", s)
		}
	}
	g.ackd++
	g.send(wire.ACK, nil)
	g.send(wire.ACK|wire.PSH, []byte("more"))
	r.turn(0)
	r.one("data after FIN", wire.ACK)
	if b := g.hostReads(4); string(b) != "more" {
		t.Errorf("host read %q", b)
	}
	g.send(wire.ACK|wire.FIN, nil)
	if s := r.one("last", wire.ACK); s.ack != g.seq {
		t.Errorf("got %+v", s)
	}
	r.turn(0)
	if b, err := io.ReadAll(g.host); len(b) != 0 || err != nil {
		t.Errorf("host: %q, %v", b, err)
	}
	if !r.gone() {
		t.Error("flow left")
	}
}

// check 23
func TestGuestHalfClose_HostStillSends_CleanEnd(t *testing.T) {
	r := newRig(t, tso)
	g := r.dial(linuxSyn)
	g.send(wire.ACK|wire.FIN, []byte("bye"))
	r.turn(0)
	if s := r.one("acknowledgement", wire.ACK); s.ack != g.seq {
		t.Errorf("got %+v", s)
	}
	if b, err := io.ReadAll(g.host); string(b) != "bye" || err != nil {
		t.Errorf("host: %q, %v", b, err)
	}
	g.hostWrites(fill(2000, 1))
	g.waitBytes(2000)
	r.take()
	g.host.Close()
	g.ackd += 2000
	g.send(wire.ACK, nil)
	g.until("FIN", func() bool { return len(r.out) > 0 })
	r.one("FIN", wire.FIN|wire.ACK)
	g.ackd++
	g.send(wire.ACK, nil)
	r.turn(0)
	r.none("end")
	if !r.gone() {
		t.Error("flow left")
	}
}

// check 24, and 36 for a repeated FIN.
func TestFIN_BehindAHole_WaitsForIt(t *testing.T) {
	r := newRig(t, tso)
	g := r.dial(linuxSyn)
	fin := g.mk(wire.ACK|wire.FIN, nil)
	fin.seq += 5
	r.guest(fin)
	r.turn(0)
	for _, s := range r.take() {
		if s.flags != wire.ACK || s.ack != g.seq {
			t.Errorf("got %+v", s)
		}
	}
	g.send(wire.ACK, []byte("12345"))
	r.turn(0)
	if s := r.one("data", wire.ACK); s.ack != g.seq {
		t.Errorf("got %+v", s)
	}
	r.guest(fin)
	r.turn(0)
	if s := r.one("FIN", wire.ACK); s.ack != g.seq+1 {
		t.Errorf("got %+v", s)
	}
	r.guest(fin)
	r.turn(0)
	if s := r.one("FIN again", wire.ACK); s.ack != g.seq+1 {
		t.Errorf("got %+v", s)
	}
	if b, err := io.ReadAll(g.host); string(b) != "12345" || err != nil {
		t.Errorf("host: %q, %v", b, err)
	}
}

// Guest's FIN while data is pending: the host sees all data, then the end.
func TestFIN_DataPending_PassedAfterIt(t *testing.T) {
	r := newRig(t, tso)
	g := r.dial(linuxSyn)
	sent := g.stuff(t)
	g.send(wire.ACK|wire.FIN, nil)
	r.turn(0)
	if r.conn().has(shutDone) {
		t.Fatal("FIN passed data")
	}
	got := make(chan []byte)
	go func() { b, _ := io.ReadAll(g.host); got <- b }()
	g.until("FIN", func() bool { return r.conn().has(shutDone) })
	if !bytes.Equal(<-got, sent) {
		t.Error("data differ")
	}
}

// check 25
func TestReset_EitherSide_Passed(t *testing.T) {
	r := newRig(t, tso)
	g := r.dial(linuxSyn)
	_ = g.host.SetLinger(0)
	g.host.Close()
	g.until("RST", func() bool { return len(r.out) > 0 })
	if s := r.take(); s[len(s)-1].flags&wire.RST == 0 || s[len(s)-1].seq != g.ackd {
		t.Errorf("got %+v", s)
	}
	if !r.gone() {
		t.Error("flow left")
	}
	r = newRig(t, tso)
	g = r.dial(linuxSyn)
	r.guest(seg{flags: wire.RST, seq: g.seq})
	r.turn(0)
	r.none("reset")
	if _, err := g.host.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("host: %v", err)
	}
}

// check 26: exactly the next number resets, one in the window draws a challenge, the rest nothing.
func TestReset_WrongSequence_Survives(t *testing.T) {
	r := newRig(t, tso)
	g := r.dial(linuxSyn)
	r.guest(seg{flags: wire.RST, seq: g.seq + 100})
	r.turn(0)
	if s := r.one("in the window", wire.ACK); s.ack != g.seq {
		t.Errorf("got %+v", s)
	}
	for _, d := range []uint32{1 << 20, 1 << 31, ^uint32(0)} {
		r.guest(seg{flags: wire.RST, seq: g.seq + d})
		r.turn(0)
		r.none("outside")
	}
	r.guest(seg{flags: wire.SYN, seq: g.seq})
	r.turn(0)
	r.one("SYN in the window", wire.ACK)
	g.send(wire.ACK, []byte("alive"))
	r.turn(0)
	if b := g.hostReads(5); string(b) != "alive" {
		t.Errorf("host read %q", b)
	}
}

// A reset in the middle of a run ends the flow; what follows belongs to none.
func TestReset_InRun_RestIsUnknown(t *testing.T) {
	r := newRig(t, tso)
	g := r.dial(linuxSyn)
	a := g.mk(wire.ACK, nil)
	r.guest(seg{flags: wire.RST, seq: g.seq}, a, seg{flags: wire.SYN, seq: 9, win: 100})
	if s := r.one("segment behind it", wire.RST); s.seq != a.ack {
		t.Errorf("got %+v", s)
	}
	r.until("SYN,ACK of the next connection", func() bool { return len(r.out) > 0 })
	r.one("next", wire.SYN|wire.ACK)
}

// checks 20, 21
func TestKeepAlive_BothWays(t *testing.T) {
	r := newRig(t, tso)
	g := r.dial(linuxSyn)
	k := g.mk(wire.ACK, nil)
	k.seq--
	r.guest(k)
	r.turn(0)
	if s := r.one("answer", wire.ACK); s.ack != g.seq || s.seq != g.ackd {
		t.Errorf("got %+v", s)
	}
	if v, err := getKeepAlive(r); v != 1 || err != 0 {
		t.Errorf("SO_KEEPALIVE %d, %v", v, err)
	}
	r.pass(29_990)
	r.none("before 30 s")
	r.pass(30_000)
	if s := r.one("first", wire.ACK); s.seq != g.ackd-1 {
		t.Errorf("got %+v", s)
	}
	r.pass(30_000)
	r.one("second", wire.ACK)
}

func TestInactivity_TwoHours_BothReset(t *testing.T) {
	r := newRig(t, tso)
	g := r.dial(linuxSyn)
	r.pass(inactivityMs + 1000)
	o := r.take()
	if !r.gone() || o[len(o)-1].flags&wire.RST == 0 {
		t.Errorf("gone %v", r.gone())
	}
	if _, err := g.host.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("host: %v", err)
	}
}
