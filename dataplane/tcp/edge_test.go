// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"bytes"
	"io"
	"testing"

	"passt/dataplane/flow"
	"passt/dataplane/link"
	"passt/dataplane/wire"
	"passt/internal/sys"
)

// A FIN that just does not fit the window is taken with it; what the guest says afterwards lies one beyond, and counts.
func TestFIN_AtTheRightEdge_TakenAndLaterAcksCount(t *testing.T) {
	r := newRig(t, tso)
	g := r.dial(linuxSyn)
	n := int(r.conn().rcvEdge.From(r.conn().rcvNxt))
	big := fill(n, 1)
	half := n / 2
	a, b := g.mk(wire.ACK, big[:half]), g.mk(wire.ACK|wire.FIN, big[half:])
	b.seq += uint32(half)
	r.guest(a, b)
	r.turn(0)
	g.seq += uint32(n) + 1
	for _, s := range r.take() {
		if e := Seq(s.ack).Add(int(s.win) << ourShift); s.ack != g.seq || r.conn().rcvEdge.Less(e) {
			t.Errorf("after FIN: %+v", s)
		}
	}
	got := g.hostReads(n)
	if !bytes.Equal(got, big) {
		t.Error("data differ")
	}
	g.hostWrites(fill(1000, 2))
	g.waitBytes(1000)
	r.take()
	g.ackd += 1000
	g.send(wire.ACK, nil)
	r.turn(0)
	if r.conn().outstanding() {
		t.Error("acknowledgement ignored")
	}
	g.host.CloseWrite()
	g.until("FIN", func() bool { return len(r.out) > 0 })
	r.one("FIN", wire.FIN|wire.ACK)
	g.ackd++
	g.send(wire.ACK, nil)
	r.turn(0)
	if !r.gone() {
		t.Error("flow left")
	}
}

// B016: a keep-alive, with or without its byte of junk, is answered, its window counts, and it is no duplicate ACK.
func TestKeepAlive_NewWindow_CountsAndNoRetransmission(t *testing.T) {
	for _, n := range []int{0, 1} {
		r := newRig(t, tso)
		g := r.dial(linuxSyn)
		g.win = 8 // 1024 bytes
		g.send(wire.ACK, nil)
		g.hostWrites(fill(3000, 1))
		g.waitBytes(1024)
		r.settle()
		r.take()
		k := g.mk(wire.ACK, make([]byte, n))
		k.seq--
		r.guest(k)
		r.turn(0)
		if s := r.one("keep-alive", wire.ACK); s.ack != g.seq || len(s.data) != 0 {
			t.Errorf("%d bytes: got %+v", n, s)
		}
		k.win = 502
		r.guest(k)
		r.settle()
		if o := r.take(); len(payload(o)) != 3000-1024 || o[0].seq != g.ackd+1024 {
			t.Errorf("%d bytes: %d segments, %d bytes", n, len(o), len(payload(o)))
		}
		if string(readSome(g)) != "" {
			t.Error("junk byte reached the host")
		}
	}
}

func readSome(g *guestTCP) []byte {
	g.send(wire.ACK|wire.FIN, nil)
	g.turn(0)
	b, _ := io.ReadAll(g.host)
	return b
}

// The same for the probe of a guest whose peer's window is shut: it carries the guest's own window.
func TestKeepAlive_ReopensZeroWindow(t *testing.T) {
	r := newRig(t, tso)
	g := r.dial(linuxSyn)
	g.win = 0
	g.send(wire.ACK, nil)
	g.hostWrites(fill(3000, 1))
	r.settle()
	r.none("window shut")
	k := g.mk(wire.ACK, nil)
	k.seq, k.win = k.seq-1, 502
	r.guest(k)
	r.settle()
	if o := r.take(); len(payload(o)) != 3000 {
		t.Errorf("got %+v", o)
	}
}

