// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"bytes"
	"testing"

	"passt/dataplane/wire"
)

// check 15
func TestZeroWindow_DataOutstanding_ProbesThenResumes(t *testing.T) {
	r := newRig(t, tso)
	g := r.dial(linuxSyn)
	g.hostWrites(fill(3000, 1))
	g.waitBytes(3000)
	r.take()
	g.win = 0
	g.send(wire.ACK, nil)
	g.hostWrites(fill(3000, 2))
	for range 5 {
		r.turn(1)
	}
	r.none("window shut")
	r.pass(999)
	r.none("before a second")
	r.pass(1)
	if o := r.take(); len(o) != 1 || len(o[0].data) != 1 || o[0].seq != g.ackd {
		t.Fatalf("probe %+v", o)
	}
	g.win = 502
	g.send(wire.ACK, nil)
	g.waitBytes(6000)
	if o := r.take(); o[0].seq != g.ackd || !bytes.Equal(payload(o), append(fill(3000, 1), fill(3000, 2)...)) {
		t.Errorf("%d segments", len(o))
	}
}

// check 37: ten minutes; the guest takes each byte or only answers.
func TestZeroWindow_ProbesAnswered_LivesOn(t *testing.T) {
	for _, takes := range []bool{false, true} {
		r := newRig(t, tso)
		g := r.dial(linuxSyn)
		want := fill(3000, 1)
		g.win = 0
		g.send(wire.ACK, nil)
		g.hostWrites(want)
		for range 5 {
			r.turn(1)
		}
		probes, got := 0, []byte(nil)
		for range 6000 {
			r.pass(100)
			for _, s := range r.take() {
				if len(s.data) > 1 || len(s.data) == 1 && s.seq != g.ackd {
					t.Fatalf("probe %+v", s)
				}
				probes += len(s.data)
				if takes {
					g.ackd += uint32(len(s.data))
					got = append(got, s.data...)
				}
				g.send(wire.ACK, nil)
			}
		}
		if probes < 8 || r.gone() {
			t.Fatalf("%d probes, gone %v", probes, r.gone())
		}
		g.win = 502
		g.send(wire.ACK, nil)
		g.until("rest", func() bool { return len(payload(r.out)) == len(want)-len(got) })
		if !bytes.Equal(append(got, payload(r.take())...), want) {
			t.Error("data differ")
		}
	}
}

func TestZeroWindow_NobodyAnswers_Reset(t *testing.T) {
	r := newRig(t, tso)
	g := r.dial(linuxSyn)
	g.win = 0
	g.send(wire.ACK, nil)
	r.pass(3600_000) // nothing to send: it may last
	if r.gone() {
		t.Fatal("idle connection ended")
	}
	g.hostWrites(fill(10, 1))
	for range 5 {
		r.turn(1)
	}
	r.pass(400_000)
	if !r.gone() {
		t.Error("still there")
	}
}

func TestZeroWindow_FINWaiting_IsProbe(t *testing.T) {
	r := newRig(t, tso)
	g := r.dial(linuxSyn)
	g.win = 0
	g.send(wire.ACK, nil)
	g.host.CloseWrite()
	for range 5 {
		r.turn(1)
	}
	r.pass(1000)
	r.one("FIN", wire.FIN|wire.ACK)
}
