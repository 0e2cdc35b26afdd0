// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"bytes"
	"testing"

	"passt/dataplane/link"
	"passt/dataplane/wire"
	"passt/internal/sys"
)

// tapLink refuses as a tap does: there is room to reserve, but Send takes nothing, or a part.
type tapLink struct {
	*fakeLink
	stuck  bool // Send takes nothing
	atMost int  // frames that one Send takes, 0: all
}

func (l *tapLink) Send(segs []link.Seg) (int, sys.Errno) {
	if l.stuck {
		return 0, sys.EAGAIN
	}
	if l.atMost > 0 && len(segs) > l.atMost {
		n, _ := l.fakeLink.Send(segs[:l.atMost])
		return n, sys.EAGAIN
	}
	return l.fakeLink.Send(segs)
}

// tap puts a link that refuses like a tap in the place of the rig's.
func (r *rig) tap() *tapLink {
	l := &tapLink{fakeLink: r.link}
	r.env.Link = l
	return l
}

// settle runs turns until nothing more comes out, without letting the loop's clock go on.
func (r *rig) settle() {
	for quiet := 0; quiet < 3; {
		n := len(r.out)
		r.turn(1)
		if quiet++; len(r.out) != n || r.env.Pending() {
			quiet = 0
		}
	}
}

// A tap always has room to reserve and refuses at Send, after the short peek that emptied the queue: the data must go out
// when the link is ready, once, and before any timer.
func TestLinkFull_AtSend_ResumesOnce(t *testing.T) {
	for _, ready := range []bool{true, false} {
		r := newRig(t, tso)
		l := r.tap()
		g := r.dial(linuxSyn)
		l.stuck = true
		g.hostWrites(fill(5000, 1))
		r.until("full link", func() bool { return r.conn().has(linkWait) })
		l.stuck = false
		if ready {
			r.tcp.LinkReady()
			r.turn(0)
		} else {
			r.pass(linkRetryMs)
		}
		if o := r.take(); !bytes.Equal(payload(o), fill(5000, 1)) {
			t.Fatalf("ready %v: %d segments", ready, len(o))
		}
		r.pass(firstRTOMs - 1)
		r.none("before the retransmission time-out")
		r.pass(1)
		if o := r.take(); len(payload(o)) != 5000 {
			t.Errorf("ready %v: %d segments at the time-out", ready, len(o))
		}
	}
}

// The acknowledgement of what went before clears the timer; what the link refused must go on nevertheless.
func TestLinkFull_ThenAllAcknowledged_RestGoesOn(t *testing.T) {
	for _, ready := range []bool{true, false} {
		r := newRig(t, plain)
		l := r.tap()
		g := r.dial(linuxSyn)
		l.atMost = 1
		want := fill(4000, 1)
		g.hostWrites(want)
		r.until("full link", func() bool { return r.conn().has(linkWait) })
		got := payload(r.take())
		l.atMost, l.stuck = 0, true
		g.ackd += uint32(len(got))
		g.send(wire.ACK, nil)
		r.settle()
		l.stuck = false
		if ready {
			r.tcp.LinkReady()
			r.turn(0)
		} else {
			r.pass(linkRetryMs)
		}
		if got = append(got, payload(r.take())...); !bytes.Equal(got, want) {
			t.Errorf("ready %v: %d of %d bytes", ready, len(got), len(want))
		}
	}
}

// The link refuses parts again and again: the guest gets the stream whole and in order.
func TestLinkFull_Often_StreamIdentical(t *testing.T) {
	for _, noPeek := range []bool{false, true} {
		r := newRig(t, plain)
		l := r.tap()
		r.tcp.noPeek = noPeek
		g := r.dial(linuxSyn)
		want := fill(200_000, 3)
		go g.host.Write(want)
		var got []byte
		for k := 0; len(got) < len(want); k++ {
			l.atMost, l.stuck, r.link.full = k%3, k%5 == 4, k%7 == 6
			r.turn(1)
			if k%2 == 0 {
				r.tcp.LinkReady()
			} else {
				r.pass(linkRetryMs)
			}
			for _, s := range r.take() {
				switch d := int32(s.seq - g.ackd); {
				case d > 0:
					t.Fatalf("hole of %d bytes", d)
				case int(-d) < len(s.data):
					got = append(got, s.data[-d:]...)
					g.ackd += uint32(len(s.data)) - uint32(-d)
				}
			}
			g.send(wire.ACK, nil)
			if k > 20_000 {
				t.Fatalf("stuck at %d bytes", len(got))
			}
		}
		if !bytes.Equal(got, want) {
			t.Error("data differ")
		}
	}
}

