// SPDX-License-Identifier: Apache-2.0

package udp

import (
	"encoding/binary"
	"net"
	"syscall"
	"testing"
	"time"

	"passt/dataplane/flow"
	"passt/dataplane/fwd"
	"passt/dataplane/link"
	"passt/dataplane/wire"
	"passt/internal/sys"
)

var (
	guest4 = wire.Addr4(192, 0, 2, 2)
	gw4    = wire.Addr4(192, 0, 2, 1)
	guest6 = wire.Addr{0: 0x20, 1: 0x01, 2: 0x0d, 3: 0xb8, 15: 2}
	gw6    = wire.Addr{0: 0xfe, 1: 0x80, 15: 1}
	loop4  = wire.Addr4(127, 0, 0, 1)
	loop6  = wire.Addr{15: 1}
)

// frame is what the fake link got.
type frame struct {
	b    []byte
	vnet wire.Vnet
}

// fakeLink keeps copies of frames; room as the tap's.
type fakeLink struct {
	feat  link.Features
	mem   []byte
	segs  [8]link.Seg
	vecs  [8]sys.Iovec
	got   []frame
	count int
	mute  bool // count only
	noBuf bool // vectors only, as a ring of guest descriptors gives
	full  bool
}

func (l *fakeLink) FD() sys.FD                 { return sys.NoFD }
func (l *fakeLink) Features() link.Features    { return l.feat }
func (l *fakeLink) Recv(*link.Batch) sys.Errno { return sys.EAGAIN }
func (l *fakeLink) Flush() sys.Errno           { return 0 }
func (l *fakeLink) room(k int) []byte          { return l.mem[k*70000 : (k+1)*70000] }
func (l *fakeLink) Reserve(h, p, n int) []link.Seg {
	if l.full {
		return nil
	}
	n = min(n, len(l.segs))
	for k := range n {
		b := l.room(k)
		s := &l.segs[k]
		*s = link.Seg{Hdr: b[200-h : 200 : 200], Buf: b[200 : 200+p : 200+p]}
		l.vecs[k].Set(s.Buf)
		s.Vec = l.vecs[k : k+1]
		if l.noBuf {
			s.Buf = nil
		}
	}
	return l.segs[:n]
}

func (l *fakeLink) Send(segs []link.Seg) (int, sys.Errno) {
	l.count += len(segs)
	if l.mute {
		return len(segs), 0
	}
	for k := range segs {
		b := l.room(k)
		f := append([]byte(nil), b[200-len(segs[k].Hdr):200+segs[k].Len]...)
		l.got = append(l.got, frame{f, segs[k].Vnet})
	}
	return len(segs), 0
}

// rig is one loop around the handler: the test stands for broker and glue.
type rig struct {
	t         testing.TB
	env       *flow.Env
	u         *UDP
	link      *fakeLink
	listeners []*flow.Listener
	evs       []sys.PollEvent
	refuse    sys.Errno // answer to the next requests
	hold      bool      // do not answer requests
	asked     []flow.Request
}

func newRig(t testing.TB) *rig {
	ep, e := sys.EpollCreate()
	if e != 0 {
		t.Fatal(e)
	}
	env := flow.NewEnv(flow.NewTable(512, [16]byte{1}), 1e9)
	env.Ep = ep
	env.Fwd = &fwd.Config{UDP: true, ICMP: true, TCP: true, Splice: true,
		V4: fwd.Family{On: true, Guest: guest4, Gateway: gw4, Our: gw4, MapLoop: gw4},
		V6: fwd.Family{On: true, Guest: guest6, Our: gw6, MapLoop: gw6}}
	env.Guest = flow.Guest{MAC: wire.MAC{2, 0, 0, 0, 0, 2}, Seen4: guest4, Seen6: guest6}
	env.Cfg = flow.Config{MTU: 65520, Pasta: true, OurMAC: wire.MAC{2, 0, 0, 0, 0, 1}}
	l := &fakeLink{feat: link.Features{Csum: true, TSO: true, USO: true}, mem: sys.Alloc(8 * 70000)}
	env.Link = l
	r := &rig{t: t, env: env, u: New(env), link: l, evs: make([]sys.PollEvent, 64)}
	t.Cleanup(func() {
		for i := range env.Table.Rows {
			r.env.End(flow.Index(i))
		}
		env.EndTurn()
		sys.Close(ep)
	})
	return r
}

func sa(a wire.Addr, port uint16) syscall.Sockaddr {
	if a.Is4() {
		return &syscall.SockaddrInet4{Port: int(port), Addr: a.V4()}
	}
	return &syscall.SockaddrInet6{Port: int(port), Addr: a}
}

func anyOf(a wire.Addr) wire.Addr {
	if a.Is4() {
		return wire.Addr4(0, 0, 0, 0)
	}
	return wire.Addr{}
}

