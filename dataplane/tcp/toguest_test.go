// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"bytes"
	"io"
	"reflect"
	"strings"
	"testing"

	"passt/dataplane/flow"
	"passt/dataplane/link"
	"passt/dataplane/wire"
	"passt/internal/sys"
)

// check 10, on each kind of link; check 30 for the one without SO_PEEK_OFF.
func TestToGuest_4000Bytes_SegmentsAndPush(t *testing.T) {
	for _, c := range []struct {
		name   string
		feat   link.Features
		split  bool
		noPeek bool
		frames int
	}{
		{"offload", tso, false, false, 1}, {"offload, vectors", tso, true, false, 1}, {"offload, no peek offset", tso, false, true, 1},
		{"checksum only", link.Features{Csum: true}, false, false, 3}, {"nothing", plain, false, false, 3},
		{"nothing, vectors", plain, true, false, 3}, {"nothing, no peek offset", plain, false, true, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, c.feat, func(f *flow.Config) { f.NoPeekOffset = c.noPeek })
			r.link.split = c.split
			g := r.dial(linuxSyn)
			r.frames = 0
			g.hostWrites(fill(4000, 3))
			g.waitBytes(4000)
			o := r.take()
			if r.frames != c.frames || len(o) != 3 {
				t.Errorf("%d frames, %d segments", r.frames, len(o))
			}
			for k, want := range []int{1460, 1460, 1080} {
				if len(o[k].data) != want || o[k].seq != g.ackd+uint32(1460*k) || o[k].flags&wire.PSH != 0 != (k == 2) {
					t.Errorf("segment %d: seq %d flags %#x, %d bytes", k, o[k].seq, o[k].flags, len(o[k].data))
				}
			}
			if !bytes.Equal(payload(o), fill(4000, 3)) {
				t.Error("data differ")
			}
		})
	}
}

// check 11: first sent at 0, never acknowledged.
func TestRetransmission_NoAnswer_TimesAndReset(t *testing.T) {
	r := newRig(t, tso)
	g := r.dial(linuxSyn)
	r.env.NowMs += 3600_000 // idle for an hour before: that is no lack of progress
	g.hostWrites(fill(3000, 1))
	g.waitBytes(3000)
	first := r.take()
	start := r.env.NowMs
	var at []int64
	for r.env.NowMs-start < 246_990 {
		r.pass(10)
		if o := r.take(); len(payload(o)) > 0 {
			if o[0].seq != first[0].seq || !bytes.Equal(payload(o), payload(first)) {
				t.Fatalf("got %+v", o)
			}
			at = append(at, (r.env.NowMs-start)/1000)
		}
	}
	want := []int64{1, 3, 7, 15, 31, 63, 127}
	if len(at) != len(want) {
		t.Fatalf("times %v", at)
	}
	for k := range at {
		if at[k] != want[k] {
			t.Errorf("times %v", at)
		}
	}
	r.pass(20)
	if o := r.take(); len(o) != 1 || o[0].flags&wire.RST == 0 || !r.gone() {
		t.Errorf("got %+v", o)
	}
}

func TestRetransmission_MeasuredLink_FasterThanASecond(t *testing.T) {
	r := newRig(t, tso)
	g := r.dial(linuxSyn)
	g.hostWrites(fill(100, 1))
	g.waitBytes(100)
	r.take()
	g.ackd += 100
	r.env.NowNs += 300_000
	g.send(wire.ACK, nil)
	g.hostWrites(fill(100, 1))
	g.waitBytes(100)
	r.take()
	r.pass(minRTOMs - 1)
	r.none("before the floor")
	r.pass(1)
	if o := r.take(); len(payload(o)) != 100 {
		t.Errorf("got %+v", o)
	}
}

// check 12
func TestRetransmission_PartAcknowledged_StartsThere(t *testing.T) {
	r := newRig(t, tso)
	g := r.dial(linuxSyn)
	g.hostWrites(fill(3000, 1))
	g.waitBytes(3000)
	r.take()
	r.pass(1000)
	r.take()
	g.ackd += 1460
	g.send(wire.ACK, nil)
	r.take()
	if r.conn().tries != 0 {
		t.Error("counter not reset")
	}
	r.pass(60_000)
	o := r.take()
	if len(o) == 0 || o[0].seq != g.ackd || !bytes.Equal(o[0].data, fill(3000, 1)[1460:2920]) {
		t.Errorf("got %d segments, %+v", len(o), o[0])
	}
}

