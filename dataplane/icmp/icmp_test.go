// SPDX-License-Identifier: Apache-2.0

package icmp

import (
	"bytes"
	"encoding/binary"
	"strings"
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
)

type fakeLink struct {
	feat link.Features
	mem  []byte
	seg  [1]link.Seg
	vec  [1]sys.Iovec
	got  [][]byte
}

func (l *fakeLink) FD() sys.FD                 { return sys.NoFD }
func (l *fakeLink) Features() link.Features    { return l.feat }
func (l *fakeLink) Recv(*link.Batch) sys.Errno { return sys.EAGAIN }
func (l *fakeLink) Flush() sys.Errno           { return 0 }
func (l *fakeLink) Reserve(h, p, n int) []link.Seg {
	l.seg[0] = link.Seg{Hdr: l.mem[200-h : 200 : 200], Buf: l.mem[200 : 200+p : 200+p]}
	l.vec[0].Set(l.seg[0].Buf)
	l.seg[0].Vec = l.vec[:]
	return l.seg[:]
}
func (l *fakeLink) Send(s []link.Seg) (int, sys.Errno) {
	l.got = append(l.got, append([]byte(nil), l.mem[200-len(s[0].Hdr):200+s[0].Len]...))
	return 1, 0
}

type rig struct {
	t      testing.TB
	env    *flow.Env
	p      *ICMP
	link   *fakeLink
	asked  []flow.Request
	refuse sys.Errno
	logs   []string
}

func newRig(t testing.TB) *rig {
	ep, e := sys.EpollCreate()
	if e != 0 {
		t.Fatal(e)
	}
	env := flow.NewEnv(flow.NewTable(64, [16]byte{1}), 1e9)
	env.Ep = ep
	env.Fwd = &fwd.Config{UDP: true, ICMP: true, TCP: true,
		V4: fwd.Family{On: true, Guest: guest4, Our: gw4, MapLoop: gw4},
		V6: fwd.Family{On: true, Guest: guest6, Our: gw6, MapLoop: gw6}}
	env.Guest = flow.Guest{MAC: wire.MAC{2, 0, 0, 0, 0, 2}, Seen4: guest4, Seen6: guest6}
	env.Cfg = flow.Config{MTU: 65520, Pasta: true}
	l := &fakeLink{feat: link.Features{Csum: true, TSO: true}, mem: sys.Alloc(70000)}
	env.Link = l
	r := &rig{t: t, env: env, p: New(env), link: l}
	env.Log = func(_ int, s string) { r.logs = append(r.logs, s) }
	t.Cleanup(func() {
		for i := range env.Table.Rows {
			env.End(flow.Index(i))
		}
		env.EndTurn()
		sys.Close(ep)
	})
	return r
}

// pingSocket makes a connected ping socket with a broker's options, or skips.
func (r *rig) pingSocket(dst wire.Addr) sys.FD {
	fam, proto := syscall.AF_INET6, syscall.IPPROTO_ICMPV6
	var sa syscall.Sockaddr = &syscall.SockaddrInet6{Addr: dst}
	opt := sys.OptRecvErr6
	if dst.Is4() {
		fam, proto, opt = syscall.AF_INET, syscall.IPPROTO_ICMP, sys.OptRecvErr4
		sa = &syscall.SockaddrInet4{Addr: dst.V4()}
	}
	fd, err := syscall.Socket(fam, syscall.SOCK_DGRAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, proto)
	if err != nil {
		r.t.Skipf("no ping socket (net.ipv4.ping_group_range?): %v", err)
	}
	opt.Set(sys.FD(fd), 1)
	if err := syscall.Connect(fd, sa); err != nil {
		r.t.Skipf("connect %v: %v", dst, err)
	}
	return sys.FD(fd)
}

func (r *rig) broker() {
	for _, q := range append([]flow.Request(nil), r.env.TakeRequests()...) {
		r.asked = append(r.asked, q)
		o := flow.Opened{Flow: q.Flow, Slot: q.Slot, FD: sys.NoFD, FD2: sys.NoFD, Errno: r.refuse}
		if r.refuse == 0 {
			o.Target, _ = r.env.Fwd.Outbound(protoOf(&q.Dst), &q.Dst, 0)
			o.FD = r.pingSocket(o.Target)
		}
		r.p.Opened(&o)
	}
}

