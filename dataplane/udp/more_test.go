// SPDX-License-Identifier: Apache-2.0

package udp

import (
	"encoding/binary"
	"net"
	"testing"

	"passt/dataplane/flow"
	"passt/dataplane/fwd"
	"passt/dataplane/wire"
	"passt/internal/sys"
)

func TestReportError_QueueEntries_OnlyErrorsReachGuest(t *testing.T) {
	hop4, hop6 := wire.Addr4(203, 0, 113, 1), wire.Addr{0: 0x20, 1: 0x01, 2: 0x0d, 3: 0xb8, 4: 9, 15: 1}
	for _, c := range []struct {
		name       string
		six        bool
		x          sys.ExtErr
		from       wire.Addr // zero: nothing is sent
		kind, code uint8
		mtu        uint32
	}{
		{"time exceeded", false, sys.ExtErr{Origin: 2, Type: 11, Offender: hop4, HasOffender: true}, hop4, 11, 0, 0},
		{"time exceeded", true, sys.ExtErr{Origin: 3, Type: 3, Offender: hop6, HasOffender: true}, hop6, 3, 0, 0},
		{"target itself", false, sys.ExtErr{Origin: 2, Type: 3, Code: 3, Offender: loop4, HasOffender: true}, gw4, 3, 3, 0},
		{"path MTU", false, sys.ExtErr{Origin: 2, Type: 3, Code: 4, Info: 1400, Offender: hop4, HasOffender: true}, hop4, 3, 4, 1400},
		{"path MTU", true, sys.ExtErr{Origin: 3, Type: 2, Info: 1300, Offender: hop6, HasOffender: true}, hop6, 2, 0, 1300},
		{"local size", false, sys.ExtErr{Errno: sys.EMSGSIZE, Origin: 1, Info: 1450}, gw4, 3, 4, 1450},
		{"local size", true, sys.ExtErr{Errno: sys.EMSGSIZE, Origin: 1, Info: 1450}, gw6, 2, 0, 1450},
		{"local other", false, sys.ExtErr{Errno: sys.EPERM, Origin: 1}, wire.Addr{}, 0, 0, 0},
		{"redirect", false, sys.ExtErr{Origin: 2, Type: 5, Offender: hop4, HasOffender: true}, wire.Addr{}, 0, 0, 0},
		{"router advertisement", true, sys.ExtErr{Origin: 3, Type: 134, Offender: hop6, HasOffender: true}, wire.Addr{}, 0, 0, 0},
		{"no offender", false, sys.ExtErr{Origin: 2, Type: 3}, wire.Addr{}, 0, 0, 0},
		{"other family", false, sys.ExtErr{Origin: 3, Type: 1, Offender: hop6, HasOffender: true}, wire.Addr{}, 0, 0, 0},
		{"timestamp", false, sys.ExtErr{Origin: 4}, wire.Addr{}, 0, 0, 0},
	} {
		r := newRig(t)
		g, d := guest4, gw4
		if c.six {
			g, d = guest6, gw6
		}
		r.u.FromGuest([]wire.Packet{packet(t, g, d, 4444, 53, 64, nil)})
		r.u.reportError(r.flow(), 1, &c.x, []byte("0123456789"))
		if c.from.IsZero() {
			if len(r.link.got) != 0 {
				t.Errorf("%s: a frame", c.name)
			}
			continue
		}
		var p wire.Packet
		if len(r.link.got) != 1 || p.Parse(r.link.got[0].b, &wire.Vnet{}) != wire.DropNone {
			t.Errorf("%s: %d frames", c.name, len(r.link.got))
			continue
		}
		ipLen := wire.IPHeaderLen(&d)
		q := p.L4[wire.ICMPSize+ipLen:]
		want := "01234567"
		if c.six {
			want = "0123456789"
		}
		if p.Src != c.from || p.Dst != g || p.L4[0] != c.kind || p.L4[1] != c.code || binary.BigEndian.Uint32(p.L4[4:]) != c.mtu ||
			string(q[8:]) != want || binary.BigEndian.Uint16(q) != 4444 || binary.BigEndian.Uint16(q[2:]) != 53 {
			t.Errorf("%s: %v % x", c.name, p.Src, p.L4)
		}
	}
}

func TestFromHost_LinkFull_DatagramsWaitInSocket(t *testing.T) {
	r, h := newRig(t), peer(t, "127.0.0.1:0")
	r.u.FromGuest([]wire.Packet{packet(t, guest4, gw4, 4444, portOf(h), 64, []byte("x"))})
	r.turn(0)
	_, from := read(t, h)
	h.WriteToUDP([]byte("0"), from)
	r.until("first", func() bool { return len(r.link.got) == 1 })
	r.link.full = true
	h.WriteToUDP([]byte("1"), from)
	h.WriteToUDP([]byte("2"), from)
	r.turn(10)
	r.turn(0)
	r.link.full = false
	r.until("the rest", func() bool { _, d := datagrams(t, r.link.got); return len(d) == 3 })
	if _, d := datagrams(t, r.link.got); string(d[1]) != "1" || string(d[2]) != "2" {
		t.Errorf("%q", d)
	}
}

