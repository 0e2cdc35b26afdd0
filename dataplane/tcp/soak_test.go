// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"passt/dataplane/flow"
	"passt/dataplane/link"
	"passt/dataplane/wire"
	"passt/internal/sys"
)

// peer is a guest's TCP at its simplest, on a bad wire: it loses, repeats and reorders segments, and shuts its window.
type peer struct {
	*guestTCP
	l          *tapLink
	rnd        *rand.Rand
	loss       int // of 100
	shift      uint
	out        []byte // stream to the host
	una        int    // bytes of it that are acknowledged; FIN is byte len(out)
	sent       int
	most       int // highest that was sent
	edge       int // bytes of it that the window invites
	got        []byte
	room       int // of its receive window
	promised   int // highest right edge that it told
	fin        bool
	lastMs     int64 // of progress
	base, peer uint32
}

func (p *peer) lost() bool { return p.rnd.IntN(100) < p.loss }

// hear takes what came to the guest.
func (p *peer) hear() bool {
	news := false
	for _, s := range p.take() {
		if s.flags&wire.RST != 0 {
			p.t.Fatalf("reset with %d of %d bytes acknowledged, %d received: %+v", p.una, len(p.out), len(p.got), s)
		}
		a := int(int32(s.ack - p.base))
		e := a + int(s.win)<<p.shift
		if a > p.most {
			p.t.Fatalf("acknowledges %d bytes of %d sent", a, p.sent)
		}
		if e < p.edge-1<<p.shift && a <= len(p.out) {
			p.t.Fatalf("right edge goes back from %d to %d", p.edge, e)
		}
		p.edge = max(p.edge, e)
		if a > p.una {
			p.una, p.sent, p.lastMs = a, max(a, p.sent), p.env.NowMs
		}
		d := int(int32(s.seq - p.peer))
		if d+len(s.data) > max(p.promised, len(p.got)+1) {
			p.t.Fatalf("%d bytes at %d go beyond %d, %d received", len(s.data), d, p.promised, len(p.got))
		}
		if len(s.data) > 0 || s.flags&wire.FIN != 0 || s.flags&wire.SYN != 0 {
			news = true
		}
		if p.lost() || p.room == 0 || d > len(p.got) {
			continue
		}
		if d+len(s.data) > len(p.got) {
			p.got = append(p.got, s.data[len(p.got)-d:]...)
		}
		if s.flags&wire.FIN != 0 && d+len(s.data) == len(p.got) {
			p.fin = true
		}
	}
	return news
}

func (p *peer) segment(from, n int) seg {
	flags := uint8(wire.ACK)
	if n > 0 && from+n > len(p.out) {
		flags, n = flags|wire.FIN, len(p.out)-from
	}
	p.promised = max(p.promised, len(p.got)+p.room)
	ack := p.peer + uint32(len(p.got))
	if p.fin {
		ack++
	}
	return seg{flags: flags, seq: p.base + uint32(from), ack: ack, win: uint16(p.room >> p.shift), data: p.out[min(from, len(p.out)):][:n]}
}

// speak sends some segments, new ones or, after a while without progress, from the first that is not acknowledged.
func (p *peer) speak(news bool) {
	if p.env.NowMs-p.lastMs > 300 {
		p.sent, p.lastMs = min(p.sent, p.una), p.env.NowMs
		news = true
		if p.edge <= p.sent && p.sent < len(p.out) {
			p.edge = p.sent + 1 // a probe
		}
	}
	var run []seg
	for k := p.rnd.IntN(12); k > 0; k-- {
		end := min(p.edge, len(p.out))
		if p.edge >= len(p.out) {
			end++ // FIN
		}
		n := min(end-p.sent, 1+p.rnd.IntN(3000))
		if n <= 0 {
			break
		}
		run = append(run, p.segment(p.sent, n))
		p.sent += n
		p.most = max(p.most, p.sent)
	}
	if len(run) == 0 && news {
		run = append(run, p.segment(p.most, 0))
	}
	if len(run) > 1 && p.loss > 0 && p.rnd.IntN(4) == 0 {
		p.rnd.Shuffle(len(run), func(a, b int) { run[a], run[b] = run[b], run[a] })
	}
	kept := run[:0]
	for _, s := range run {
		if !p.lost() {
			kept = append(kept, s)
		}
	}
	if len(kept) > 0 {
		p.guest(kept...)
	}
}

