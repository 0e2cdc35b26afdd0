// SPDX-License-Identifier: Apache-2.0

package udp

import (
	"syscall"
	"testing"

	"passt/dataplane/flow"
	"passt/dataplane/wire"
	"passt/internal/sys"
)

// FuzzFromGuest feeds frames of any content; what leaves must be accounted for.
func FuzzFromGuest(f *testing.F) {
	for _, n := range []int{0, 1, 100} {
		p := packet(f, guest4, gw4, 4444, 53, 64, fill(n, 1))
		f.Add(p.Eth, uint8(0), uint16(0))
		f.Add(p.Eth, uint8(wire.GSOUDPL4), uint16(7))
		p = packet(f, guest6, gw6, 4444, 53, 64, fill(n, 1))
		f.Add(p.Eth, uint8(0), uint16(0))
	}
	r := newRig(f)
	r.link.mute = true
	// Whatever the guest asks for leads to one silent socket.
	sink, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_DGRAM|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		f.Fatal(err)
	}
	n := 0
	f.Fuzz(func(t *testing.T, b []byte, gsoType uint8, gso uint16) {
		var p wire.Packet
		if p.Parse(b, &wire.Vnet{GSOType: gsoType, GSOSize: gso}) != wire.DropNone || p.Proto != wire.ProtoUDP {
			return
		}
		r.u.FromGuest([]wire.Packet{p, p, p})
		for _, q := range r.env.TakeRequests() {
			if q.Dst.IsLoopback() || q.DstPort == 0 || q.SrcPort == 0 {
				t.Fatalf("asked for %+v", q)
			}
			n++
			o := flow.Opened{Flow: q.Flow, Slot: q.Slot, FD: sys.NoFD, FD2: sys.NoFD, Errno: sys.ENETUNREACH}
			if n%2 == 0 {
				fd, err := syscall.Dup(sink[0])
				if err != nil {
					t.Fatal(err)
				}
				o.FD, o.Errno = sys.FD(fd), 0
			}
			r.u.Opened(&o)
		}
		r.u.FromGuest([]wire.Packet{p})
		r.env.NowMs += 1000
		r.env.RunTimers(r.u.Timer)
		r.env.TakeRequests()
		r.env.EndTurn()
		waiting := 0
		for i := range r.u.st {
			if r.env.Table.Rows[i].Kind == flow.KindUDP {
				for c := r.u.st[i].head; c != 0; c = r.u.wait.chunks[c-1].next {
					waiting++
				}
			}
		}
		if waiting+r.u.wait.left != waitChunks {
			t.Fatalf("%d chunks wait, %d are left of %d", waiting, r.u.wait.left, waitChunks)
		}
		for fd := sink[1]; ; {
			if _, _, err := syscall.Recvfrom(fd, make([]byte, 1), syscall.MSG_DONTWAIT); err != nil {
				break
			}
		}
	})
}

// FuzzReportError feeds error queue entries of any content.
func FuzzReportError(f *testing.F) {
	f.Add([]byte("data"), uint8(2), uint8(3), uint8(4), uint32(1400), []byte{1, 2, 3, 4})
	f.Add([]byte{}, uint8(3), uint8(2), uint8(0), uint32(1280), make([]byte, 16))
	r := newRig(f)
	var ids []flow.Index
	for _, p := range []wire.Packet{packet(f, guest4, gw4, 4444, 53, 64, nil), packet(f, guest6, gw6, 4444, 53, 64, nil)} {
		r.u.FromGuest([]wire.Packet{p})
		ids = append(ids, r.env.TakeRequests()[0].Flow)
	}
	f.Fuzz(func(t *testing.T, data []byte, origin, kind, code uint8, info uint32, off []byte) {
		x := sys.ExtErr{Errno: sys.EMSGSIZE, Origin: origin, Type: kind, Code: code, Info: info}
		switch {
		case len(off) >= 16:
			x.Offender, x.HasOffender = [16]byte(off[:16]), true
		case len(off) >= 4:
			x.Offender, x.HasOffender = wire.Addr4From(off), true
		}
		for _, i := range ids {
			r.link.got = nil
			r.u.reportError(i, 1, &x, data)
			for _, g := range r.link.got {
				var p wire.Packet
				four := r.env.Table.Rows[i].Side[0].Ep.Is4()
				if d := p.Parse(g.b, &wire.Vnet{}); d != wire.DropNone && d != wire.DropIPLoopback {
					t.Fatal(d)
				}
				if len(g.b) > 1294 || p.L4 != nil && !wire.ICMPIsError(four, p.L4[0]) {
					t.Fatalf("% x", g.b)
				}
			}
		}
	})
}
