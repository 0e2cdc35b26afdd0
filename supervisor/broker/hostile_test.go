// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"errors"
	"math/rand"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"passt/dataplane/fwd"
	"passt/dataplane/wire"
	"passt/internal/sys"
	"passt/ipc"
)

// hostile is a worker that does what it likes.
type hostile struct {
	t       testing.TB
	r       *rand.Rand
	s       *session
	side    fwd.Pif
	cfg     *fwd.Config
	addrs   []wire.Addr
	ports   []uint16
	drain   []sys.FD // listening sockets
	records int
	handed  map[ipc.Op]int
	ended   int
}

func newHostile(t testing.TB, side fwd.Pif, seed int64) *hostile {
	h := &hostile{t: t, r: rand.New(rand.NewSource(seed)), side: side, cfg: usual(), handed: map[ipc.Op]int{}}
	// Each target of the policy beside what must never be reached.
	h.addrs = []wire.Addr{map4, map6, ip("192.0.2.2"), ip("2001:db8::2"), ip("192.0.2.53"), own4, own6, lo4, lo6, ip("127.0.0.53"), ip("127.9.9.9"),
		any4, {}, ip("::7f00:1"), ip("255.255.255.255"), ip("224.0.0.251"), ip("ff02::fb"), ip("fe80::1"), other, ip("2001:db8:9::9"), ip("0.0.0.1")}
	h.ports = []uint16{0, 1, 53, 853, 7000, 7105, 7200, 7210, 8000, 9000, 9003, 5000, 5005, 5500, 6000, 6001, 65535}
	if side == fwd.PifSplice && h.r.Intn(2) == 0 {
		h.cfg.HostLoToNsLo = true
	}
	for _, a := range []wire.Addr{lo4, own4} {
		fd, _ := server(t, sys.SockStream, a, 7105)
		fd2, _ := server(t, sys.SockStream, a, 9003)
		h.drain = append(h.drain, fd, fd2)
	}
	return h
}

func (h *hostile) begin() {
	h.s = newSession(h.t, h.side, h.cfg, hostRules, nsRules)
	h.s.b.Ready = func() error { return nil }
	h.s.b.Log = func([]byte) {}
	h.s.b.SetReady()
}

func (h *hostile) addr() wire.Addr {
	if h.r.Intn(20) == 0 {
		// Only inside of blocks that no test route leads to.
		if h.r.Intn(2) == 0 {
			return wire.Addr4(127, byte(h.r.Int()), byte(h.r.Int()), byte(h.r.Int()))
		}
		var a wire.Addr
		h.r.Read(a[8:])
		return a
	}
	return h.addrs[h.r.Intn(len(h.addrs))]
}

func (h *hostile) port() uint16 {
	if h.r.Intn(10) == 0 {
		return uint16(h.r.Int())
	}
	return h.ports[h.r.Intn(len(h.ports))]
}

func (h *hostile) request() ipc.Connect {
	q := ipc.Connect{Op: ipc.Op(1 + h.r.Intn(7)), Flow: h.r.Uint32(), Gen: h.r.Uint32(), Slot: uint8(h.r.Int()), TTL: uint8(h.r.Int()),
		Src: h.addr(), Dst: h.addr(), SrcPort: h.port(), DstPort: h.port(), MSS: uint16(h.r.Int()), Rule: uint16(h.r.Intn(5))}
	if h.side == fwd.PifSplice && h.r.Intn(500) > 0 { // an op of the other side ends the session
		q.Op = []ipc.Op{ipc.OpUDPReply, ipc.OpSpliceTCP, ipc.OpSpliceUDP}[h.r.Intn(3)]
	}
	return q
}