// trouble changes the guest's window and the link's mood.
func (p *peer) trouble(k int) {
	switch p.rnd.IntN(12) {
	case 0:
		p.room = 0
	case 1:
		p.room = (100 + p.rnd.IntN(1000)) >> p.shift << p.shift
	case 2, 3, 4:
		p.room = 60_000 >> p.shift << p.shift
	}
	p.l.stuck, p.l.atMost = p.rnd.IntN(6) == 0, p.rnd.IntN(3)
	if k%3 == 0 {
		p.l.stuck, p.l.atMost = false, 0
		p.tcp.LinkReady()
	}
}

// Whatever the wire does, both streams arrive whole and in order, both ends come through, and the flow goes: no wake-up is lost.
func TestSoak_BadWire_BothStreamsComplete(t *testing.T) {
	for seed := range 7 {
		for _, loss := range []int{0, 5, 25} {
			t.Run(fmt.Sprint(seed, loss), func(t *testing.T) { soak(t, uint64(seed), loss) })
		}
	}
}

func soak(t *testing.T, seed uint64, loss int) {
	most := 300_000 / (1 + loss/4)
	rnd := rand.New(rand.NewPCG(seed, uint64(loss)))
	r := newRig(t, []link.Features{tso, plain}[seed%2], func(c *flow.Config) { c.NoPeekOffset = seed%3 == 0 })
	l := r.tap()
	opts := linuxSyn
	p := &peer{l: l, rnd: rnd, loss: loss, shift: 8, out: fill(rnd.IntN(most), 1), room: 60_000}
	if seed%4 == 3 {
		opts, p.shift = linuxSyn[:4], 0
	} else {
		opts = []byte{2, 4, 0x05, 0xb4, 1, 3, 3, 8}
	}
	p.guestTCP = r.dial(opts)
	p.base, p.peer, p.lastMs, p.edge = p.seq, p.ackd, r.env.NowMs, 65535
	p.win = 235
	r.guest(p.segment(0, 0))
	if seed%2 == 0 {
		_ = sys.SetsockoptInt(r.tcp.fd(0), 1, 7, 64<<10) // SO_SNDBUF
		_ = p.host.SetReadBuffer(32 << 10)
	}
	want := fill(rnd.IntN(most), 2)
	wrote, read := p.hostSide(want)
	start := time.Now()
	for k := 0; !r.gone(); k++ {
		if loss > 0 || seed%2 == 1 {
			p.trouble(k)
		}
		news := p.hear()
		if r.gone() {
			break
		}
		p.speak(news)
		ms := 0
		if !news {
			ms = 1 // the host's kernel and reader need real time
		}
		r.turn(ms)
		r.pass(int64(rnd.IntN(20)))
		if time.Since(start) > 8*time.Second {
			t.Fatalf("stuck: %d of %d acknowledged, %d sent, window to %d; %d of %d received, FIN %v, room %d; drops %v\n%+v",
				p.una, len(p.out), p.sent, p.edge, len(p.got), len(want), p.fin, p.room, r.drops(), r.tcp.conns[0])
		}
	}
	if err := <-wrote; err != nil {
		t.Error(err)
	}
	if b := <-read; !bytes.Equal(b, p.out) {
		t.Errorf("host read %d of %d bytes, or other ones", len(b), len(p.out))
	}
	if !bytes.Equal(p.got, want) {
		t.Errorf("guest got %d of %d bytes, or other ones", len(p.got), len(want))
	}
	if r.tcp.pool.used != 0 || r.tcp.credit != 0 {
		t.Errorf("%d chunks, credit %d left", r.tcp.pool.used, r.tcp.credit)
	}
}

// hostSide writes and ends, and reads to the end in small pieces, both at once.
func (p *peer) hostSide(want []byte) (wrote chan error, read chan []byte) {
	wrote, read = make(chan error, 1), make(chan []byte, 1)
	go func() {
		_, err := p.host.Write(want)
		p.host.CloseWrite()
		wrote <- err
	}()
	go func() {
		var all []byte
		b := make([]byte, 4096)
		for {
			n, err := p.host.Read(b)
			all = append(all, b[:n]...)
			if err != nil {
				if err != io.EOF {
					all = append(all, err.Error()...)
				}
				read <- all
				return
			}
		}
	}()
	return wrote, read
}