// The pool runs low: little is invited, but no connection waits for its guest's timer because the step is thought too small.
func TestWindow_PoolLow_StillOpens(t *testing.T) {
	for _, mtu := range []int{1500, 65520} {
		r := newRig(t, tso, func(f *flow.Config) { f.MTU = mtu })
		g := r.dial(linuxSyn)
		hog := pending{head: noChunk, tail: noChunk}
		for !r.tcp.pool.low() {
			r.tcp.pool.add(&hog, make([]byte, chunkSize))
		}
		edge := r0(g)
		b := fill(1400, 1)
		for k := range 200 {
			if int(int32(edge-g.seq)) < len(b) {
				t.Fatalf("MTU %d: window of %d after %d segments", mtu, int32(edge-g.seq), k)
			}
			g.send(wire.ACK, b)
			r.turn(0)
			for _, s := range r.take() {
				if e := s.ack + uint32(s.win)<<ourShift; int32(e-edge) > 0 {
					edge = e
				}
			}
			g.hostReads(len(b))
		}
		if left := r.conn().rcvEdge.From(r.conn().rcvNxt); left > lowCap {
			t.Errorf("MTU %d: %d bytes invited while the pool is low", mtu, left)
		}
		r.tcp.pool.clear(&hog)
	}
}

// stalled is one of several guests' connections whose host does not read.
type stalled struct {
	*guestTCP
	i        flow.Index
	data     []byte
	next     int // bytes that are acknowledged
	edge     int // bytes that the window invites
	sp, dp   uint16
	base     uint32
	progress bool
}

// play sends one segment from what is acknowledged on: what found no room is sent again.
func (c *stalled) play() {
	c.sport, c.dport = c.sp, c.dp
	if n := min(1460, len(c.data)-c.next, c.edge-c.next); n > 0 {
		c.seq = c.base + uint32(c.next)
		c.send(wire.ACK, c.data[c.next:c.next+n])
	}
	c.turn(0)
}

// hear takes one segment to this guest.
func (c *stalled) hear(s seg) {
	a := int(int32(s.ack - c.base))
	if e := a + int(s.win)<<ourShift; e <= c.edge-1<<ourShift || a < c.next {
		c.t.Fatalf("acknowledgement back from %d to %d, or edge from %d to %d", c.next, a, c.edge, e)
	} else {
		c.progress = c.progress || a > c.next || e > c.edge
		c.edge, c.next = max(c.edge, e), a
	}
}

// Many stalled connections exhaust the pool; each keeps its order, nothing is lost for good, and all of it comes back.
func TestPool_ManyStalledConnections_NothingLeaks(t *testing.T) {
	r := newRig(t, tso)
	var cs []*stalled
	hog := pending{head: noChunk, tail: noChunk}
	for r.tcp.pool.used < numChunks-3 {
		r.tcp.pool.add(&hog, make([]byte, chunkSize))
	}
	for k := range 4 {
		r.sport = uint16(41000 + k)
		g := r.dial(linuxSyn)
		_ = sys.SetsockoptInt(r.tcp.fd(flow.Index(k)), 1, 7, 32<<10) // SO_SNDBUF
		_ = g.host.SetReadBuffer(128 << 10)
		cs = append(cs, &stalled{guestTCP: g, i: flow.Index(k), data: fill(4<<20, byte(k)), edge: 65535, sp: r.sport, dp: r.dport, base: g.seq})
	}
	r.link.got = func(b []byte, v wire.Vnet) { // of any of them
		var p wire.Packet
		if d := p.Parse(b, &wire.Vnet{}); d != wire.DropNone {
			t.Fatalf("frame to guest: %v", d)
		}
		r.sport, r.dport = p.DstPort, p.SrcPort
		r.frame(b, v)
		cs[p.DstPort-41000].hear(r.out[len(r.out)-1])
	}
	for idle := 0; idle < 50; idle++ {
		for _, c := range cs {
			if c.play(); c.progress {
				c.progress, idle = false, 0
			}
		}
	}
	if r.env.Drops[wire.DropPendingFull] == 0 {
		t.Fatal("the pool was not exhausted")
	}
	r.tcp.pool.clear(&hog)
	for _, c := range cs {
		got := make(chan []byte)
		want := c.next
		go func() { b := make([]byte, want); n, _ := io.ReadFull(c.host, b); got <- b[:n] }()
		r.until("drained", func() bool { return r.tcp.conns[c.i].pend.bytes == 0 })
		if b := <-got; !bytes.Equal(b, c.data[:want]) {
			t.Errorf("connection %d: %d of %d bytes, or other ones", c.i, len(b), want)
		}
		r.sport, r.dport = c.sp, c.dp
		r.guest(seg{flags: wire.RST, seq: uint32(r.tcp.conns[c.i].rcvNxt)})
		r.turn(0)
	}
	if r.tcp.pool.used != 0 || r.tcp.credit != 0 || !r.gone() {
		t.Errorf("%d chunks, credit %d, %d flows left", r.tcp.pool.used, r.tcp.credit, r.env.Table.Used())
	}
}