// checks 13, 14
func TestDuplicateAck_ResentOnce_WindowUpdateNot(t *testing.T) {
	r := newRig(t, tso)
	g := r.dial(linuxSyn)
	g.hostWrites(fill(3000, 1))
	g.waitBytes(3000)
	r.take()
	g.win++
	g.send(wire.ACK, nil)
	r.turn(0)
	r.none("new window")
	g.send(wire.ACK, nil)
	if o := r.take(); len(payload(o)) != 3000 || o[0].seq != g.ackd {
		t.Errorf("got %+v", o)
	}
	g.send(wire.ACK, nil)
	r.turn(0)
	r.none("third of the same")
	dup := g.mk(wire.ACK, nil)
	g.ackd += 3000
	r.guest(dup, dup, g.mk(wire.ACK, nil))
	r.turn(0)
	r.none("duplicates before an acknowledgement of everything")
	if c := r.conn(); c.outstanding() || c.sndNxt != c.sndMax {
		t.Errorf("%+v", c)
	}
}

func TestAck_OfUnsentData_Ignored(t *testing.T) {
	r := newRig(t, tso)
	g := r.dial(linuxSyn)
	g.hostWrites(fill(10, 1))
	g.waitBytes(10)
	r.take()
	s := g.mk(wire.ACK, []byte("x"))
	s.ack += 11
	r.guest(s)
	r.turn(0)
	if a := r.one("answer", wire.ACK); a.ack != g.seq {
		t.Errorf("got %+v", a)
	}
	if r.env.Drops[wire.DropTCPAck] != 1 || !r.conn().outstanding() {
		t.Errorf("drops %v", r.drops())
	}
}

// A window of a few bytes is not used while more is on its way; nothing goes beyond it.
func TestToGuest_SmallWindow_NeverExceeded(t *testing.T) {
	r := newRig(t, tso)
	g := r.dial(nil)
	g.win = 2000
	g.send(wire.ACK, nil)
	want := fill(50_000, 9)
	g.hostWrites(want)
	var got []byte
	for len(got) < len(want) {
		n := min(1608, len(want)-len(got)) // three segments of 536; 392 more would be silly
		g.until("data", func() bool { return len(payload(r.out)) >= n || len(got)+len(payload(r.out)) == len(want) })
		o := r.take()
		p := payload(o)
		if len(p) > 2000 {
			t.Fatalf("%d bytes in a window of 2000", len(p))
		}
		got = append(got, p...)
		g.ackd += uint32(len(p))
		g.send(wire.ACK, nil)
	}
	if !bytes.Equal(got, want) {
		t.Error("data differ")
	}
}

// check 30: 16 MiB in flight, with and without SO_PEEK_OFF; then all of it is acknowledged at once.
func TestToGuest_16MiBInFlight_StreamIdentical(t *testing.T) {
	for _, noPeek := range []bool{false, true} {
		r := newRig(t, tso, func(f *flow.Config) { f.NoPeekOffset = noPeek })
		g := r.dial([]byte{2, 4, 0x05, 0xb4, 1, 3, 3, 14})
		_ = g.host.SetWriteBuffer(8 << 20)
		_ = sys.SetsockoptInt(r.tcp.fd(0), 1, 33, 16<<20) // SO_RCVBUFFORCE, else what the system gives
		g.win = 2048
		g.send(wire.ACK, nil)
		want := fill(24<<20, 5)
		go g.host.Write(want)
		var got []byte
		for len(got) < len(want) {
			last := -1
			for quiet := 0; quiet < 3; {
				r.turn(2)
				if n := len(payload(r.out)); n == last {
					quiet++
				} else {
					last, quiet = n, 0
				}
			}
			if last == 0 {
				t.Fatal("no progress")
			}
			got = append(got, payload(r.take())...)
			g.ackd = r.isn() + 1 + uint32(len(got))
			g.send(wire.ACK, nil)
		}
		if !bytes.Equal(got, want) {
			t.Error("data differ")
		}
	}
}

func (r *rig) isn() uint32 { return uint32(r.conn().iss) }

