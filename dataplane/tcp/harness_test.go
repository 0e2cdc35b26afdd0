// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"encoding/binary"
	"errors"
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
	gw6    = wire.Addr{0: 0x20, 1: 0x01, 2: 0x0d, 3: 0xb8, 15: 1}
	tso    = link.Features{Csum: true, TSO: true}
	plain  = link.Features{}
)

const guestISN = 1000

// seg is a segment as a test writes or reads it.
type seg struct {
	flags    uint8
	seq, ack uint32
	win      uint16
	data     []byte
	opts     []byte
}

// rig is one loop around the handler; the test is guest, host and broker.
type rig struct {
	t      testing.TB
	env    *flow.Env
	tcp    *TCP
	link   *fakeLink
	evs    []sys.PollEvent
	asked  []flow.Request
	refuse sys.Errno
	hold   bool
	v6     bool
	sport  uint16 // of the guest
	dport  uint16
	out    []seg // segments to the guest, large ones taken apart
	frames int   // frames that carried them
	ended  int
}

func newRig(t testing.TB, feat link.Features, edit ...func(*flow.Config)) *rig {
	ep, e := sys.EpollCreate()
	if e != 0 {
		t.Fatal(e)
	}
	env := flow.NewEnv(flow.NewTable(128, [16]byte{1}), 1e12)
	env.Ep = ep
	env.Fwd = &fwd.Config{UDP: true, ICMP: true, TCP: true,
		V4: fwd.Family{On: true, Guest: guest4, Gateway: gw4, Our: gw4, MapLoop: gw4},
		V6: fwd.Family{On: true, Guest: guest6, Our: gw6, MapLoop: gw6}}
	env.Guest = flow.Guest{MAC: wire.MAC{2, 0, 0, 0, 0, 2}, Seen4: guest4, Seen6: guest6}
	env.Cfg = flow.Config{MTU: 1500, Pasta: true, OurMAC: wire.MAC{2, 0, 0, 0, 0, 1}, SynRetries: 6, SynLinear: 4, RTOMaxMs: 120_000}
	for _, f := range edit {
		f(&env.Cfg)
	}
	r := &rig{t: t, env: env, link: &fakeLink{feat: feat, mem: sys.Alloc(8 * 70000)}, evs: make([]sys.PollEvent, 64), sport: 40000}
	r.link.got = r.frame
	env.Link = r.link
	r.tcp = New(env)
	t.Cleanup(func() {
		for i := range env.Table.Rows {
			env.End(flow.Index(i))
		}
		env.EndTurn()
		sys.Close(ep)
	})
	return r
}

func (r *rig) addrs() (guest, gw wire.Addr) {
	if r.v6 {
		return guest6, gw6
	}
	return guest4, gw4
}

// frame takes one frame to the guest apart and checks its checksums.
func (r *rig) frame(b []byte, v wire.Vnet) {
	r.t.Helper()
	var p wire.Packet
	pv := v
	pv.Flags = 0
	if d := p.Parse(b, &pv); d != wire.DropNone {
		r.t.Fatalf("frame to guest: %v", d)
	}
	r.frames++
	guest, gw := r.addrs()
	if p.Src != gw || p.Dst != guest || p.DstPort != r.sport || p.SrcPort != r.dport {
		r.t.Fatalf("frame %v:%d > %v:%d", p.Src, p.SrcPort, p.Dst, p.DstPort)
	}
	sum := binary.BigEndian.Uint16(p.L4[16:])
	if v.Flags&wire.VnetNeedsCsum != 0 {
		if want := wire.Fold(wire.PseudoSum(&p.Src, &p.Dst, wire.ProtoTCP, len(p.L4))); sum != want || v.CsumOffset != 16 || int(v.CsumStart) != int(p.L4Off) {
			r.t.Fatalf("partial checksum %04x, want %04x (%+v)", sum, want, v)
		}
	} else if wire.Fold(wire.Sum(p.L4, wire.PseudoSum(&p.Src, &p.Dst, wire.ProtoTCP, len(p.L4)))) != 0xffff {
		r.t.Fatalf("wrong checksum %04x", sum)
	}
	s := wire.TCP(p.L4)
	o := seg{s.Flags(), s.Seq(), s.Ack(), s.Window(), s.Payload(), s.Options()}
	if len(o.data) > int(v.GSOSize) && v.GSOSize > 0 {
		if int(v.HdrLen) != len(b)-len(o.data) {
			r.t.Fatalf("header length %d", v.HdrLen)
		}
		for len(o.data) > int(v.GSOSize) {
			x := o
			x.data, x.flags = o.data[:v.GSOSize], o.flags&^wire.PSH
			r.out = append(r.out, x)
			o.data = o.data[v.GSOSize:]
			o.seq += uint32(v.GSOSize)
		}
	} else if v.GSOType != 0 {
		r.t.Fatalf("GSO %d for %d bytes", v.GSOSize, len(o.data))
	}
	r.out = append(r.out, o)
}

