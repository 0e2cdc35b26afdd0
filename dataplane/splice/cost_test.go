// SPDX-License-Identifier: Apache-2.0

package splice

import (
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"passt/internal/sys"
)

// raw gives a non-blocking descriptor of a connection.
func raw(t testing.TB, c *net.TCPConn) sys.FD {
	f, err := c.File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	fd := int(f.Fd())
	_ = syscall.SetNonblock(fd, true)
	return sys.FD(fd)
}

// pair opens a connection through the loop and gives both far ends.
func pair(t testing.TB, m choice) (l *loop, client, srv sys.FD) {
	conns := make(chan *net.TCPConn, 1)
	port, _ := server(t, func(c *net.TCPConn) { conns <- c })
	l = newLoop(t, port, m)
	c := dial(t, l.addr())
	s := <-conns
	t.Cleanup(func() { s.Close() })
	l.until("open", func() bool { return l.s.conns[first(l)].state == stOpen })
	return l, raw(t, c), raw(t, s)
}

// carry writes b at one end, turns the loop by hand until all of it has come out at the other.
func carry(l *loop, from, to sys.FD, b, sink []byte) {
	for sent, got := 0, 0; got < len(b); {
		if n, e := sys.Write(from, b[sent:]); e == 0 {
			sent += n
		}
		l.handle(l.poll())
		if n, e := sys.Read(to, sink); e == 0 {
			got += n
		}
	}
}

func (l *loop) poll() int {
	n, _ := sys.EpollWait(l.env.Ep, l.evs[:], 0, false)
	return n
}

func TestSplice_SteadyState_NoAllocation(t *testing.T) {
	eachMover(t, func(t *testing.T, m choice) {
		l, c, s := pair(t, m)
		small, big, sink := make([]byte, 100), make([]byte, 4<<20), make([]byte, 1<<20)
		l.ask(func() {
			carry(l, c, s, big, sink) // the pool's first pipe
			if n := testing.AllocsPerRun(5, func() {
				carry(l, c, s, small, sink)
				carry(l, s, c, small, sink)
				carry(l, c, s, big, sink)
			}); n != 0 {
				t.Errorf("%v allocations", n)
			}
			if m == choosePipe && l.pipes == 0 {
				t.Error("no pipe was used")
			}
		})
	})
}

// descriptors counts this process's sockets and pipes.
func descriptors(t *testing.T) (sockets, pipes int) {
	d, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no /proc: " + err.Error())
	}
	for _, e := range d {
		to, _ := os.Readlink("/proc/self/fd/" + e.Name())
		if strings.HasPrefix(to, "socket:") {
			sockets++
		} else if strings.HasPrefix(to, "pipe:") {
			pipes++
		}
	}
	return sockets, pipes
}

