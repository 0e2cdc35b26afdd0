// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"syscall"
	"testing"

	"passt/dataplane/flow"
	"passt/dataplane/wire"
)

// world is one connection under fuzz: byte n of either direction has a value that follows from n.
type world struct {
	*guestTCP
	c       *conn
	fd      int
	toGuest []bool // bytes of the host that the guest has got
	read    int    // bytes that the host has read
	edge    Seq
	acked   uint32
	ended   bool
}

func at(n int) byte { return byte(n*167 + n>>8) }

func stream(from, n int) []byte {
	b := make([]byte, n)
	for k := range b {
		b[k] = at(from + k)
	}
	return b
}

func newWorld(t *testing.T, noPeek bool) *world {
	r := newRig(t, tso, func(f *flow.Config) { f.NoPeekOffset = noPeek })
	g := r.dial(linuxSyn)
	raw, err := g.host.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{guestTCP: g, c: r.conn(), toGuest: make([]bool, 20_000)}
	_ = raw.Control(func(fd uintptr) { w.fd = int(fd) })
	if _, err := g.host.Write(stream(0, len(w.toGuest))); err != nil {
		t.Fatal(err)
	}
	w.edge = w.c.rcvEdge
	w.acked = g.seq
	return w
}

// drain reads what is there and compares it with the stream.
func (w *world) drain() {
	var b [65536]byte
	for {
		n, err := syscall.Read(w.fd, b[:])
		if n <= 0 || err != nil {
			return
		}
		for k := range n {
			if b[k] != at(w.read+k) {
				w.t.Fatalf("byte %d reaches the host wrong", w.read+k)
			}
		}
		w.read += n
	}
}

// check looks at what came to the guest and at the connection.
func (w *world) check() {
	t, c := w.t, w.c
	told := c.rcvNxt // the highest right edge that the segments tell
	for _, s := range w.take() {
		if s.flags&wire.RST != 0 {
			w.ended = true
			continue
		}
		if s.flags&wire.ACK == 0 || int32(s.ack-w.acked) < 0 {
			t.Fatalf("acknowledgement back from %d: %+v", w.acked, s)
		}
		w.acked = s.ack
		if e := Seq(s.ack).Add(int(s.win) << ourShift); told.Less(e) {
			told = e
		}
		from := int(s.seq - uint32(c.iss) - 1)
		for k, x := range s.data {
			if from+k >= len(w.toGuest) || x != at(from+k) {
				t.Fatalf("byte %d reaches the guest wrong", from+k)
			}
			w.toGuest[from+k] = true
		}
	}
	if c.state != StateOpen {
		w.ended = true
	}
	if w.ended {
		return
	}
	if c.rcvEdge.Less(w.edge) {
		t.Fatal("right edge moved back")
	}
	w.edge = c.rcvEdge
	if !c.rcvAcked.Leq(c.rcvNxt) || !c.rcvNxt.Leq(c.rcvEdge) || c.rcvEdge.Less(told) {
		t.Fatalf("receive side: %+v", c)
	}
	if !c.sndUna.Leq(c.sndNxt) || !c.sndNxt.Leq(c.sndMax) || int(c.sndMax-c.iss) > len(w.toGuest)+2 {
		t.Fatalf("send side: %+v", c)
	}
	if d := c.sndNxt.From(c.sndUna); d > c.sndWnd+1 && c.sndNxt == c.sndMax && d > uint32(len(w.toGuest))+1 {
		t.Fatalf("%d bytes beyond a window of %d", d, c.sndWnd)
	}
}

// step reads 6 bytes: what, where relative to the next expected number, how much, acknowledgement, window.
func (w *world) step(b []byte) seg {
	flags := []uint8{wire.ACK, wire.ACK, wire.ACK | wire.PSH, wire.ACK | wire.FIN, wire.RST, wire.SYN, wire.ACK | wire.URG, 0}[b[0]&7]
	irs := uint32(guestISN + 1)
	seq := uint32(w.c.rcvNxt)
	switch b[0] >> 6 {
	case 1:
		seq += uint32(int8(b[1])) * 16
	case 2:
		seq += uint32(b[1]) << 24
	}
	n := 0
	if flags&wire.RST == 0 {
		n = int(b[2]) * 8
	}
	s := seg{flags: flags, seq: seq, win: uint16(b[5])}
	s.data = stream(int(int32(seq-irs)), n)
	s.ack = uint32(w.c.sndUna) + uint32(int8(b[3]))*64
	switch b[4] & 3 {
	case 0:
		s.ack = uint32(w.c.sndMax)
	case 1:
		s.ack = uint32(w.c.sndUna)
	}
	return s
}