func (r *rig) turn(ms int) {
	r.broker()
	r.env.RunAgain(r.p.Again)
	var evs [8]sys.PollEvent
	n, _ := sys.EpollWait(r.env.Ep, evs[:], ms, false)
	for _, ev := range evs[:n] {
		r.p.Event(flow.Index(ev.Tag[0]>>1), int(ev.Tag[0]&1), ev.Events)
	}
	r.env.EndTurn()
}

func (r *rig) until(what string, ok func() bool) {
	r.t.Helper()
	for end := time.Now().Add(3 * time.Second); !ok(); {
		if time.Now().After(end) {
			r.t.Fatalf("no %s in time", what)
		}
		r.turn(5)
	}
}

// echo builds an echo request of the guest.
func echo(t testing.TB, src, dst wire.Addr, id, seq uint16, ttl uint8, b []byte) *wire.Packet {
	n := wire.ICMPSize + len(b)
	f := make([]byte, wire.EthSize+wire.IPHeaderLen(&dst)+n)
	wire.PutEth(f, &wire.MAC{2}, &wire.MAC{4}, wire.EtherTypeOf(&dst))
	ip := wire.PutIP(f[wire.EthSize:], &src, &dst, protoOf(&dst), n, 0)
	if dst.Is4() {
		f[wire.EthSize+8] = ttl
	} else {
		f[wire.EthSize+7] = ttl
	}
	m := f[wire.EthSize+ip:]
	m[0], _ = echoTypes(dst.Is4())
	binary.BigEndian.PutUint16(m[4:], id)
	binary.BigEndian.PutUint16(m[6:], seq)
	copy(m[8:], b)
	wire.PutICMPChecksum(m, &src, &dst)
	var p wire.Packet
	if d := p.Parse(f, &wire.Vnet{}); d != wire.DropNone {
		t.Fatal(d)
	}
	return &p
}

// message takes a frame to the guest apart and checks its checksum.
func message(t testing.TB, f []byte) *wire.Packet {
	t.Helper()
	var p wire.Packet
	if d := p.Parse(f, &wire.Vnet{}); d != wire.DropNone {
		t.Fatal(d)
	}
	sum := uint64(0)
	if !p.Src.Is4() {
		sum = wire.PseudoSum(&p.Src, &p.Dst, wire.ProtoICMPv6, len(p.L4))
	}
	if wire.Fold(wire.Sum(p.L4, sum)) != 0xffff {
		t.Error("wrong checksum")
	}
	return &p
}

func TestPing_MappedGateway_ReplyHasGuestsIdentifier(t *testing.T) {
	for _, c := range []struct{ guest, dst wire.Addr }{{guest4, gw4}, {guest6, gw6}} {
		r := newRig(t)
		for k, n := range []int{0, 56, 1400, 60000} {
			r.link.got = nil
			b := bytes.Repeat([]byte{byte(n), 7}, n/2)
			for _, id := range []uint16{0x1234, 0x4321} {
				r.p.FromGuest(echo(t, c.guest, c.dst, id, uint16(k), 64, b))
			}
			r.until("replies", func() bool { return len(r.link.got) >= 2 })
			ids := map[uint16]bool{}
			for _, f := range r.link.got {
				p := message(t, f)
				ids[binary.BigEndian.Uint16(p.L4[4:])] = true
				if _, want := echoTypes(c.dst.Is4()); p.L4[0] != want || p.Src != c.dst || p.Dst != c.guest ||
					binary.BigEndian.Uint16(p.L4[6:]) != uint16(k) || !bytes.Equal(p.L4[8:], b) {
					t.Fatalf("%d bytes: % x from %v", n, p.L4[:8], p.Src)
				}
			}
			if !ids[0x1234] || !ids[0x4321] {
				t.Errorf("identifiers %v", ids)
			}
		}
		if r.env.Table.Used() != 2 || len(r.asked) != 2 {
			t.Errorf("%d flows, %d requests", r.env.Table.Used(), len(r.asked))
		}
	}
}