// socket makes a bound UDP socket with the options that a broker sets.
func (r *rig) socket(src wire.Addr, port uint16) int {
	fam := syscall.AF_INET6
	if src.Is4() {
		fam = syscall.AF_INET
	}
	fd, err := syscall.Socket(fam, syscall.SOCK_DGRAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	f := sys.FD(fd)
	sys.OptReuseAddr.Set(f, 1)
	sys.OptBroadcast.Set(f, 1)
	sys.OptUDPGRO.Set(f, 1)
	if src.Is4() {
		sys.OptRecvErr4.Set(f, 1)
		sys.OptPktInfo4.Set(f, 1)
	} else {
		sys.OptV6Only.Set(f, 1)
		sys.OptRecvErr6.Set(f, 1)
		sys.OptPktInfo6.Set(f, 1)
	}
	err = syscall.Bind(fd, sa(src, port))
	if err == syscall.EADDRINUSE || err == syscall.EACCES {
		err = syscall.Bind(fd, sa(src, 0))
	}
	if err != nil {
		r.t.Fatalf("bind %v port %d: %v", src, port, err)
	}
	return fd
}

// answer does what a broker does for one request.
func (r *rig) answer(q *flow.Request) {
	o := flow.Opened{Flow: q.Flow, Slot: q.Slot, FD: sys.NoFD, FD2: sys.NoFD, Errno: r.refuse}
	if r.env.Table.Live(q.Flow, q.Gen()) == nil {
		return
	}
	if r.refuse == 0 {
		dst, src := q.Dst, q.Src
		if q.Op == flow.OpUDP {
			dst, _ = r.env.Fwd.Outbound(wire.ProtoUDP, &q.Dst, q.DstPort)
		}
		if src.IsZero() {
			src = anyOf(dst)
		}
		fd := r.socket(src, q.SrcPort)
		if q.Op != flow.OpUDPListen {
			if err := syscall.Connect(fd, sa(dst, q.DstPort)); err != nil {
				r.t.Fatalf("connect %v: %v", dst, err)
			}
		}
		o.FD, o.Target = sys.FD(fd), dst
		if a, e := sys.LocalAddr(o.FD); e == 0 {
			_, o.LocalPort, _ = a.Get()
		}
	}
	r.u.Opened(&o)
}

// broker answers what was asked for.
func (r *rig) broker() {
	if r.hold {
		return
	}
	for range 4 {
		qs := append([]flow.Request(nil), r.env.TakeRequests()...)
		r.asked = append(r.asked, qs...)
		for k := range qs {
			r.answer(&qs[k])
		}
	}
}

// turn runs one turn of the loop.
func (r *rig) turn(ms int) int {
	r.broker()
	r.env.RunAgain(r.u.Again)
	n, _ := sys.EpollWait(r.env.Ep, r.evs, ms, false)
	for _, ev := range r.evs[:n] {
		tag := uint64(ev.Tag[1])<<32 | uint64(ev.Tag[0])
		idx := uint32(tag)
		if flow.PollKind(tag>>56) == flow.PollListen {
			r.u.ListenEvent(r.listeners[idx], ev.Events)
		} else if r.env.Table.Live(flow.Index(idx>>1), uint32(tag>>32)&flow.GenMask) != nil {
			r.u.Event(flow.Index(idx>>1), int(idx&1), ev.Events)
		}
	}
	r.broker()
	r.u.EndTurn()
	r.env.EndTurn()
	return n
}

// until runs turns until ok or a deadline.
func (r *rig) until(what string, ok func() bool) {
	r.t.Helper()
	for end := time.Now().Add(3 * time.Second); !ok(); {
		if time.Now().After(end) {
			r.t.Fatalf("no %s in time; %d frames, drops %v", what, len(r.link.got), r.drops())
		}
		r.turn(5)
	}
}

func (r *rig) drops() map[string]uint64 {
	m := map[string]uint64{}
	for d, n := range r.env.Drops {
		if n > 0 {
			m[wire.Drop(d).String()] = n
		}
	}
	return m
}

// listen grants a listener for a rule of its own.
func (r *rig) listen(pif fwd.Pif, addr wire.Addr, to uint16, target wire.Addr) *flow.Listener {
	fd := r.socket(addr, 0)
	s, _ := sys.LocalAddr(sys.FD(fd))
	_, port, _ := s.Get()
	rule := fwd.Rule{Addr: addr, Target: target, First: port, Last: port, To: to, Proto: fwd.ProtoUDP}
	rules := &r.env.HostRules
	if pif == fwd.PifSplice {
		rules = &r.env.NsRules
	}
	*rules = append(*rules, rule)
	l := &flow.Listener{FD: sys.FD(fd), Pif: pif, UDP: true, Rule: uint16(len(*rules) - 1), Port: port, Addr: addr}
	r.listeners = append(r.listeners, l)
	sys.EpollAdd(r.env.Ep, l.FD, sys.PollIn, flow.Tag(flow.PollListen, 0, uint32(len(r.listeners)-1)))
	r.t.Cleanup(func() { sys.Close(l.FD) })
	return l
}

// packet builds a frame as the guest sends it and parses it.
func packet(t testing.TB, src, dst wire.Addr, sport, dport uint16, ttl uint8, b []byte) wire.Packet {
	n := wire.UDPSize + len(b)
	f := make([]byte, wire.EthSize+wire.IPHeaderLen(&dst)+n)
	wire.PutEth(f, &wire.MAC{2, 0, 0, 0, 0, 1}, &wire.MAC{2, 0, 0, 0, 0, 2}, wire.EtherTypeOf(&dst))
	ip := wire.PutIP(f[wire.EthSize:], &src, &dst, wire.ProtoUDP, n, 0)
	if dst.Is4() {
		f[wire.EthSize+8] = ttl
	} else {
		f[wire.EthSize+7] = ttl
	}
	l4 := f[wire.EthSize+ip:]
	binary.BigEndian.PutUint16(l4[0:], sport)
	binary.BigEndian.PutUint16(l4[2:], dport)
	binary.BigEndian.PutUint16(l4[4:], uint16(n))
	copy(l4[8:], b)
	var p wire.Packet
	if d := p.Parse(f, &wire.Vnet{}); d != wire.DropNone {
		t.Fatalf("packet: %v", d)
	}
	return p
}

// datagrams takes frames to the guest apart: GSO frames into their datagrams.
func datagrams(t testing.TB, fs []frame) (out []wire.Packet, data [][]byte) {
	re := wire.NewReassembler()
	for _, f := range fs {
		b := f.b
		var p wire.Packet
		v := f.vnet
		v.Flags = 0
		d := p.Parse(b, &v)
		if d == wire.DropFragment {
			whole, ok, d2 := re.Add(b, 0)
			if d2 != wire.DropNone {
				t.Fatalf("fragment: %v", d2)
			}
			if !ok {
				continue
			}
			b = append([]byte(nil), whole...)
			d = p.Parse(b, &wire.Vnet{})
		}
		if d != wire.DropNone {
			t.Fatalf("frame to guest: %v", d)
		}
		if p.Proto != wire.ProtoUDP {
			continue
		}
		checkSum(t, &p, &f.vnet)
		pay := wire.UDP(p.L4).Payload()
		size := int(f.vnet.GSOSize)
		if size == 0 {
			out, data = append(out, p), append(data, pay)
			continue
		}
		for len(pay) > 0 {
			n := min(size, len(pay))
			out, data = append(out, p), append(data, pay[:n])
			pay = pay[n:]
		}
	}
	return out, data
}

// checkSum checks the checksum as the guest's stack would, partial or complete.
func checkSum(t testing.TB, p *wire.Packet, v *wire.Vnet) {
	t.Helper()
	got := binary.BigEndian.Uint16(p.L4[6:])
	if v.Flags&wire.VnetNeedsCsum != 0 {
		want := wire.Fold(wire.PseudoSum(&p.Src, &p.Dst, wire.ProtoUDP, len(p.L4)))
		if got != want || v.CsumOffset != 6 || int(v.CsumStart) != int(p.L4Off) {
			t.Fatalf("partial checksum %04x, want %04x (%+v)", got, want, *v)
		}
		return
	}
	if got == 0 || wire.Fold(wire.Sum(p.L4, wire.PseudoSum(&p.Src, &p.Dst, wire.ProtoUDP, len(p.L4)))) != 0xffff {
		t.Fatalf("wrong checksum %04x", got)
	}
}

// peer is a socket of the host.
func peer(t testing.TB, addr string) *net.UDPConn {
	a, err := net.ResolveUDPAddr("udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.ListenUDP("udp", a)
	if err != nil {
		t.Skipf("no socket on %s: %v", addr, err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetReadBuffer(4 << 20)
	return c
}

func portOf(c *net.UDPConn) uint16 { return uint16(c.LocalAddr().(*net.UDPAddr).Port) }

// read reads one datagram with a deadline.
func read(t testing.TB, c *net.UDPConn) ([]byte, *net.UDPAddr) {
	t.Helper()
	b := make([]byte, 65536)
	_ = c.SetReadDeadline(time.Now().Add(3 * time.Second))
	n, from, err := c.ReadFromUDP(b)
	if err != nil {
		t.Fatal(err)
	}
	return b[:n], from
}

func fill(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)*7 + seed
	}
	return b
}

// flow gives the only flow.
func (r *rig) flow() flow.Index {
	for i := range r.env.Table.Rows {
		if r.env.Table.Rows[i].Kind == flow.KindUDP {
			return flow.Index(i)
		}
	}
	r.t.Fatal("no flow")
	return 0
}

func connect(fd int, a wire.Addr, port uint16) error { return syscall.Connect(fd, sa(a, port)) }
