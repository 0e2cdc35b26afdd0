// SPDX-License-Identifier: Apache-2.0

package splice

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"passt/dataplane/flow"
)

var movers = []struct {
	name  string
	force choice
}{{"copy", chooseCopy}, {"pipe", choosePipe}}

func eachMover(t *testing.T, f func(t *testing.T, m choice)) {
	for _, m := range movers {
		t.Run(m.name, func(t *testing.T) { f(t, m.force) })
	}
}

// send writes n pseudo-random bytes, and gives their hash.
func send(c *net.TCPConn, n int, seed uint64) [32]byte {
	r := rand.NewChaCha8([32]byte{byte(seed)})
	h := sha256.New()
	b := make([]byte, 256<<10)
	for n > 0 {
		k := min(n, len(b))
		_, _ = r.Read(b[:k])
		h.Write(b[:k])
		if _, err := c.Write(b[:k]); err != nil {
			return [32]byte{}
		}
		n -= k
	}
	_ = c.CloseWrite()
	return [32]byte(h.Sum(nil))
}

// slowly reads to the end with pauses, and gives the hash.
func slowly(c *net.TCPConn, pause time.Duration, every int) ([32]byte, int, error) {
	h := sha256.New()
	b := make([]byte, 64<<10)
	total, since := 0, 0
	for {
		n, err := c.Read(b)
		h.Write(b[:n])
		total += n
		if since += n; since >= every {
			since = 0
			time.Sleep(pause)
		}
		if err == io.EOF {
			return [32]byte(h.Sum(nil)), total, nil
		}
		if err != nil {
			return [32]byte{}, total, err
		}
	}
}

func TestSplice_BothWaysWithSlowReaders_SameBytes(t *testing.T) {
	const size = 100 << 20
	eachMover(t, func(t *testing.T, m choice) {
		sent := make(chan [32]byte, 1)
		got := make(chan [32]byte, 1)
		port, _ := server(t, func(c *net.TCPConn) {
			defer c.Close()
			_ = c.SetReadBuffer(64 << 10) // B021
			go func() { sent <- send(c, size, 2) }()
			h, n, err := slowly(c, time.Millisecond, 1<<20)
			if n != size || err != nil {
				t.Errorf("server read %d, %v", n, err)
			}
			got <- h
			<-sent
			sent <- h
		})
		l := newLoop(t, port, m)
		c := dial(t, l.addr())
		up := make(chan [32]byte, 1)
		go func() { up <- send(c, size, 1) }()
		h, n, err := slowly(c, time.Millisecond, 1<<20)
		if n != size || err != nil {
			t.Fatalf("client read %d, %v", n, err)
		}
		if <-up != <-got {
			t.Error("client to server: bytes differ")
		}
		want := sha256.New()
		b := make([]byte, size)
		_, _ = rand.NewChaCha8([32]byte{2}).Read(b)
		want.Write(b)
		if h != [32]byte(want.Sum(nil)) {
			t.Error("server to client: bytes differ")
		}
		l.until("flow ends", func() bool { return l.s.live == 0 })
		if m == choosePipe && l.pipes == 0 {
			t.Error("no pipe was used")
		}
	})
}

func TestSplice_HalfCloseEitherWay_OtherWayGoesOn(t *testing.T) {
	eachMover(t, func(t *testing.T, m choice) {
		big := bytes.Repeat([]byte("0123456789"), 300_000)
		port, _ := server(t, func(c *net.TCPConn) {
			defer c.Close()
			b, _ := io.ReadAll(c)
			_, _ = c.Write(b)
		})
		l := newLoop(t, port, m)
		c := dial(t, l.addr())
		if _, err := c.Write(big); err != nil {
			t.Fatal(err)
		}
		_ = c.CloseWrite()
		if got := readAll(t, c); !bytes.Equal(got, big) {
			t.Errorf("%d bytes came back of %d", len(got), len(big))
		}
		got := make(chan []byte, 1)
		port, _ = server(t, func(c *net.TCPConn) {
			defer c.Close()
			_ = c.CloseWrite()
			b, _ := io.ReadAll(c)
			got <- b
		})
		l = newLoop(t, port, m)
		c = dial(t, l.addr())
		if b := readAll(t, c); len(b) != 0 {
			t.Fatal("bytes from nowhere")
		}
		_, _ = c.Write(big)
		_ = c.Close()
		if b := <-got; !bytes.Equal(b, big) {
			t.Errorf("%d bytes arrived", len(b))
		}
	})
}

// B001: the last bytes and the FIN arrive together on a connection that is shut one way already.
func TestSplice_DataAndFinTogether_CleanEnd(t *testing.T) {
	eachMover(t, func(t *testing.T, m choice) {
		answer := bytes.Repeat([]byte{7}, 100_000)
		port, _ := server(t, func(c *net.TCPConn) {
			defer c.Close()
			_, _ = io.ReadAll(c)
			_, _ = c.Write(answer)
		})
		l := newLoop(t, port, m)
		l.ask(func() { l.late = m == choosePipe })
		for round := range 300 {
			c := dial(t, l.addr())
			_, _ = c.Write([]byte("request"))
			_ = c.CloseWrite()
			b, err := io.ReadAll(c)
			if err != nil || len(b) != len(answer) {
				t.Fatalf("round %d: %d bytes, %v", round, len(b), err)
			}
			c.Close()
		}
	})
}

