// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"bytes"
	"io"
	"testing"
	"time"

	"passt/dataplane/flow"
	"passt/dataplane/wire"
	"passt/internal/sys"
)

func getKeepAlive(r *rig) (int, sys.Errno) {
	return sys.GetsockoptInt(r.tcp.fd(0), sys.OptKeepAlive.Level, sys.OptKeepAlive.Name)
}

// stuff sends until the window that the guest was told is used up: the host does not read.
func (g *guestTCP) stuff(t *testing.T) (sent []byte) {
	t.Helper()
	edge := uint32(r0(g))
	for quiet := 0; quiet < 3; {
		n := min(1460, int(int32(edge-g.seq)))
		if n <= 0 {
			g.turn(2)
			quiet++
		} else {
			quiet = 0
			b := fill(n, byte(len(sent)>>4))
			sent = append(sent, b...)
			g.send(wire.ACK, b)
			g.turn(0)
		}
		for _, s := range g.take() {
			e := s.ack + uint32(s.win)<<ourShift
			if int32(e-edge) < -(1 << ourShift) {
				t.Fatalf("right edge back by %d", edge-e)
			}
			if left := int(int32(e - g.seq)); int32(e-edge) > 0 && left < 1460 {
				t.Fatalf("window opens to %d only", left)
			}
			if int32(e-edge) > 0 {
				edge = e
			}
		}
	}
	return sent
}

// r0 gives the right edge that the guest knows of: that of SYN,ACK.
func r0(g *guestTCP) uint32 { return guestISN + 1 + 65535 }

// check 17, and many segments as one write.
func TestFromGuest_ReorderedInOneRun_Delivered(t *testing.T) {
	r := newRig(t, tso)
	g := r.dial(linuxSyn)
	b := fill(300, 1)
	s := make([]seg, 3)
	for k := range s {
		s[k] = g.mk(wire.ACK, b[100*k:100*k+100])
		s[k].seq += uint32(100 * k)
	}
	r.guest(s[2], s[1], s[0])
	r.turn(0)
	if a := r.one("acknowledgement", wire.ACK); a.ack != g.seq+300 {
		t.Errorf("got %+v", a)
	}
	if !bytes.Equal(g.hostReads(300), b) {
		t.Error("data differ")
	}
}

// check 16
func TestFromGuest_Hole_TwoIdenticalAcks(t *testing.T) {
	r := newRig(t, tso)
	g := r.dial(linuxSyn)
	late := g.mk(wire.ACK, fill(100, 2))
	late.seq += 100
	r.guest(late)
	o := r.take()
	if len(o) != 2 || o[0].ack != g.seq || o[1].ack != g.seq || o[0].win != o[1].win {
		t.Fatalf("got %+v", o)
	}
	r.turn(0)
	r.none("end of turn")
	g.send(wire.ACK, fill(100, 1))
	r.turn(0)
	if a := r.one("first part", wire.ACK); a.ack != g.seq {
		t.Errorf("got %+v", a)
	}
}

// check 36, and overlap: only the new part counts.
func TestFromGuest_OldData_AckAtOnce(t *testing.T) {
	r := newRig(t, tso)
	g := r.dial(linuxSyn)
	b := fill(300, 1)
	g.send(wire.ACK, b[:200])
	r.turn(0)
	r.take()
	old := g.mk(wire.ACK, b[:200])
	old.seq -= 200
	r.guest(old)
	r.turn(0)
	if a := r.one("old", wire.ACK); a.ack != g.seq {
		t.Errorf("got %+v", a)
	}
	over := g.mk(wire.ACK, b[100:300])
	over.seq -= 100
	r.guest(over)
	r.turn(0)
	if a := r.one("overlap", wire.ACK); a.ack != g.seq+100 {
		t.Errorf("got %+v", a)
	}
	if !bytes.Equal(g.hostReads(300), b) {
		t.Error("data differ")
	}
}