// turn sends one packet, lets the broker answer and inspects the answer.
func (h *hostile) turn() {
	n := 1 + h.r.Intn(ipc.MaxBatch)
	qs := make([]ipc.Connect, n)
	body := h.s.w.Body(n * ipc.ConnectSize)
	for i := range qs {
		qs[i] = h.request()
		qs[i].Put(body[i*ipc.ConnectSize:])
	}
	kind, count := ipc.KindConnect, n
	bad := true
	switch h.r.Intn(400) {
	case 0: // a bit flipped somewhere: may still be a request
		at := h.r.Intn(len(body))
		body[at] ^= 1 << h.r.Intn(8)
		for i := range qs {
			qs[i].Parse(body[i*ipc.ConnectSize:])
		}
	case 1:
		kind = ipc.Kind(h.r.Intn(14))
	case 2:
		count = h.r.Intn(40)
	case 3:
		h.raw()
		return
	default:
		bad = false
	}
	h.records += n
	var fds []sys.FD
	if h.r.Intn(3000) == 0 {
		fds, bad = []sys.FD{h.s.w.FD}, true
	}
	if e := h.s.w.Send(kind, count, len(body), fds); e != 0 {
		h.t.Fatal(e)
	}
	h.finish(qs, bad || h.side == fwd.PifSplice)
}

// raw sends bytes that are no packet.
func (h *hostile) raw() {
	p := make([]byte, 1+h.r.Intn(100))
	h.r.Read(p)
	if _, e := sys.Write(h.s.w.FD, p); e != 0 {
		h.t.Fatal(e)
	}
	h.finish(nil, true)
}

func (h *hostile) finish(qs []ipc.Connect, mayEnd bool) {
	h.s.b.tokens = rateBurst
	_, err := h.s.b.Serve()
	if err != nil {
		if !mayEnd || !IsWorkerFault(err) && !errors.Is(err, ipc.ErrFormat) {
			h.t.Fatalf("broker ended: %v", err)
		}
		h.ended++
		h.s.close()
		h.begin()
		return
	}
	var m ipc.Message
	for {
		ok, err := h.s.w.Recv(&m)
		if err != nil {
			h.t.Fatal(err)
		}
		if !ok {
			return
		}
		if m.Kind != ipc.KindReply {
			h.t.Fatalf("kind %d", m.Kind)
		}
		used := 0
		for i := range int(m.Count) {
			var r ipc.Reply
			r.Parse(m.Record(i))
			if len(qs) >= int(m.Count) && r.FDs == 1 {
				h.inspect(&qs[i], &r, m.FDs[used])
			}
			used += int(r.FDs)
		}
		if used != len(m.FDs) {
			h.t.Fatalf("%d descriptors, replies have %d", len(m.FDs), used)
		}
		for _, f := range m.FDs {
			sys.Close(f)
		}
	}
}

// translated is the policy written again: what the address of a guest's packet may become on the host.
func translated(q *ipc.Connect) (wire.Addr, bool) {
	switch {
	case q.Op != ipc.OpPing && (q.DstPort == 53 || q.DstPort == 853) && q.Dst == ip("192.0.2.53"):
		return ip("127.0.0.53"), true
	case q.Dst == map4:
		return lo4, true
	case q.Dst == map6:
		return lo6, true
	case q.Dst == ip("192.0.2.2"):
		return own4, true
	case q.Dst == ip("2001:db8::2"):
		return own6, true
	}
	return q.Dst, !q.Dst.IsLoopback() && !q.Dst.IsUnspecified()
}