// B007: a reset of one side is a reset of the other.
func TestSplice_ResetByEither_ReachesTheOther(t *testing.T) {
	eachMover(t, func(t *testing.T, m choice) {
		conns := make(chan *net.TCPConn, 1)
		port, _ := server(t, func(c *net.TCPConn) { conns <- c })
		l := newLoop(t, port, m)
		for _, byServer := range []bool{true, false} {
			a := dial(t, l.addr())
			_, _ = a.Write([]byte("unread"))
			b := <-conns
			if !byServer {
				_, _ = io.ReadFull(b, make([]byte, 6))
				a, b = b, a
				_ = a.SetReadDeadline(time.Now().Add(5 * time.Second))
			}
			l.until("open", func() bool { return l.s.live == 1 })
			_ = b.SetLinger(0)
			_ = b.Close()
			if _, err := a.Read(make([]byte, 10)); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("by server %v: %v", byServer, err)
			}
			a.Close()
			l.until("flow ends", func() bool { return l.s.live == 0 && l.env.Table.Used() == 0 })
		}
	})
}

func TestSplice_TargetRefuses_ClientSeesReset(t *testing.T) {
	port, closeServer := server(t, func(c *net.TCPConn) {})
	closeServer()
	for _, late := range []bool{false, true} {
		l := newLoop(t, port, chooseNone)
		l.ask(func() { l.late = late })
		d, err := net.Dial("tcp4", l.addr())
		if err == nil {
			_, err = d.Read(make([]byte, 1))
			d.Close()
		}
		if !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("late %v: %v", late, err)
		}
		l.until("flow ends", func() bool { return l.env.Table.Used() == 0 })
	}
}

// Check 45 of the TCP specification, first half: a blocked reader costs nothing, even behind a FIN.
func TestSplice_ReaderBlocked_NoTurns(t *testing.T) {
	for _, size := range []int{2_700_000, 8 << 20} { // with the FIN behind the bytes; and more than all buffers take
		eachMover(t, func(t *testing.T, m choice) { blockedReader(t, m, size) })
	}
}

func blockedReader(t *testing.T, m choice, size int) {
	conns := make(chan *net.TCPConn, 1)
	port, _ := server(t, func(c *net.TCPConn) { conns <- c })
	l := newLoop(t, port, m)
	c := dial(t, l.addr())
	go send(c, size, 1)
	srv := <-conns
	l.until("blocked", func() bool {
		x := &l.s.conns[first(l)]
		return x.hup[0] || x.state == stOpen && !x.canWrite[1] && x.canRead[0]
	})
	// Wait until the loop is quiet, then it must stay so.
	before := -1
	l.until("quiet", func() bool { same := before == l.turns; before = l.turns; l.once(100); return same && !l.env.Pending() })
	for range 5 {
		l.ask(func() { l.once(60) })
	}
	l.ask(func() {
		if l.turns-before > 2 {
			t.Errorf("%d turns while blocked", l.turns-before)
		}
	})
	_, n, err := slowly(srv, 0, 1<<30)
	if n != size || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	srv.Close()
	l.until("flow ends", func() bool { return l.s.live == 0 })
}

func first(l *loop) flow.Index {
	for i := range l.env.Table.Rows {
		if l.s.conns[i].state != stNone {
			return flow.Index(i)
		}
	}
	return 0
}

// Check 45, second half: server half-closes, the client sends and closes, the server reads late.
func TestSplice_LateReaderAfterClose_AllBytesThenEOF(t *testing.T) {
	eachMover(t, func(t *testing.T, m choice) {
		conns := make(chan *net.TCPConn, 1)
		port, _ := server(t, func(c *net.TCPConn) { _ = c.CloseWrite(); conns <- c })
		l := newLoop(t, port, m)
		c := dial(t, l.addr())
		_ = readAll(t, c)
		const size = 3_000_000
		want := send(c, size, 9)
		_ = c.Close()
		srv := <-conns
		l.until("client's end seen", func() bool { x := &l.s.conns[first(l)]; return x.state != stOpen })
		got, n, err := slowly(srv, 0, 1<<30)
		if got != want || err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
		srv.Close()
	})
}

func TestSplice_ManyAtOnce_AllServed(t *testing.T) {
	const n = 1000
	eachMover(t, func(t *testing.T, m choice) {
		port, _ := server(t, func(c *net.TCPConn) { defer c.Close(); _, _ = io.Copy(c, c) })
		l := newLoop(t, port, m)
		var wg sync.WaitGroup
		gate := make(chan struct{})
		conns := make([]*net.TCPConn, n)
		for k := range conns {
			conns[k] = dial(t, l.addr())
		}
		l.until("all open", func() bool { return l.s.live == n })
		for k, c := range conns {
			wg.Add(1)
			go func() {
				defer wg.Done()
				<-gate
				msg := bytes.Repeat([]byte{byte(k)}, 1+k*97%70_000)
				go func() { _, _ = c.Write(msg); _ = c.CloseWrite() }()
				if b, err := io.ReadAll(c); err != nil || !bytes.Equal(b, msg) {
					t.Errorf("%d: %d bytes of %d, %v", k, len(b), len(msg), err)
				}
				c.Close()
			}()
		}
		close(gate)
		wg.Wait()
		l.until("flows end", func() bool { return l.s.live == 0 && l.env.Table.Used() == 0 })
	})
}
