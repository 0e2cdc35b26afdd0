// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"passt/dataplane/flow"
	"passt/dataplane/fwd"
	"passt/dataplane/wire"
	"passt/internal/sys"
)

// server listens on the host's loopback.
func (r *rig) server() net.Listener {
	a := "127.0.0.1:0"
	if r.v6 {
		a = "[::1]:0"
	}
	l, err := net.Listen("tcp", a)
	if err != nil {
		r.t.Skipf("no listener on %s: %v", a, err)
	}
	r.t.Cleanup(func() { l.Close() })
	r.dport = uint16(l.Addr().(*net.TCPAddr).Port)
	return l
}

func accept(t testing.TB, l net.Listener) *net.TCPConn {
	t.Helper()
	_ = l.(*net.TCPListener).SetDeadline(time.Now().Add(5 * time.Second))
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	return c.(*net.TCPConn)
}

var linuxSyn = []byte{2, 4, 0x05, 0xb4, 1, 3, 3, 7} // MSS 1460, shift 7

// guestTCP is an established connection seen from the guest.
type guestTCP struct {
	*rig
	host *net.TCPConn
	seq  uint32 // next of ours
	ackd uint32 // next expected
	win  uint16
}

// dial makes a connection from the guest, established.
func (r *rig) dial(opts []byte) *guestTCP {
	r.t.Helper()
	l := r.server()
	r.guest(seg{flags: wire.SYN, seq: guestISN, win: 64240, opts: opts})
	r.until("SYN,ACK", func() bool { return len(r.out) > 0 })
	s := r.one("answer to SYN", wire.SYN|wire.ACK)
	g := &guestTCP{rig: r, host: accept(r.t, l), seq: guestISN + 1, ackd: s.seq + 1, win: 502}
	g.send(wire.ACK, nil)
	r.turn(0)
	r.none("handshake's end")
	return g
}

// mk builds a segment in sequence, without moving it.
func (g *guestTCP) mk(flags uint8, data []byte) seg {
	return seg{flags: flags, seq: g.seq, ack: g.ackd, win: g.win, data: data}
}

// send sends one segment and moves the sequence.
func (g *guestTCP) send(flags uint8, data []byte) {
	s := g.mk(flags, data)
	g.seq += uint32(len(data))
	if flags&(wire.FIN|wire.SYN) != 0 {
		g.seq++
	}
	g.guest(s)
}

// hostWrites writes on the host side and waits until n bytes have come to the guest.
func (g *guestTCP) hostWrites(b []byte) {
	g.t.Helper()
	if _, err := g.host.Write(b); err != nil {
		g.t.Fatal(err)
	}
}

func payload(o []seg) (b []byte) {
	for _, s := range o {
		b = append(b, s.data...)
	}
	return b
}

func (g *guestTCP) waitBytes(n int) {
	g.t.Helper()
	g.until("data", func() bool { return len(payload(g.out)) >= n })
}

func (g *guestTCP) hostReads(n int) []byte {
	g.t.Helper()
	b := make([]byte, n)
	if _, err := io.ReadFull(g.host, b); err != nil {
		g.t.Fatal(err)
	}
	return b
}

func fill(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i>>8)*31 + byte(i)*7 + seed
	}
	return b
}

// inbound makes a connection of a host's client, up to our SYN.
func (r *rig) inbound() (*net.TCPConn, seg) {
	r.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Skip(err)
	}
	r.t.Cleanup(func() { l.Close() })
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	a, err := l.Accept()
	if err != nil {
		r.t.Fatal(err)
	}
	f, err := a.(*net.TCPConn).File() // a second descriptor of the same socket
	if err != nil {
		r.t.Fatal(err)
	}
	fd, err := syscall.Dup(int(f.Fd()))
	if err != nil {
		r.t.Fatal(err)
	}
	f.Close()
	a.Close()
	_ = syscall.SetNonblock(fd, true)
	cport := uint16(c.LocalAddr().(*net.TCPAddr).Port)
	hport := uint16(l.Addr().(*net.TCPAddr).Port)
	r.env.HostRules = []fwd.Rule{{First: hport, Last: hport, To: 80, Proto: fwd.ProtoTCP}}
	r.dport, r.sport = cport, 80
	r.tcp.Accept(&flow.Listener{Pif: fwd.PifHost, Port: hport}, sys.FD(fd), wire.Addr4(127, 0, 0, 1), wire.Addr4(127, 0, 0, 1), cport, hport)
	r.turn(0)
	return c.(*net.TCPConn), r.one("SYN", wire.SYN)
}
