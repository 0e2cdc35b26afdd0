// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"passt/dataplane/fwd"
	"passt/dataplane/wire"
	"passt/internal/sys"
	"passt/ipc"
)

// table is a set of listeners with the worker's end of its channel.
type table struct {
	*Listeners
	w     *ipc.Conn
	warns []string
}

func newTable(t *testing.T, side fwd.Pif, cfg *fwd.Config, rules ...fwd.Rule) *table {
	t.Helper()
	x, y, e := sys.SeqPair()
	if e != 0 {
		t.Fatal(e)
	}
	tb := &table{w: ipc.NewConn(y)}
	tb.Listeners = NewListeners(side, cfg, rules, ipc.NewConn(x), func(s string) { tb.warns = append(tb.warns, s) })
	t.Cleanup(func() {
		for _, l := range tb.open {
			sys.Close(l.FD)
		}
		sys.Close(x)
		sys.Close(y)
	})
	return tb
}

// grants takes what the worker has been sent: grants with their descriptors, and revoked names.
func (tb *table) grants(t *testing.T) (gs map[uint16]sys.FD, ids map[uint32]uint16, revoked []uint32) {
	t.Helper()
	gs, ids = map[uint16]sys.FD{}, map[uint32]uint16{}
	var m ipc.Message
	for {
		ok, err := tb.w.Recv(&m)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return gs, ids, revoked
		}
		var g ipc.Grant
		g.Parse(m.Record(0))
		if m.Kind == ipc.KindRevoke {
			revoked = append(revoked, g.ID)
			continue
		}
		if m.Kind != ipc.KindGrant || m.Count != 1 || len(m.FDs) != 1 || g.Pif != tb.side {
			t.Fatalf("%+v %+v", m.Header, g)
		}
		r := &tb.rules[g.Rule]
		if wantType := map[bool]ipc.GrantType{true: ipc.GrantTCP, false: ipc.GrantUDP}[r.Proto == fwd.ProtoTCP]; g.Type != wantType || !r.Has(g.Port) || g.Addr != r.Addr {
			t.Fatalf("%+v for %v", g, r)
		}
		fd := m.FDs[0]
		t.Cleanup(func() { sys.Close(fd) })
		if _, p := localOf(t, fd); p != g.Port {
			t.Fatalf("bound to %d, granted as %d", p, g.Port)
		}
		gs[g.Port], ids[g.ID] = fd, g.Port
	}
}

func rule(proto uint8, first, last uint16, f func(r *fwd.Rule)) fwd.Rule {
	r := fwd.Rule{Flags: fwd.RuleDual, First: first, Last: last, To: first, Proto: proto}
	if f != nil {
		f(&r)
	}
	return r
}

func at(a wire.Addr) func(r *fwd.Rule) {
	return func(r *fwd.Rule) { r.Addr, r.Flags = a, r.Flags&^fwd.RuleDual }
}

func TestOpenAll_Ranges_EveryPortGranted(t *testing.T) {
	needNS(t)
	before := openFDs(t)
	tb := newTable(t, fwd.PifHost, usual(), rule(fwd.ProtoTCP, 20000, 20009, nil), rule(fwd.ProtoUDP, 20000, 20002, nil))
	if err := tb.OpenAll(); err != nil {
		t.Fatal(err)
	}
	if len(tb.open) != 13 {
		t.Fatalf("%d open", len(tb.open))
	}
	if gs, _, _ := tb.grants(t); len(gs) != 0 {
		t.Error("granted before the worker is ready")
	}
	if err := tb.GrantAll(); err != nil {
		t.Fatal(err)
	}
	_, ids, _ := tb.grants(t)
	if len(ids) != 13 {
		t.Errorf("%d listeners granted", len(ids))
	}
	if n := openFDs(t); n != before+2+13 {
		t.Errorf("%d descriptors, want %d: our copies must be closed", n, before+15)
	}
}

