// SPDX-License-Identifier: Apache-2.0

package splice

import (
	"io"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"passt/dataplane/flow"
	"passt/dataplane/fwd"
	"passt/dataplane/wire"
	"passt/internal/sys"
)

// loop stands in for worker and brokers: it runs one Splice on its own goroutine between a listener and a target.
type loop struct {
	t     testing.TB
	env   *flow.Env
	s     *Splice
	ln    *net.TCPListener // clients connect here
	fd    sys.FD
	stop  chan struct{}
	done  chan struct{}
	do    chan func()
	turns int
	late  bool // give connecting sockets as they are, never "connected"
	noPip bool
	pipes int
	evs   [64]sys.PollEvent
	fire  func(flow.Index)
	run   func(flow.Index)
	turn  func() // before each turn's end; may be nil
}

var lo = wire.Addr4(127, 0, 0, 1)

func newLoop(t testing.TB, targetPort int, force choice) *loop {
	t.Helper()
	return newLoopAt(t, 0, targetPort, force)
}

func newLoopAt(t testing.TB, at, targetPort int, force choice) *loop {
	t.Helper()
	ln, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: at})
	if err != nil {
		t.Fatal(err)
	}
	f, err := ln.File()
	if err != nil {
		t.Fatal(err)
	}
	port := uint16(ln.Addr().(*net.TCPAddr).Port)
	lfd := int(f.Fd())
	_ = syscall.SetNonblock(lfd, true) // Fd has just made it blocking
	l := &loop{t: t, ln: ln, fd: sys.FD(lfd), stop: make(chan struct{}), done: make(chan struct{}), do: make(chan func(), 16)}
	l.env = flow.NewEnv(flow.NewTable(4096, [16]byte{1}), sys.NowNs())
	l.env.Fwd = &fwd.Config{Splice: true, HostLoToNsLo: true, TCP: true}
	l.env.HostRules = []fwd.Rule{{Proto: fwd.ProtoTCP, First: port, Last: port, To: uint16(targetPort)}}
	l.env.NsRules = l.env.HostRules
	ep, e := sys.EpollCreate()
	if e != 0 {
		t.Fatal(e)
	}
	l.env.Ep = ep
	l.s = New(l.env)
	l.s.force = force
	if e := sys.EpollAdd(ep, l.fd, sys.PollIn, flow.Tag(flow.PollListen, 0, 0)); e != 0 {
		t.Fatal(e)
	}
	l.fire, l.run = l.s.Timer, l.s.Again
	go func() {
		defer close(l.done)
		for {
			select {
			case <-l.stop:
				return
			case f := <-l.do:
				f()
			default:
			}
			l.once(20)
		}
	}()
	t.Cleanup(func() {
		select {
		case <-l.stop:
		default:
			close(l.stop)
		}
		<-l.done
		f.Close()
		ln.Close()
		sys.Close(ep)
	})
	return l
}

func (l *loop) addr() string { return l.ln.Addr().String() }

// ask runs f on the loop's goroutine.
func (l *loop) ask(f func()) {
	done := make(chan struct{})
	l.do <- func() { f(); close(done) }
	<-done
}

func (l *loop) once(ms int) int {
	if l.env.Pending() {
		ms = 0
	}
	n, e := sys.EpollWait(l.env.Ep, l.evs[:], ms, true)
	if e != 0 {
		l.t.Error(e)
	}
	l.handle(n)
	return n
}

// handle is one turn of the loop with n events.
func (l *loop) handle(n int) {
	if n > 0 || l.env.Pending() {
		l.turns++
	}
	l.env.NowNs = sys.NowNs()
	l.env.NowMs = l.env.NowNs / 1e6
	l.env.RunAgain(l.run)
	for k := range n {
		tag := l.evs[k].Data()
		if flow.PollKind(tag>>56) == flow.PollListen {
			l.accept()
			continue
		}
		index, gen := uint32(tag), uint32(tag>>32)&flow.GenMask
		if l.env.Table.Live(flow.Index(index>>1), gen) != nil {
			l.s.Event(flow.Index(index>>1), int(index&1), l.evs[k].Events)
		}
	}
	if l.turn != nil {
		l.turn()
	}
	l.s.EndTurn()
	l.env.RunTimers(l.fire)
	l.env.EndTurn()
	q := l.env.TakeRequests()
	for k := range q {
		o, gen := l.broker(&q[k]), q[k].Gen()
		if l.env.Table.Live(o.Flow, gen) == nil {
			sys.Close(o.FD)
			sys.Close(o.FD2)
			continue
		}
		l.s.Opened(&o)
	}
}

func (l *loop) accept() {
	for {
		fd, from, e := sys.Accept(l.fd)
		if e != 0 {
			return
		}
		to, _ := sys.LocalAddr(fd)
		p, pp, _ := from.Get()
		o, op, _ := to.Get()
		l.s.Accept(&flow.Listener{Pif: fwd.PifHost}, fd, p, o, pp, op)
	}
}

func (l *loop) broker(q *flow.Request) flow.Opened {
	o := flow.Opened{Flow: q.Flow, Slot: q.Slot, FD: sys.NoFD, FD2: sys.NoFD}
	if q.Op == flow.OpPipe {
		if l.noPip {
			o.Errno = sys.EMFILE
			return o
		}
		l.pipes++
		o.FD, o.FD2, o.Errno = sys.Pipe(1 << 20)
		return o
	}
	fd, e := sys.Socket(sys.AFInet, sys.SockStream, 0)
	if e != 0 {
		o.Errno = e
		return o
	}
	_ = sys.OptNoDelay.Set(fd, 1)
	sa := sys.MakeSockAddr4(q.Dst.V4(), q.DstPort)
	if e := sys.Connect(fd, &sa); e != 0 && e != sys.EINPROGRESS {
		sys.Close(fd)
		o.Errno = e
		return o
	}
	state, _ := sys.TCPState(fd)
	if !l.late && state == sys.TCPClose {
		sys.Close(fd)
		o.Errno = sys.ECONNREFUSED
		return o
	}
	o.FD, o.Connected = fd, !l.late && state == sys.TCPEstablished
	return o
}

// server listens on loopback and gives each connection to f.
func server(t testing.TB, f func(*net.TCPConn)) (port int, close func()) {
	t.Helper()
	ln, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.AcceptTCP()
			if err != nil {
				return
			}
			go f(c)
		}
	}()
	return ln.Addr().(*net.TCPAddr).Port, func() { ln.Close() }
}

func dial(t testing.TB, addr string) *net.TCPConn {
	t.Helper()
	c, err := net.DialTCP("tcp4", nil, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(addr)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	return c
}

// until waits for a condition on the loop.
func (l *loop) until(what string, f func() bool) {
	l.t.Helper()
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); {
		ok := false
		l.ask(func() { ok = f() })
		if ok {
			return
		}
	}
	l.t.Fatal("never: " + what)
}

func readAll(t testing.TB, c io.Reader) []byte {
	t.Helper()
	b, err := io.ReadAll(c)
	if err != nil {
		t.Fatalf("after %d bytes: %v", len(b), err)
	}
	return b
}