// check 18 and 19: the reader stops; everything invited is kept, the window shuts, and opens by itself.
func TestWindow_ReaderStops_ShutsAndReopens(t *testing.T) {
	r := newRig(t, tso)
	g := r.dial(linuxSyn)
	sent := g.stuff(t)
	c := r.conn()
	if c.pend.bytes == 0 || c.rcvEdge.From(c.rcvNxt) >= 1460 {
		t.Fatalf("pending %d, window %d", c.pend.bytes, c.rcvEdge.From(c.rcvNxt))
	}
	if uint32(c.rcvNxt) != g.seq || r.env.Drops[wire.DropPendingFull] != 0 {
		t.Errorf("not all taken: drops %v", r.drops())
	}
	got := make(chan []byte)
	go func() { b := make([]byte, len(sent)); io.ReadFull(g.host, b); got <- b }()
	g.until("window update", func() bool {
		for _, s := range r.out {
			if w := int(s.win) << ourShift; w >= 1460 {
				return s.ack == g.seq
			} else if w > 0 {
				t.Fatalf("window opens to %d", w)
			}
		}
		return false
	})
	g.until("end", func() bool { return r.conn().pend.bytes == 0 })
	if !bytes.Equal(<-got, sent) {
		t.Error("data differ")
	}
}

// A bulk connection's window grows to the limit, and an idle one gives its share back.
func TestWindow_Bulk_GrowsAndShrinks(t *testing.T) {
	r := newRig(t, tso)
	g := r.dial(linuxSyn)
	done := make(chan int64)
	go func() { n, _ := io.Copy(io.Discard, g.host); done <- n }()
	best, total := 0, 0
	for end := time.Now().Add(3 * time.Second); best < maxCap && time.Now().Before(end); {
		g.send(wire.ACK, fill(1460, 1))
		total += 1460
		r.turn(0)
		for _, s := range r.take() {
			best = max(best, int(s.win)<<ourShift)
		}
	}
	if best != maxCap || r.tcp.credit != maxCap-baseCap {
		t.Errorf("window %d, credit %d", best, r.tcp.credit)
	}
	r.until("drained", func() bool { return r.conn().pend.bytes == 0 })
	r.pass(keepAliveMs)
	if r.tcp.credit != 0 {
		t.Errorf("credit %d after idling", r.tcp.credit)
	}
	g.send(wire.ACK|wire.FIN, nil)
	r.turn(0)
	if n := <-done; n != int64(total) {
		t.Errorf("host read %d of %d", n, total)
	}
}

// Data beyond the window is dropped and counted, never written.
func TestFromGuest_BeyondWindow_Cut(t *testing.T) {
	r := newRig(t, tso)
	g := r.dial(linuxSyn)
	edge := r.conn().rcvEdge
	s := g.mk(wire.ACK, fill(100, 1))
	s.seq = uint32(edge) + 1
	r.guest(s)
	r.turn(0)
	r.one("beyond", wire.ACK)
	big := fill(60_000, 1)
	edge = r.conn().rcvEdge
	fin := g.mk(wire.ACK|wire.FIN, big)
	fin.seq += uint32(len(big))
	r.guest(g.mk(wire.ACK, big), fin)
	if c := r.conn(); c.rcvNxt != edge || c.has(guestFIN) {
		t.Errorf("next %d, edge %d, FIN %v", c.rcvNxt, edge, c.has(guestFIN))
	}
	if r.env.Drops[wire.DropTCPWindow] != 2 {
		t.Errorf("drops %v", r.drops())
	}
}

// check 43 is the parser's: such a segment never gets here. check 42's part here: what a slow reader does not take is not dropped.
func TestFromGuest_PoolExhausted_CountedAndRepeated(t *testing.T) {
	r := newRig(t, tso)
	g := r.dial(linuxSyn)
	var hog pending
	hog.head, hog.tail = noChunk, noChunk
	b := make([]byte, chunkSize)
	for r.tcp.pool.add(&hog, b) == len(b) {
	}
	sent := []byte(nil)
	for r.env.Drops[wire.DropPendingFull] == 0 && len(sent) < 64<<20 {
		if r.conn().rcvEdge.From(r.conn().rcvNxt) < 1460 {
			t.Fatalf("window shut before a drop: %d sent", len(sent))
		}
		x := fill(1460, byte(len(sent)>>4))
		sent = append(sent, x...)
		g.send(wire.ACK, x)
		r.turn(0)
	}
	next := uint32(r.conn().rcvNxt)
	lost := int(g.seq - next)
	if lost <= 0 || lost > 1460 {
		t.Fatalf("lost %d", lost)
	}
	r.tcp.pool.clear(&hog)
	s := g.mk(wire.ACK, sent[len(sent)-lost:])
	s.seq = next
	r.guest(s)
	r.turn(0)
	got := make(chan []byte)
	go func() { b := make([]byte, len(sent)); io.ReadFull(g.host, b); got <- b }()
	g.until("drained", func() bool { return r.conn().pend.bytes == 0 })
	if !bytes.Equal(<-got, sent) {
		t.Error("data differ")
	}
}