// TestFreshSocket_StrangersDatagram: a socket that is bound and not yet connected catches datagrams of others.
func TestFreshSocket_StrangersDatagram_NotTheFlows(t *testing.T) {
	r, h := newRig(t), peer(t, "127.0.0.1:0")
	stranger := peer(t, "127.0.0.1:0")
	r.hold = true
	r.u.FromGuest([]wire.Packet{packet(t, guest4, gw4, 4444, portOf(h), 64, []byte("x"))})
	q := append([]flow.Request(nil), r.env.TakeRequests()...)
	fd := r.socket(wire.Addr4(0, 0, 0, 0), 0)
	s, _ := sys.LocalAddr(sys.FD(fd))
	_, port, _ := s.Get()
	stranger.WriteToUDP([]byte("stranger"), &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: int(port)})
	if err := connect(fd, loop4, portOf(h)); err != nil {
		t.Fatal(err)
	}
	h.WriteToUDP([]byte("friend"), &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: int(port)})
	r.u.Opened(&flow.Opened{Flow: q[0].Flow, Slot: 1, FD: sys.FD(fd), Target: loop4, LocalPort: port})
	r.until("frame", func() bool { return len(r.link.got) > 0 })
	r.turn(5)
	_, d := datagrams(t, r.link.got)
	if len(d) != 1 || string(d[0]) != "friend" || r.env.Drops[wire.DropNoFlow] != 1 {
		t.Errorf("%q, %v", d, r.drops())
	}
}

func TestEndTurn_LastFlowGone_BuffersReleased(t *testing.T) {
	r := newRig(t)
	r.hold = true
	r.u.FromGuest([]wire.Packet{packet(t, guest4, gw4, 4444, 9, 64, fill(5000, 1))})
	r.u.slots[0], r.u.run[0] = 1, 1
	r.u.EndTurn()
	if r.u.slots[0] != 1 {
		t.Error("released while a flow lives")
	}
	r.u.end(r.flow())
	r.env.EndTurn()
	r.u.EndTurn()
	if r.u.slots[0] != 0 || r.u.run[0] != 0 || r.u.wait.fresh != 0 || r.u.wait.left != waitChunks {
		t.Error("not released")
	}
	r.env.TakeRequests()
	r.u.FromGuest([]wire.Packet{packet(t, guest4, gw4, 4444, 9, 64, fill(5000, 1))})
	if b, _, _, ok := r.u.wait.pop(&r.u.st[r.flow()], r.u.run); !ok || len(b) != 5000 || b[4999] != fill(5000, 1)[4999] {
		t.Error("queue broken after its release")
	}
}

func TestInbound_Targets_ByRuleAndAddress(t *testing.T) {
	ext := wire.Addr4(198, 51, 100, 7)
	inside := wire.Addr4(192, 0, 2, 77)
	for _, c := range []struct {
		name     string
		pif      fwd.Pif
		src, dst wire.Addr
		target   wire.Addr
		splice   bool
		only     bool
		loToLo   bool
		wantPif  fwd.Pif
		ep       wire.Addr
		our      wire.Addr
		drop     wire.Drop
		unknown  bool // guest's address not known
	}{
		{name: "outside client", pif: fwd.PifHost, src: ext, dst: wire.Addr4(203, 0, 113, 2), splice: true, wantPif: fwd.PifTap, ep: guest4, our: ext},
		{name: "target address", pif: fwd.PifHost, src: loop4, dst: loop4, target: inside, splice: true, wantPif: fwd.PifTap, ep: inside, our: gw4},
		{name: "loopback spliced", pif: fwd.PifHost, src: loop4, dst: loop4, splice: true, wantPif: fwd.PifSplice, ep: guest4},
		{name: "loopback to loopback", pif: fwd.PifHost, src: loop4, dst: wire.Addr4(127, 0, 0, 5), splice: true, loToLo: true, wantPif: fwd.PifSplice, ep: wire.Addr4(127, 0, 0, 5)},
		{name: "no splice", pif: fwd.PifHost, src: loop4, dst: loop4, wantPif: fwd.PifTap, ep: guest4, our: gw4},
		{name: "splice only, outside", pif: fwd.PifHost, src: ext, dst: ext, splice: true, only: true, drop: wire.DropNoRule},
		{name: "namespace to host", pif: fwd.PifSplice, src: wire.Addr4(127, 0, 0, 9), dst: loop4, splice: true, wantPif: fwd.PifHost, ep: loop4, our: wire.Addr4(127, 0, 0, 9)},
		{name: "namespace, not loopback", pif: fwd.PifSplice, src: guest4, dst: guest4, splice: true, drop: wire.DropNoRule},
		{name: "no guest yet", pif: fwd.PifHost, src: ext, dst: ext, unknown: true, drop: wire.DropAddress},
		{name: "no guest yet, spliced", pif: fwd.PifHost, src: loop4, dst: loop4, splice: true, unknown: true, drop: wire.DropAddress},
	} {
		r := newRig(t)
		f := r.env.Fwd
		f.Splice, f.SpliceOnly, f.HostLoToNsLo = c.splice, c.only, c.loToLo
		if c.unknown {
			r.env.Guest.Seen4 = wire.Addr{}
		}
		rule := fwd.Rule{First: 8000, Last: 8010, To: 80, Target: c.target, Proto: fwd.ProtoUDP}
		got, d := r.u.target(&inbound{pif: c.pif, port: 8003, src: c.src, dst: c.dst, local: c.dst, srcPort: 5000}, &rule)
		if d != c.drop {
			t.Errorf("%s: %v", c.name, d)
			continue
		}
		if want := (flow.Side{Pif: c.wantPif, Ep: c.ep, EpPort: 83, Our: c.our, OurPort: 5000}); d == wire.DropNone && got != want {
			t.Errorf("%s: %+v, want %+v", c.name, got, want)
		}
	}
}