// inspect checks one descriptor against the policy.
func (h *hostile) inspect(q *ipc.Connect, r *ipc.Reply, fd sys.FD) {
	t := h.t
	h.handed[q.Op]++
	kind := unix.SOCK_DGRAM
	if q.Op == ipc.OpTCP || q.Op == ipc.OpSpliceTCP {
		kind = unix.SOCK_STREAM
	}
	if got := option(t, fd, unix.SOL_SOCKET, unix.SO_TYPE); got != kind {
		t.Fatalf("%+v: socket type %d", q, got)
	}
	peer, port, err := peerOf(fd)
	want, ok := q.Dst, true
	switch q.Op {
	case ipc.OpTCP, ipc.OpUDP:
		want, ok = translated(q)
	case ipc.OpPing:
		if w, ok := translated(q); !ok || r.Target != w || pingDst(t, fd, w) != 0 {
			t.Fatalf("%+v: ping socket to %v", q, r.Target)
		}
		return
	case ipc.OpUDPListen:
		lo := lo6
		if q.Dst.Is4() {
			lo = lo4
		}
		if e := sends(fd, lo, 9); !errors.Is(err, unix.ENOTCONN) || !errors.Is(e, unix.EPIPE) || !q.Dst.IsMulticast() && !q.Dst.IsBroadcast() {
			t.Fatalf("%+v: can send: %v, peer %v", q, e, err)
		}
		return
	case ipc.OpUDPReply:
		l, lp := localOf(t, fd)
		rules := hostRules
		if h.side == fwd.PifSplice {
			rules = nsRules
		}
		rule := &rules[q.Rule]
		ok = l == q.Src && lp == q.SrcPort && rule.Proto == fwd.ProtoUDP && rule.Has(lp)
	case ipc.OpSpliceTCP, ipc.OpSpliceUDP:
		ok = q.Dst.IsLoopback() || q.Dst == own4 || q.Dst == own6
		rules := nsRules
		if h.side == fwd.PifSplice {
			rules = hostRules
			ok = ok && (h.cfg.HostLoToNsLo || !q.Dst.IsLoopback())
		} else {
			ok = ok && q.Dst.IsLoopback()
		}
		ok = ok && rules[q.Rule].HasTarget(q.DstPort) && (rules[q.Rule].Proto == fwd.ProtoTCP) == (kind == unix.SOCK_STREAM)
	}
	if err != nil || !ok || peer != want || port != q.DstPort || r.Target != want {
		t.Fatalf("%+v: handed over with peer %v port %d (%v), policy says %v %v", q, peer, port, err, want, ok)
	}
}

// pingDst sends nothing: it compares the connected address, which a ping socket shows only by its own choice of source.
func pingDst(t testing.TB, fd sys.FD, want wire.Addr) sys.Errno {
	l, _ := localOf(t, fd)
	if l.Is4() != want.Is4() || want.IsLoopback() != l.IsLoopback() {
		return sys.EACCES
	}
	return 0
}

// TestBroker_HostileWorker_PolicyHolds: check 11 of the isolation specification. a million random requests (with PASST_TEST_FULL set, else a tenth): the broker
// never panics, hands over nothing that the policy forbids, and leaks no descriptor.
func TestBroker_HostileWorker_PolicyHolds(t *testing.T) {
	needNS(t)
	want := 50_000 // for each side
	if os.Getenv("PASST_TEST_FULL") != "" {
		want = 500_000 // a minute and more
	}
	if testing.Short() {
		want = 20_000
	}
	for _, side := range []fwd.Pif{fwd.PifHost, fwd.PifSplice} {
		h := newHostile(t, side, 11)
		before := openFDs(t)
		h.begin()
		for h.records < want {
			h.turn()
			if h.r.Intn(8) == 0 {
				h.accept()
			}
		}
		h.s.close()
		h.accept()
		if n := openFDs(t); n != before {
			t.Errorf("side %d: %d descriptors, %d before", side, n, before)
		}
		t.Logf("side %d: %d records, %d sessions ended, sockets by op %v", side, h.records, h.ended, h.handed)
		ops := []ipc.Op{ipc.OpUDPReply, ipc.OpSpliceTCP, ipc.OpSpliceUDP}
		if side == fwd.PifHost {
			ops = append(ops, ipc.OpTCP, ipc.OpUDP, ipc.OpPing, ipc.OpUDPListen)
		}
		for _, op := range ops {
			if h.handed[op] == 0 {
				t.Errorf("side %d: op %d never succeeded: the test shows nothing", side, op)
			}
		}
		for _, fd := range h.drain {
			stop(t, fd)
		}
	}
}

// accept empties the queues of the servers.
func (h *hostile) accept() {
	for _, l := range h.drain {
		for {
			fd, _, e := sys.Accept(l)
			if e != 0 {
				break
			}
			sys.Close(fd)
		}
	}
}