func TestOpenAll_PortInUse_ErrorNamesObject(t *testing.T) {
	needNS(t)
	server(t, sys.SockStream, ip("0.0.0.0"), 20100)
	server(t, sys.SockDgram, lo6, 20100)
	for _, c := range []struct {
		r    fwd.Rule
		want string
	}{
		{rule(fwd.ProtoTCP, 20100, 20100, nil), "cannot listen on TCP * port 20100: address already in use"},
		{rule(fwd.ProtoTCP, 20098, 20100, at(lo4)), "cannot listen on TCP 127.0.0.1 port 20100: address already in use"},
		{rule(fwd.ProtoUDP, 20100, 20100, at(lo6)), "cannot listen on UDP ::1 port 20100: address already in use"},
		{rule(fwd.ProtoUDP, 20100, 20100, at(wire.Addr{})), "cannot listen on UDP :: port 20100: address already in use"},
		{rule(fwd.ProtoTCP, 20101, 20101, at(other)), "cannot listen on TCP 203.0.113.5 port 20101: cannot assign requested address"},
		{rule(fwd.ProtoTCP, 20101, 20101, func(r *fwd.Rule) { r.If, _ = fwd.MakeIfName("nosuch0") }), "cannot listen on TCP *%nosuch0 port 20101: bind to device nosuch0: no such device"},
	} {
		err := newTable(t, fwd.PifHost, usual(), c.r).OpenAll()
		if err == nil || err.Error() != c.want {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	withoutBindRight(t, func() {
		err := newTable(t, fwd.PifHost, usual(), rule(fwd.ProtoTCP, 80, 80, nil)).OpenAll()
		if !errors.Is(err, sys.EACCES) || !strings.Contains(err.Error(), "port 80: permission denied") {
			t.Errorf("port 80: %v", err)
		}
	})
}

func TestOpenAll_BestEffort_FatalOnlyWhenNothingBinds(t *testing.T) {
	needNS(t)
	server(t, sys.SockStream, ip("0.0.0.0"), 20200)
	server(t, sys.SockStream, ip("0.0.0.0"), 20202)
	best := func(r *fwd.Rule) { r.Flags |= fwd.RuleBestEffort }
	tb := newTable(t, fwd.PifHost, usual(), rule(fwd.ProtoTCP, 20200, 20203, best))
	if err := tb.OpenAll(); err != nil || len(tb.open) != 2 {
		t.Errorf("%v, %d open", err, len(tb.open))
	}
	if len(tb.warns) != 1 || !strings.Contains(tb.warns[0], "2 ports could not be bound") {
		t.Errorf("%q", tb.warns)
	}
	one := newTable(t, fwd.PifHost, usual(), rule(fwd.ProtoTCP, 20200, 20200, best))
	if err := one.OpenAll(); err == nil || !strings.HasPrefix(err.Error(), "no port of TCP [*]:20200") {
		t.Errorf("%v", err)
	}
}

func TestListenSocket_Families_AsSpecified(t *testing.T) {
	needNS(t)
	cl := func(a wire.Addr, port uint16) sys.Errno {
		fd, _ := sys.Socket(family(&a), sys.SockStream, 0)
		defer sys.Close(fd)
		sa := sys.MakeSockAddr6(a, port, 0)
		if a.Is4() {
			sa = sys.MakeSockAddr4(a.V4(), port)
		}
		if e := sys.Connect(fd, &sa); e != 0 && e != sys.EINPROGRESS {
			return e
		}
		return sys.SocketError(fd)
	}
	port := uint16(20300)
	for _, c := range []struct {
		name                     string
		f                        func(r *fwd.Rule)
		lo4, own4, lo6ok, own6ok bool
	}{
		{"dual", nil, true, true, true, true},
		{"IPv4 wildcard", at(any4), true, true, false, false},
		{"IPv6 wildcard", at(wire.Addr{}), false, false, true, true},
		{"one IPv4", at(own4), false, true, false, false},
		{"one IPv6", at(own6), false, false, false, true},
		{"on lo", func(r *fwd.Rule) { r.If, _ = fwd.MakeIfName("lo") }, true, true, true, true},
	} {
		port++
		tb := newTable(t, fwd.PifHost, usual(), rule(fwd.ProtoTCP, port, port, c.f))
		if err := tb.OpenAll(); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		for _, to := range []struct {
			a    wire.Addr
			want bool
		}{{lo4, c.lo4}, {own4, c.own4}, {lo6, c.lo6ok}, {own6, c.own6ok}} {
			if e := cl(to.a, port); (e == 0) != to.want {
				t.Errorf("%s: connect to %v: %v", c.name, to.a, e)
			}
		}
	}
	// 4.4: the two plain wildcards stand side by side.
	tb := newTable(t, fwd.PifHost, usual(), rule(fwd.ProtoTCP, 20400, 20400, at(any4)), rule(fwd.ProtoTCP, 20400, 20400, at(wire.Addr{})),
		rule(fwd.ProtoUDP, 20400, 20400, at(any4)), rule(fwd.ProtoUDP, 20400, 20400, at(wire.Addr{})))
	if err := tb.OpenAll(); err != nil || len(tb.open) != 4 {
		t.Errorf("side by side: %v", err)
	}
	free := newTable(t, fwd.PifHost, with(func(c *fwd.Config) { c.FreeBind = true }), rule(fwd.ProtoTCP, 20401, 20401, at(other)), rule(fwd.ProtoUDP, 20401, 20401, at(ip("2001:db8:9::9"))))
	if err := free.OpenAll(); err != nil {
		t.Errorf("--freebind: %v", err)
	}
}

func TestListenSocket_UDP_ReceivesNeverSends(t *testing.T) {
	needNS(t)
	port := uint16(20500)
	for _, f := range []func(r *fwd.Rule){nil, at(any4), at(wire.Addr{}), at(lo4), at(lo6)} {
		port++
		tb := newTable(t, fwd.PifHost, usual(), rule(fwd.ProtoUDP, port, port, f))
		if err := tb.OpenAll(); err != nil {
			t.Fatal(err)
		}
		if err := tb.GrantAll(); err != nil {
			t.Fatal(err)
		}
		gs, _, _ := tb.grants(t)
		fd := gs[port]
		addr, _ := localOf(t, fd)
		to := lo6
		if addr.Is4() {
			to = lo4
		}
		if err := sends(fd, to, 9); !errors.Is(err, unix.EPIPE) {
			t.Errorf("%v: send: %v", addr, err)
		}
		if _, e := sys.Write(fd, []byte("x")); e != sys.EPIPE && e != unix.EDESTADDRREQ {
			t.Errorf("%v: write: %v", addr, e)
		}
		client, _ := server(t, sys.SockDgram, to, 0)
		if err := sends(client, to, port); err != nil {
			t.Fatal(err)
		}
		if n, e := sys.Recv(fd, make([]byte, 9), 0); n != 1 || e != 0 {
			t.Errorf("%v: received %d %v", addr, n, e)
		}
	}
}

func scan(r *fwd.Rule) { r.Flags |= fwd.RuleScan | fwd.RuleBestEffort }

func ports(ps ...uint16) *Ports {
	var s Ports
	for _, p := range ps {
		s.Set(p)
	}
	return &s
}

func (tb *table) openPorts() string {
	var s []string
	for i := range tb.rules {
		for p := uint32(0); p < 65536; p++ {
			if tb.open[key(i, uint16(p))] != nil {
				s = append(s, fmt.Sprintf("%d:%d", i, p))
			}
		}
	}
	return strings.Join(s, " ")
}

func TestApply_ScanRules_FollowTargetPorts(t *testing.T) {
	needNS(t)
	tb := newTable(t, fwd.PifHost, usual(), rule(fwd.ProtoTCP, 21000, 21010, func(r *fwd.Rule) { scan(r); r.To = 22000 }),
		rule(fwd.ProtoUDP, 21000, 21010, scan), rule(fwd.ProtoTCP, 21020, 21020, nil))
	if err := tb.OpenAll(); err != nil {
		t.Fatal(err)
	}
	if got := tb.openPorts(); got != "2:21020" || !tb.NeedsScan() {
		t.Fatalf("scan rules opened at once: %s", got)
	}
	if err := tb.GrantAll(); err != nil {
		t.Fatal(err)
	}
	_, ids, _ := tb.grants(t)
	for _, c := range []struct {
		tcp, udp *Ports
		want     string
	}{
		{ports(22001, 21005, 80), ports(), "0:21001 1:21005 2:21020"}, // target number decides; TCP counts for UDP
		{ports(22001), ports(21003, 22002), "0:21001 1:21003 2:21020"},
		{ports(22001), ports(21003, 22002), "0:21001 1:21003 2:21020"},
		{ports(), ports(), "2:21020"},
		{ports(22000, 22010, 22011, 21999), ports(), "0:21000 0:21010 2:21020"},
	} {
		tb.Apply(c.tcp, c.udp)
		if got := tb.openPorts(); got != c.want {
			t.Errorf("open %q, want %q", got, c.want)
		}
		_, more, revoked := tb.grants(t)
		for id, p := range more {
			ids[id] = p
		}
		for _, id := range revoked {
			if _, ok := ids[id]; !ok {
				t.Errorf("revoked %d, which was never granted", id)
			}
			delete(ids, id)
		}
		if n := len(strings.Fields(c.want)); len(ids) != n {
			t.Errorf("the worker holds %d listeners, want %d", len(ids), n)
		}
	}
	if len(tb.warns) != 0 {
		t.Errorf("%q", tb.warns)
	}
}

func TestRetry_PortFreed_TakenAndToldOnce(t *testing.T) {
	needNS(t)
	busy, _ := server(t, sys.SockStream, any4, 21100)
	tb := newTable(t, fwd.PifHost, usual(), rule(fwd.ProtoTCP, 21100, 21101, scan))
	tb.Apply(ports(21100, 21101), ports())
	tb.Retry()
	tb.Retry()
	if got := tb.openPorts(); got != "0:21101" || len(tb.warns) != 1 || !strings.Contains(tb.warns[0], "TCP * port 21100: address already in use") {
		t.Fatalf("%s %q", got, tb.warns)
	}
	// No longer wanted, wanted again: news again.
	tb.Apply(ports(21101), ports())
	tb.Apply(ports(21100, 21101), ports())
	if len(tb.warns) != 2 {
		t.Errorf("%q", tb.warns)
	}
	stop(t, busy)
	tb.Retry()
	if got := tb.openPorts(); got != "0:21100 0:21101" || len(tb.failed) != 0 {
		t.Errorf("%s, %d failed", got, len(tb.failed))
	}
	before := openFDs(t)
	tb.Apply(ports(), ports())
	if n := openFDs(t); n != before-2 {
		t.Errorf("%d descriptors, want %d", n, before-2)
	}
}

func TestOwn_ListenersOfBothProtocols_Excluded(t *testing.T) {
	needNS(t)
	tb := newTable(t, fwd.PifHost, usual(), rule(fwd.ProtoTCP, 21200, 21200, nil), rule(fwd.ProtoUDP, 21201, 21201, nil))
	if err := tb.OpenAll(); err != nil {
		t.Fatal(err)
	}
	var own Ports
	tb.Own(&own)
	if own != *ports(21200, 21201) {
		t.Error("own ports")
	}
	p := ports(1, 21200, 21201, 65535)
	p.Remove(&own)
	if *p != *ports(1, 65535) {
		t.Error("Remove")
	}
	b := make([]byte, 8192)
	p.Put(b)
	var q Ports
	q.Get(b)
	if q != *p || !q.Has(65535) || q.Has(0) {
		t.Error("Put and Get")
	}
	q.clear(65535)
	if q != *ports(1) {
		t.Error("clear")
	}
}

// TestGrant_WorkerGone_ErrorNotHang: a closed channel ends the hand-over with an error.
func TestGrant_WorkerGone_ErrorNotHang(t *testing.T) {
	needNS(t)
	tb := newTable(t, fwd.PifHost, usual(), rule(fwd.ProtoTCP, 21300, 21301, nil))
	if err := tb.OpenAll(); err != nil {
		t.Fatal(err)
	}
	if e := sys.Shutdown(tb.w.FD, sys.ShutRd); e != 0 {
		t.Fatal(e)
	}
	if err := tb.GrantAll(); err == nil || !strings.Contains(err.Error(), "hand over a listening socket") {
		t.Errorf("%v", err)
	}
}

// TestOpenAll_OutOfDescriptors_SomeAreLeft: what comes after the listeners, the tap's descriptor for one, still finds room.
func TestOpenAll_OutOfDescriptors_SomeAreLeft(t *testing.T) {
	needNS(t)
	tb := newTable(t, fwd.PifHost, usual(), rule(fwd.ProtoTCP, 21000, 21999, func(r *fwd.Rule) { r.Flags |= fwd.RuleBestEffort }))
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	top, err := unix.FcntlInt(uintptr(tb.w.FD), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(top)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(top) + 100, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	err = tb.OpenAll()
	r, w, e := sys.Pipe(4096)
	if e := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); e != nil {
		t.Fatal(e)
	}
	if err != nil || len(tb.open) < 60 || len(tb.open) > 70 {
		t.Errorf("%v, %d open, want about 100 - 32", err, len(tb.open))
	}
	if e != 0 {
		t.Errorf("nothing left: %v", e)
	}
	sys.Close(r)
	sys.Close(w)
}