func TestSplice_IdleConnections_TwoDescriptorsEach(t *testing.T) {
	if os.Getenv("SPLICE_ALONE") == "" {
		// In a process of its own: what other tests close late would be counted.
		c := exec.Command(os.Args[0], "-test.run=^TestSplice_IdleConnections_TwoDescriptorsEach$")
		c.Env = append(os.Environ(), "SPLICE_ALONE=1")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	const n = 50
	// Without a pipe of the Go library's own.
	port, _ := server(t, func(c *net.TCPConn) { defer c.Close(); _, _ = io.Copy(struct{ io.Writer }{c}, struct{ io.Reader }{c}) })
	l := newLoop(t, port, choosePipe)
	s0, p0 := descriptors(t)
	conns := make([]*net.TCPConn, n)
	big := make([]byte, 3<<20)
	for k := range conns {
		conns[k] = dial(t, l.addr())
		if k == n/2 {
			go func() { _, _ = conns[k].Write(big) }()
			if _, err := io.ReadFull(conns[k], make([]byte, len(big))); err != nil {
				t.Fatal(err)
			}
		}
		msg := []byte("hello")
		_, _ = conns[k].Write(msg)
		if _, err := io.ReadFull(conns[k], msg); err != nil {
			t.Fatal(err)
		}
	}
	// One socket at each far end, two of the flow; pipes lie in the pool alone.
	s1, p1 := descriptors(t)
	if s1-s0 != 4*n {
		t.Errorf("%d sockets for %d connections", s1-s0, n)
	}
	l.ask(func() {
		p := &l.s.pipe.pool
		if p.made == 0 || p.nFree != p.made || p1-p0 != 2*p.made {
			t.Errorf("%d pipes, %d free, %d ends open", p.made, p.nFree, p1-p0)
		}
	})
	for _, c := range conns {
		c.Close()
	}
	l.until("flows end", func() bool { return l.s.live == 0 && l.env.Table.Used() == 0 })
	if _, p := descriptors(t); p != p0 {
		t.Errorf("%d pipe ends stay", p-p0)
	}
}

func TestPool_FlowDiesWithBytesInPipe_PipeIsNotReused(t *testing.T) {
	l, c, s := pair(t, choosePipe)
	sink := make([]byte, 1<<20)
	l.ask(func() {
		carry(l, c, s, make([]byte, 4<<20), sink)
		i := first(l)
		for range 1000 {
			_, _ = sys.Write(c, sink)
			l.handle(l.poll())
			if l.s.conns[i].lane[0].held > 0 {
				break
			}
		}
		if l.s.conns[i].lane[0].held == 0 {
			t.Fatal("the pipe was never left with bytes")
		}
		made := l.s.pipe.pool.made
		l.s.step(i, evFail)
		if p := &l.s.pipe.pool; p.made != made-1 || p.nFree != p.made {
			t.Errorf("%d pipes of %d, %d free", p.made, made, p.nFree)
		}
	})
}

func TestPool_NoPipeToBeHad_Copies(t *testing.T) {
	port, _ := server(t, func(c *net.TCPConn) { defer c.Close(); _, _ = io.Copy(c, c) })
	l := newLoop(t, port, choosePipe)
	l.ask(func() { l.noPip = true })
	c := dial(t, l.addr())
	const size = 20 << 20
	want := make(chan [32]byte, 1)
	go func() { want <- send(c, size, 3) }()
	got, n, err := slowly(c, 0, 1<<30)
	if n != size || err != nil || got != <-want {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// Random sizes, pauses, buffers and half-closes on both ends while the mover changes under way: the streams stay whole.
func TestSplice_RandomSchedules_StreamsEqual(t *testing.T) {
	for seed := range uint64(24) {
		r := rand.New(rand.NewPCG(seed, 1))
		conns := make(chan *net.TCPConn, 1)
		port, _ := server(t, func(c *net.TCPConn) { conns <- c })
		l := newLoop(t, port, choosePipe)
		flip := rand.New(rand.NewPCG(seed, 2))
		l.ask(func() {
			l.late = r.IntN(2) == 0
			l.turn = func() { l.s.force = choice(1 + flip.IntN(2)) }
		})
		c := dial(t, l.addr())
		s := <-conns
		var wg sync.WaitGroup
		var sent, got [2][32]byte
		for k, e := range []*net.TCPConn{c, s} {
			if r.IntN(3) == 0 {
				_ = e.SetReadBuffer(64 << 10 << r.IntN(4)) // below one loopback segment TCP itself crawls
			}
			size := r.IntN(1 << (10 + r.IntN(14)))
			pause, every := time.Duration(r.IntN(3))*time.Millisecond, 32<<10<<r.IntN(6)
			wg.Add(2)
			go func() { defer wg.Done(); sent[k] = send(e, size, seed+uint64(k)) }()
			go func() {
				defer wg.Done()
				var err error
				if got[1-k], _, err = slowly(e, pause, every); err != nil {
					t.Errorf("seed %d end %d: %v", seed, k, err)
				}
			}()
		}
		wg.Wait()
		if sent != got {
			t.Errorf("seed %d: streams differ", seed)
		}
		c.Close()
		s.Close()
		l.until("flow ends", func() bool { return l.s.live == 0 })
	}
}

// BenchmarkMove carries 1 MiB at a time between loopback pairs, everything on one thread.
func BenchmarkMove(b *testing.B) {
	for _, m := range movers {
		for _, size := range []int{100, 64 << 10, 1 << 20} {
			b.Run(m.name+"/"+map[int]string{100: "100", 64 << 10: "64K", 1 << 20: "1M"}[size], func(b *testing.B) {
				l, c, s := pair(b, m.force)
				buf, sink := make([]byte, size), make([]byte, 1<<20)
				l.ask(func() {
					carry(l, c, s, make([]byte, 4<<20), sink)
					b.SetBytes(int64(size))
					b.ReportAllocs()
					b.ResetTimer()
					for range b.N {
						carry(l, c, s, buf, sink)
					}
					b.StopTimer()
				})
			})
		}
	}
}