// The link takes nothing for a while: no byte is lost, and LinkReady resumes at once, the clock soon.
func TestToGuest_LinkFull_Resumes(t *testing.T) {
	for _, ready := range []bool{true, false} {
		r := newRig(t, tso)
		g := r.dial(linuxSyn)
		r.link.full = true
		g.hostWrites(fill(5000, 1))
		for r.conn().flags&linkWait == 0 {
			r.turn(2)
		}
		if r.env.Pending() {
			t.Error("spins")
		}
		r.link.full = false
		if ready {
			r.tcp.LinkReady()
			r.turn(0)
		} else {
			r.pass(linkRetryMs)
		}
		if o := r.take(); !bytes.Equal(payload(o), fill(5000, 1)) || r.conn().tries != 0 {
			t.Errorf("ready %v: %d segments", ready, len(o))
		}
	}
}

// One bulk connection leaves the turn after its budget and goes on in the next.
func TestToGuest_Bulk_BudgetPerTurn(t *testing.T) {
	r := newRig(t, tso)
	g := r.dial([]byte{2, 4, 0x05, 0xb4, 1, 3, 3, 14})
	_ = sys.SetsockoptInt(r.tcp.fd(0), 1, 33, 8<<20)
	g.win = 2048
	g.send(wire.ACK, nil)
	r.link.mute = true
	go g.host.Write(fill(8<<20, 1))
	most := 0
	for range 200 {
		before := r.conn().sndNxt
		r.turn(1)
		most = max(most, int(r.conn().sndNxt.From(before)))
	}
	if most > 2*(turnBudget+65536) { // an event and a run of the list in one turn
		t.Errorf("%d bytes in one turn", most)
	}
}

// A server that answers with a shut window from the start is probed.
func TestAccept_ZeroWindowFromTheStart_Probed(t *testing.T) {
	r := newRig(t, tso)
	c, s := r.inbound()
	if _, err := c.Write([]byte("early")); err != nil {
		t.Fatal(err)
	}
	r.guest(seg{flags: wire.SYN | wire.ACK, seq: 5000, ack: s.seq + 1, win: 0, opts: linuxSyn})
	r.turn(0)
	r.one("acknowledgement", wire.ACK)
	r.pass(1000)
	if o := r.take(); string(payload(o)) != "e" {
		t.Errorf("got %+v", o)
	}
}

// Both families, both ways, 3 MB each, the guest acknowledging as it goes.
func TestExchange_BothWays_StreamsEqual(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		for _, feat := range []link.Features{tso, plain} {
			r := newRig(t, feat, func(f *flow.Config) { f.MTU = 65520 })
			r.v6 = v6
			g := r.dial([]byte{2, 4, 0xf0, 0x00, 1, 3, 3, 7})
			up, down := fill(3<<20, 1), fill(3<<20, 2)
			read := make(chan []byte)
			go func() { b := make([]byte, len(up)); io.ReadFull(g.host, b); read <- b }()
			go g.host.Write(down)
			var got []byte
			edge, sent := uint32(guestISN+1+65535), 0
			g.until("both streams", func() bool {
				for _, s := range r.take() {
					if s.seq != g.ackd && len(s.data) > 0 {
						t.Fatalf("segment at %d, want %d", s.seq, g.ackd)
					}
					got = append(got, s.data...)
					g.ackd += uint32(len(s.data))
					if e := s.ack + uint32(s.win)<<ourShift; int32(e-edge) > 0 {
						edge = e
					}
				}
				n := min(len(up)-sent, 61440, int(int32(edge-g.seq)))
				g.send(wire.ACK, up[sent:sent+max(n, 0)])
				sent += max(n, 0)
				return len(got) == len(down) && sent == len(up)
			})
			r.until("drained", func() bool { return r.conn().pend.bytes == 0 })
			if !bytes.Equal(got, down) || !bytes.Equal(<-read, up) {
				t.Error("streams differ")
			}
			if d := r.drops(); len(d) > 0 {
				t.Errorf("drops %v", d)
			}
		}
	}
}

func TestConn_Size_AtMost160(t *testing.T) {
	if n := reflect.TypeFor[conn]().Size(); n > 160 {
		t.Errorf("%d bytes", n)
	}
}

func TestTrace_Connection_ThreeLines(t *testing.T) {
	r := newRig(t, tso)
	var lines []string
	r.env.Trace, r.env.Log = true, func(_ int, s string) { lines = append(lines, s) }
	g := r.dial(linuxSyn)
	r.guest(seg{flags: wire.RST, seq: g.seq})
	if len(lines) != 3 || !strings.HasPrefix(lines[0], "flow 0: TCP guest 192.0.2.2 port 40000 with 192.0.2.1 port ") || !strings.HasSuffix(lines[2], "closed, was open") {
		t.Errorf("%q", lines)
	}
}