// packet builds the frame of a guest's segment and parses it.
func (r *rig) packet(s seg) wire.Packet {
	src, dst := r.addrs()
	n := wire.TCPSize + len(s.opts) + len(s.data)
	f := make([]byte, wire.EthSize+wire.IPHeaderLen(&dst)+n)
	wire.PutEth(f, &r.env.Cfg.OurMAC, &wire.MAC{2, 0, 0, 0, 0, 2}, wire.EtherTypeOf(&dst))
	ip := wire.PutIP(f[wire.EthSize:], &src, &dst, wire.ProtoTCP, n, 0)
	h := f[wire.EthSize+ip:]
	be.PutUint16(h[0:], r.sport)
	be.PutUint16(h[2:], r.dport)
	be.PutUint32(h[4:], s.seq)
	be.PutUint32(h[8:], s.ack)
	h[12], h[13] = byte(5+len(s.opts)/4)<<4, s.flags
	be.PutUint16(h[14:], s.win)
	copy(h[20:], s.opts)
	copy(h[20+len(s.opts):], s.data)
	var p wire.Packet
	if d := p.Parse(f, &wire.Vnet{}); d != wire.DropNone {
		r.t.Fatalf("packet: %v", d)
	}
	return p
}

// guest hands segments over as one run of one batch.
func (r *rig) guest(ss ...seg) {
	run := make([]wire.Packet, len(ss))
	for k := range ss {
		run[k] = r.packet(ss[k])
	}
	r.tcp.FromGuest(run)
}

func sockaddr(a wire.Addr, port uint16) syscall.Sockaddr {
	if a.Is4() {
		return &syscall.SockaddrInet4{Port: int(port), Addr: a.V4()}
	}
	return &syscall.SockaddrInet6{Port: int(port), Addr: a}
}

// answer does what the broker does for one request.
func (r *rig) answer(q *flow.Request) {
	o := flow.Opened{Flow: q.Flow, Slot: q.Slot, FD: sys.NoFD, FD2: sys.NoFD, Errno: r.refuse}
	if r.env.Table.Live(q.Flow, q.Gen()) == nil {
		return
	}
	if r.refuse == 0 {
		dst, _ := r.env.Fwd.Outbound(wire.ProtoTCP, &q.Dst, q.DstPort)
		fam := syscall.AF_INET6
		if dst.Is4() {
			fam = syscall.AF_INET
		}
		fd, err := syscall.Socket(fam, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			r.t.Fatal(err)
		}
		_ = sys.OptNoDelay.Set(sys.FD(fd), 1)
		err = syscall.Connect(fd, sockaddr(dst, q.DstPort))
		if err != nil && !errors.Is(err, syscall.EINPROGRESS) {
			r.t.Fatal(err)
		}
		o.FD, o.Target, o.Connected = sys.FD(fd), dst, err == nil
	}
	r.tcp.Opened(&o)
}

// turn runs one turn of the loop; ms is the longest real wait.
func (r *rig) turn(ms int) {
	r.env.RunAgain(r.tcp.Again)
	n, _ := sys.EpollWait(r.env.Ep, r.evs, ms, false)
	for _, ev := range r.evs[:n] {
		idx := ev.Tag[0]
		if r.env.Table.Live(flow.Index(idx>>1), ev.Tag[1]&flow.GenMask) != nil {
			r.tcp.Event(flow.Index(idx>>1), int(idx&1), ev.Events)
		}
	}
	if !r.hold {
		for _, q := range r.env.TakeRequests() {
			r.asked = append(r.asked, q)
			r.answer(&q)
		}
	}
	r.tcp.EndTurn()
	r.env.RunTimers(r.tcp.Timer)
	r.env.EndTurn()
}

// until runs turns until ok or a deadline of real time; the loop's clock stands still.
func (r *rig) until(what string, ok func() bool) {
	r.t.Helper()
	for end := time.Now().Add(5 * time.Second); !ok(); {
		if time.Now().After(end) {
			r.t.Fatalf("no %s in time; out %d segments, drops %v, %+v", what, len(r.out), r.drops(), r.tcp.conns[0])
		}
		r.turn(2)
	}
}

// pass lets ms of the loop's time go by, timer by timer.
func (r *rig) pass(ms int64) {
	end := r.env.NowMs + ms
	for {
		at, ok := r.env.NextTimer()
		if !ok || at > end {
			break
		}
		r.env.NowMs, r.env.NowNs = at, at*1e6
		r.turn(0)
	}
	r.env.NowMs, r.env.NowNs = end, end*1e6
	r.turn(0)
}

// take gives the segments to the guest since the last call.
func (r *rig) take() []seg {
	o := r.out
	r.out = nil
	return o
}

// one takes exactly one segment with these flags.
func (r *rig) one(what string, flags uint8) seg {
	r.t.Helper()
	o := r.take()
	if len(o) != 1 || o[0].flags != flags {
		r.t.Fatalf("%s: got %+v, want one segment with flags %#x", what, o, flags)
	}
	return o[0]
}

func (r *rig) none(what string) {
	r.t.Helper()
	if o := r.take(); len(o) != 0 {
		r.t.Fatalf("%s: got %+v, want nothing", what, o)
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

// conn gives the only connection.
func (r *rig) conn() *conn {
	r.t.Helper()
	for i := range r.env.Table.Rows {
		if r.env.Table.Rows[i].Kind == flow.KindTCP {
			return &r.tcp.conns[i]
		}
	}
	r.t.Fatal("no flow")
	return nil
}

func (r *rig) gone() bool { return r.env.Table.Used() == 0 }