func TestPing_OtherMessages_Dropped(t *testing.T) {
	r := newRig(t)
	p := echo(t, guest4, gw4, 1, 1, 64, nil)
	for _, c := range [][2]byte{{0, 0}, {13, 0}, {5, 0}, {3, 3}, {8, 1}, {128, 0}} {
		p.L4[0], p.L4[1] = c[0], c[1]
		r.p.FromGuest(p)
	}
	p.L4[0], p.L4[1] = 8, 0
	p.L4 = p.L4[:7]
	r.p.FromGuest(p)
	if r.env.Drops[wire.DropICMP] != 7 || r.env.Table.Used() != 0 {
		t.Errorf("%d drops, %d flows", r.env.Drops[wire.DropICMP], r.env.Table.Used())
	}
}

func TestPing_NoPermission_OneWarningAMinuteAndGuestTold(t *testing.T) {
	r := newRig(t)
	r.refuse = sys.EACCES
	for k := range 5 {
		r.p.FromGuest(echo(t, guest4, wire.Addr4(198, 51, 100, 1), uint16(k), 9, 64, []byte("data")))
		r.turn(0)
	}
	if len(r.logs) != 1 || !strings.Contains(r.logs[0], "net.ipv4.ping_group_range") {
		t.Errorf("%q", r.logs)
	}
	if len(r.link.got) != 5 || r.env.Table.Used() != 0 {
		t.Fatalf("%d frames, %d flows", len(r.link.got), r.env.Table.Used())
	}
	p := message(t, r.link.got[3])
	if q := p.L4[8+20:]; p.L4[0] != 3 || p.L4[1] != 13 || q[0] != 8 || binary.BigEndian.Uint16(q[4:]) != 3 || binary.BigEndian.Uint16(q[6:]) != 9 {
		t.Errorf("% x", p.L4)
	}
	r.env.NowMs += warnMs
	r.p.FromGuest(echo(t, guest4, gw4, 77, 9, 64, nil))
	r.turn(0)
	if len(r.logs) != 2 {
		t.Errorf("%d warnings after a minute", len(r.logs))
	}
}

func TestPing_Idle60s_Ends(t *testing.T) {
	r := newRig(t)
	r.p.FromGuest(echo(t, guest4, gw4, 1, 1, 64, nil))
	r.turn(0)
	at := r.env.NowMs
	for _, c := range []struct{ after, flows int64 }{{60000, 1}, {61000, 0}} {
		r.env.NowMs = at + c.after
		r.env.RunTimers(r.p.Timer)
		r.env.EndTurn()
		if int64(r.env.Table.Used()) != c.flows {
			t.Errorf("%d flows after %d ms", r.env.Table.Used(), c.after)
		}
	}
}

// begun gives a flow with a socket.
func begun(t *testing.T) (*rig, flow.Index) {
	r := newRig(t)
	r.p.FromGuest(echo(t, guest4, gw4, 0x1234, 1, 64, nil))
	r.until("reply", func() bool { return len(r.link.got) > 0 })
	for range 3 {
		r.turn(1)
	}
	i, _, _ := r.env.Table.Lookup(wire.ProtoICMP, &flow.Side{Our: gw4, Ep: guest4, OurPort: 0x1234, EpPort: 0x1234, Pif: fwd.PifTap})
	r.link.got = nil
	return r, i
}

func TestReply_SecondCopyAndRepeatedRequest_OnlyCopyDropped(t *testing.T) {
	r, i := begun(t)
	m := []byte{0, 0, 0, 0, 9, 9, 0, 5, 'x'}
	reply := func() wire.Drop { return r.p.reply(i, append([]byte(nil), m...), false) }
	r.p.st[i].replied = false
	if d := reply(); d != wire.DropNone {
		t.Error(d)
	}
	if d := reply(); d != wire.DropDuplicate {
		t.Error("second copy:", d)
	}
	r.env.NowMs += 100
	if d := reply(); d != wire.DropNone {
		t.Error("late one:", d)
	}
	r.p.FromGuest(echo(t, guest4, gw4, 0x1234, 5, 64, nil))
	if d := reply(); d != wire.DropNone {
		t.Error("repeated request:", d)
	}
}