// The link is full when our FIN is due.
func TestLinkFull_AtFIN_SentWhenReady(t *testing.T) {
	for _, ready := range []bool{true, false} {
		r := newRig(t, tso)
		l := r.tap()
		g := r.dial(linuxSyn)
		l.stuck = true
		g.host.CloseWrite()
		r.until("full link", func() bool { return r.conn().has(linkWait) })
		l.stuck = false
		if ready {
			r.tcp.LinkReady()
			r.turn(0)
		} else {
			r.pass(linkRetryMs)
		}
		r.one("FIN", wire.FIN|wire.ACK)
		r.pass(firstRTOMs - 1)
		r.none("before the retransmission time-out")
	}
}

// The link is full when the last acknowledgement of a connection is due: the guest gets it, not a reset.
func TestLinkFull_AtLastAck_SentWhenReady(t *testing.T) {
	r := newRig(t, tso)
	l := r.tap()
	g := r.dial(linuxSyn)
	g.host.CloseWrite()
	g.until("FIN", func() bool { return len(r.out) > 0 })
	r.take()
	g.ackd++
	l.stuck = true
	g.send(wire.ACK|wire.FIN, nil)
	r.turn(0)
	l.stuck = false
	r.tcp.LinkReady()
	r.turn(0)
	if s := r.one("last acknowledgement", wire.ACK); s.ack != g.seq {
		t.Errorf("got %+v", s)
	}
	r.turn(0)
	if !r.gone() {
		t.Error("flow left")
	}
}

// The link is full when an acknowledgement is due: it follows in the turn that the link's event makes.
func TestLinkFull_AtAck_SentNextTurn(t *testing.T) {
	r := newRig(t, tso)
	l := r.tap()
	g := r.dial(linuxSyn)
	l.stuck = true
	g.send(wire.ACK, []byte("x"))
	r.turn(0)
	r.turn(0)
	r.none("full")
	l.stuck = false
	r.turn(0)
	if s := r.one("acknowledgement", wire.ACK); s.ack != g.seq {
		t.Errorf("got %+v", s)
	}
}

// A guest whose SYN shuts the window and whose update is lost is probed.
func TestZeroWindow_InSynAck_Probed(t *testing.T) {
	r := newRig(t, tso)
	c, s := r.inbound()
	if _, err := c.Write([]byte("early")); err != nil {
		t.Fatal(err)
	}
	r.guest(seg{flags: wire.SYN | wire.ACK, seq: 5000, ack: s.seq + 1, win: 0, opts: linuxSyn})
	r.settle()
	if a := r.one("acknowledgement", wire.ACK); len(a.data) != 0 {
		t.Errorf("got %+v", a)
	}
	r.pass(probeMs)
	if o := r.take(); len(o) != 1 || len(o[0].data) != 1 {
		t.Fatalf("got %+v, want a probe", o)
	}
	r.guest(seg{flags: wire.ACK, seq: 5001, ack: s.seq + 2, win: 100})
	r.settle()
	if o := r.take(); string(payload(o)) != "arly" {
		t.Errorf("got %+v", o)
	}
}

// Each way out of toGuest leaves something that comes back: a flag with an event of the kernel's, a timer, or a place on a list.
func TestToGuest_EveryReturn_HasAFuture(t *testing.T) {
	type want struct{ due, again, listed bool }
	for _, c := range []struct {
		name string
		set  func(g *guestTCP)
		want want
	}{
		{"window used up", func(g *guestTCP) { g.win = 1; g.send(wire.ACK, nil); g.hostWrites(fill(3000, 1)) }, want{due: true}},
		{"silly window", func(g *guestTCP) { g.win = 12; g.send(wire.ACK, nil); g.hostWrites(fill(3000, 1)) }, want{due: true}},
		{"window shut", func(g *guestTCP) { g.win = 0; g.send(wire.ACK, nil); g.hostWrites(fill(3000, 1)) }, want{due: true}},
		{"nothing to reserve", func(g *guestTCP) { g.link.full = true; g.hostWrites(fill(3000, 1)) }, want{due: true, listed: true}},
		{"nothing taken", func(g *guestTCP) { g.tap().stuck = true; g.hostWrites(fill(3000, 1)) }, want{due: true, listed: true}},
		{"everything sent", func(g *guestTCP) { g.hostWrites(fill(3000, 1)) }, want{due: true}},
		{"FIN behind data", func(g *guestTCP) { g.hostWrites(fill(3000, 1)); g.host.CloseWrite() }, want{due: true}},
		{"FIN sent", func(g *guestTCP) { g.host.CloseWrite() }, want{due: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, tso)
			g := r.dial(linuxSyn)
			c.set(g)
			r.settle()
			k := r.conn()
			_, armed := r.env.Armed(0)
			if k.due != 0 != c.want.due || !armed || r.tcp.nWait > 0 != c.want.listed {
				t.Errorf("due %d, armed %v, waiting %d", k.due, armed, r.tcp.nWait)
			}
			r.link.full, r.env.Link = false, r.link
			r.take()
			r.pass(2000)
			if len(r.take()) == 0 {
				t.Error("nothing comes back")
			}
		})
	}
}