// FuzzFlow plays a list of guest segments against a live connection. A FIN moves the guest's stream by one number,
// so streams are only compared up to it, and the list ends there.
func FuzzFlow(f *testing.F) {
	f.Add([]byte{0, 0, 100, 0, 0, 100, 0x40, 4, 50, 0, 1, 0, 3, 0, 9, 0, 0, 200})
	f.Add([]byte{0x40, 16, 10, 0, 0, 1, 0, 0, 16, 0, 0, 0, 4, 0, 0, 0, 0, 0})
	f.Add([]byte{8, 0, 255, 3, 2, 255, 8, 0, 255, 3, 2, 255, 0x80, 128, 1, 0, 0, 9})
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 6*64 {
			return
		}
		w := newWorld(t, len(b)%2 == 1)
		var run []seg
		for ; len(b) >= 6 && !w.ended; b = b[6:] {
			run = append(run, w.step(b))
			if b[0]&8 != 0 && len(run) < 8 && len(b) >= 12 {
				continue // more in the same run
			}
			w.guest(run...)
			run = run[:0]
			if b[0]&16 != 0 {
				w.drain()
			}
			if b[0]&32 != 0 && w.c.state == StateOpen {
				w.pass(int64(b[1]) * 20)
			}
			w.turn(0)
			w.check()
		}
		if w.ended {
			return
		}
		for range 3 {
			w.drain()
			w.turn(1)
		}
		w.drain()
		taken := int(w.c.rcvNxt.From(guestISN+1)) - int(w.c.pend.bytes)
		if w.c.has(guestFIN) {
			taken--
		}
		if w.read > taken {
			t.Fatalf("host read %d bytes of %d", w.read, taken)
		}
		w.until("rest", func() bool { w.drain(); return w.read == int(w.c.rcvNxt.From(guestISN+1))-b2i(w.c.has(guestFIN)) })
	})
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// FuzzHandshake plays segments against a connection in each state before it is open. No answer of ours acknowledges what
// was not sent, and nothing is left behind when the flow is gone.
func FuzzHandshake(f *testing.F) {
	f.Add(uint8(0), []byte{wire.ACK, 1, 1, 0})
	f.Add(uint8(1), []byte{wire.ACK | wire.FIN, 1, 1, 9})
	f.Add(uint8(2), []byte{wire.SYN | wire.ACK, 7, 1, 0})
	f.Fuzz(func(t *testing.T, start uint8, b []byte) {
		if len(b) > 4*32 {
			return
		}
		r := newRig(t, tso)
		switch start % 3 {
		case 0:
			r.server()
			r.hold = true
			r.guest(seg{flags: wire.SYN, seq: guestISN, win: 1})
		case 1:
			r.server()
			r.guest(seg{flags: wire.SYN, seq: guestISN, win: 1, opts: linuxSyn})
			r.until("SYN,ACK", func() bool { return len(r.out) > 0 })
		case 2:
			r.inbound()
		}
		c := &r.tcp.conns[0]
		for ; len(b) >= 4 && !r.gone(); b = b[4:] {
			opts := []byte(nil)
			if b[0]&0x80 != 0 {
				opts = []byte{2, 4, b[3], b[2], 3, 3, b[1], 0}
			}
			r.guest(seg{flags: b[0] & 0x3f, seq: guestISN + uint32(int8(b[1])), ack: uint32(c.iss) + uint32(int8(b[2])), win: uint16(b[3]), opts: opts, data: make([]byte, b[3]&15)})
			if b[0]&0x40 != 0 {
				r.pass(int64(b[3]) * 100)
			}
			r.turn(0)
			if c.state != StateClosed && (c.mss < minMSS || !c.sndUna.Leq(c.sndNxt) || !c.sndNxt.Leq(c.sndMax) || !c.rcvAcked.Leq(c.rcvNxt)) {
				t.Fatalf("%+v", c)
			}
		}
		if r.gone() && (r.tcp.credit != 0 || r.tcp.pool.used != 0) {
			t.Fatalf("credit %d, %d chunks", r.tcp.credit, r.tcp.pool.used)
		}
	})
}