// A reset while data is pending and the window is grown gives everything back.
func TestEnd_PendingAndGrown_AllGivenBack(t *testing.T) {
	r := newRig(t, tso)
	g := r.dial(linuxSyn)
	g.stuff(t)
	if r.tcp.pool.used == 0 {
		t.Fatal("nothing pending")
	}
	r.tcp.setCap(r.conn(), maxCap)
	r.guest(seg{flags: wire.RST, seq: g.seq})
	r.turn(0)
	if r.tcp.pool.used != 0 || r.tcp.credit != 0 || !r.gone() {
		t.Errorf("%d chunks, credit %d", r.tcp.pool.used, r.tcp.credit)
	}
}

// B024: whatever the MTU and the MSS that the guest claims, no packet is longer than IP can tell and no segment than the link takes.
func TestToGuest_MTUSweep_FramesFit(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		for mtu := 1280; mtu <= 65535; mtu += 4007 {
			for _, mss := range []int{100, mtu - 40, 65535} {
				for _, f := range []link.Features{tso, plain} {
					sweep(t, v6, mtu, mss, f)
				}
			}
		}
		for mtu := 65000; mtu <= 65535; mtu += 107 {
			sweep(t, v6, mtu, mtu-40, tso)
			sweep(t, v6, mtu, 65535, plain)
		}
	}
}

func sweep(t *testing.T, v6 bool, mtu, mss int, f link.Features) {
	t.Helper()
	r := newRig(t, f, func(c *flow.Config) { c.MTU = mtu })
	r.v6 = v6
	longest, gso := 0, 0
	r.link.got = func(b []byte, v wire.Vnet) {
		longest, gso = max(longest, len(b)-wire.EthSize), max(gso, int(v.GSOSize))
		r.frame(b, v)
	}
	g := r.dial([]byte{2, 4, byte(mss >> 8), byte(mss), 1, 3, 3, 7})
	g.win = 4000
	g.send(wire.ACK, nil)
	g.hostWrites(fill(150_000, 1))
	head := 40
	if v6 {
		head = 60
	}
	var got []byte
	for len(got) < 150_000 {
		r.until("data", func() bool { return len(r.out) > 0 })
		o := r.take()
		for _, s := range o {
			if len(s.data)+head > mtu {
				t.Fatalf("v6 %v, MTU %d, MSS %d: segment of %d bytes", v6, mtu, mss, len(s.data))
			}
		}
		got = append(got, payload(o)...)
		g.ackd += uint32(len(payload(o)))
		g.send(wire.ACK, nil)
	}
	if longest > 65535 || gso+head > mtu || !f.TSO && longest > mtu {
		t.Errorf("v6 %v, MTU %d, MSS %d: packet of %d, GSO %d", v6, mtu, mss, longest, gso)
	}
	if !bytes.Equal(got, fill(150_000, 1)) {
		t.Error("data differ")
	}
}

// A window that is no multiple of the MSS is used in whole segments while more data waits (RFC 9293 s.3.8.6.2.1).
func TestToGuest_OddWindow_WholeSegments(t *testing.T) {
	for _, f := range []link.Features{tso, plain} {
		r := newRig(t, f)
		g := r.dial(nil)
		g.win = 2000
		g.send(wire.ACK, nil)
		g.hostWrites(fill(10_000, 9))
		g.waitBytes(3 * 536)
		r.settle()
		for _, s := range r.take() {
			if len(s.data) != 536 {
				t.Errorf("TSO %v: segment of %d bytes", f.TSO, len(s.data))
			}
		}
	}
}