func TestPool_AddDropVectors_KeepOrder(t *testing.T) {
	var p pool
	p.init()
	q := pending{head: noChunk, tail: noChunk}
	var want, got []byte
	v := make([]sys.Iovec, 8)
	for k := range 200 {
		b := fill(1000*(k%70)+1, byte(k))
		if n := p.add(&q, b); n != len(b) {
			t.Fatal("full")
		}
		want = append(want, b...)
		for q.bytes > 100_000 {
			n := p.vectors(&q, v)
			take := min(50_000, int(q.bytes))
			var all []byte
			for _, x := range v[:n] {
				all = append(all, x.Bytes()...)
			}
			got = append(got, all[:take]...)
			p.drop(&q, take)
		}
	}
	n := p.vectors(&q, v)
	for _, x := range v[:n] {
		got = append(got, x.Bytes()...)
	}
	p.drop(&q, int(q.bytes))
	if !bytes.Equal(got, want) || p.used != 0 || q.head != noChunk {
		t.Errorf("%d of %d bytes, %d chunks used", len(got), len(want), p.used)
	}
	p.high = numChunks
	p.mem[len(p.mem)-1] = 7
	p.rest(5000)
	if p.mem[len(p.mem)-1] != 0 || p.high != keepChunk {
		t.Error("pages not given back")
	}
}

func TestSeq_Wraps(t *testing.T) {
	for _, c := range []struct {
		a, b Seq
		less bool
	}{{0, 1, true}, {1, 0, false}, {0xffffffff, 0, true}, {0, 0x7fffffff, true}, {0x7fffffff, 0, false}, {5, 5, false}} {
		if c.a.Less(c.b) != c.less || c.a.Leq(c.b) != (c.less || c.a == c.b) {
			t.Errorf("%#x, %#x", c.a, c.b)
		}
	}
}

// The transition table: every state is reached, named, and left by EvClose.
func TestStates_Walk(t *testing.T) {
	reached := [numStates]bool{}
	var walk func(s State)
	walk = func(s State) {
		if reached[s] {
			return
		}
		reached[s] = true
		for e := range numEvents {
			if n := next[s][e]; n != StateClosed {
				walk(n)
			}
		}
	}
	walk(StateClosed)
	for s := range numStates {
		if !reached[s] || s.String() == "" || next[s][EvClose] != StateClosed {
			t.Errorf("state %d %q: reached %v", s, s, reached[s])
		}
	}
	for e := range numEvents {
		if e.String() == "" {
			t.Errorf("event %d has no name", e)
		}
	}
}

// check 34: nothing is allocated in either direction.
func TestForwarding_SteadyState_NoAllocation(t *testing.T) {
	for _, feat := range []bool{true, false} {
		r := newRig(t, tso)
		r.link.feat.TSO, r.link.feat.Csum = feat, feat
		g := r.dial(linuxSyn)
		r.link.mute = true
		buf := make([]byte, 4000)
		run := []wire.Packet{r.packet(g.mk(wire.ACK, fill(1000, 1)))}
		hdr := run[0].L4
		n := testing.AllocsPerRun(200, func() {
			// The guest sends, acknowledging everything; the host reads and answers.
			be.PutUint32(hdr[4:], g.seq)
			be.PutUint32(hdr[8:], uint32(r.conn().sndMax))
			g.seq += 1000
			r.tcp.FromGuest(run)
			r.tcp.EndTurn()
			if _, err := io.ReadFull(g.host, buf[:1000]); err != nil {
				t.Fatal(err)
			}
			if _, err := g.host.Write(buf); err != nil {
				t.Fatal(err)
			}
			k, _ := sys.EpollWait(r.env.Ep, r.evs, 100, false)
			for _, ev := range r.evs[:k] {
				r.tcp.Event(flow.Index(ev.Tag[0]>>1), int(ev.Tag[0]&1), ev.Events)
			}
			r.tcp.EndTurn()
			r.env.EndTurn()
		})
		if n != 0 {
			t.Errorf("offload %v: %v allocations", feat, n)
		}
	}
}