func TestReply_Sizes_FitOrCounted(t *testing.T) {
	r, i := begun(t)
	for _, c := range []struct {
		n    int
		want wire.Drop
	}{{7, wire.DropICMP}, {8, wire.DropNone}, {65515, wire.DropNone}, {65516, wire.DropTooBig}} {
		r.env.NowMs += 100
		if d := r.p.reply(i, make([]byte, c.n), false); d != c.want {
			t.Errorf("%d bytes: %v", c.n, d)
		}
	}
	r.link.feat, r.env.Cfg.MTU, r.link.got = link.Features{}, 1500, nil
	r.env.NowMs += 100
	b := bytes.Repeat([]byte{0, 0, 0, 0, 9, 9, 0, 5}, 1000)
	r.p.reply(i, b, false)
	re := wire.NewReassembler()
	for k, f := range r.link.got {
		whole, ok, d := re.Add(f, 0)
		if d != wire.DropNone || len(f) > 1514 || ok != (k == len(r.link.got)-1) {
			t.Fatal(k, ok, d, len(f))
		}
		if ok && len(message(t, whole).L4) != 8000 {
			t.Error("wrong length")
		}
	}
}

func TestReportError_TimeExceeded_QuotesGuestsRequest(t *testing.T) {
	r, i := begun(t)
	hop := wire.Addr4(203, 0, 113, 1)
	orig := []byte{8, 0, 0, 0, 0xaa, 0xbb, 0, 7, 1, 2, 3, 4}
	wire.PutICMPChecksum(orig, &guest4, &gw4)
	r.p.reportError(i, &sys.ExtErr{Errno: sys.EHOSTUNREACH, Origin: sys.ErrOriginICMP, Type: 11, Offender: hop, HasOffender: true}, orig)
	p := message(t, r.link.got[0])
	q := p.L4[8+20:]
	if p.Src != hop || p.L4[0] != 11 || binary.BigEndian.Uint16(q[4:]) != 0x1234 || q[7] != 7 || wire.Fold(wire.Sum(q, 0)) != 0xffff {
		t.Errorf("%v: % x", p.Src, p.L4)
	}
	for _, x := range []sys.ExtErr{
		{Origin: sys.ErrOriginICMP, Type: 5, Offender: hop, HasOffender: true},
		{Origin: sys.ErrOriginICMP6, Type: 3, Offender: hop, HasOffender: true},
		{Origin: sys.ErrOriginICMP, Type: 3},
		{Origin: sys.ErrOriginLocal, Errno: sys.EPERM},
		{Origin: 9},
	} {
		r.p.reportError(i, &x, orig)
	}
	if len(r.link.got) != 1 {
		t.Errorf("%d frames", len(r.link.got))
	}
	r.p.reportError(i, &sys.ExtErr{Origin: sys.ErrOriginLocal, Errno: sys.EMSGSIZE, Info: 1400}, nil)
	if p := message(t, r.link.got[1]); p.L4[0] != 3 || p.L4[1] != 4 || binary.BigEndian.Uint16(p.L4[6:]) != 1400 || p.Src != gw4 {
		t.Errorf("% x", p.L4)
	}
}

func TestPing_TTL_CopiedToSocket(t *testing.T) {
	r, i := begun(t)
	for _, ttl := range []uint8{1, 7, 255} {
		r.p.FromGuest(echo(t, guest4, gw4, 0x1234, 2, ttl, nil))
		if v, _ := sys.GetsockoptInt(r.env.Table.Rows[i].FD[1], sys.OptTTL4.Level, sys.OptTTL4.Name); v != int(ttl) {
			t.Errorf("socket has %d, want %d", v, ttl)
		}
	}
}

func TestSteadyPath_NoAllocation(t *testing.T) {
	r, i := begun(t)
	p := echo(t, guest4, gw4, 0x1234, 2, 64, []byte("data"))
	m := make([]byte, 64)
	if n := testing.AllocsPerRun(50, func() {
		r.env.NowMs += 100
		r.p.FromGuest(p)
		r.link.got = r.link.got[:0]
		_ = r.p.reply(i, m, false)
	}); n > 1 { // the fake link copies the frame
		t.Errorf("%v allocations", n)
	}
}
