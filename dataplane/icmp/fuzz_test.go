// SPDX-License-Identifier: Apache-2.0

package icmp

import (
	"encoding/binary"
	"testing"

	"passt/dataplane/wire"
	"passt/internal/sys"
)

func FuzzReportError(f *testing.F) {
	f.Add([]byte{8, 0, 1, 2, 3, 4, 5, 6, 7}, uint8(2), uint8(11), uint8(0), uint32(0))
	r := newRig(f)
	r.p.FromGuest(echo(f, guest4, gw4, 0x1234, 1, 64, nil))
	q := r.env.TakeRequests()
	i := q[0].Flow
	f.Fuzz(func(t *testing.T, m []byte, origin, kind, code uint8, info uint32) {
		r.link.got = nil
		x := sys.ExtErr{Errno: sys.EMSGSIZE, Origin: origin, Type: kind, Code: code, Info: info, Offender: guest4, HasOffender: true}
		r.p.reportError(i, &x, m)
		for _, b := range r.link.got {
			if p := message(t, b); !wire.ICMPIsError(true, p.L4[0]) || len(b) > 590 || binary.BigEndian.Uint16(p.L4[8+20+4:]) != 0x1234 {
				t.Fatalf("% x", b)
			}
		}
	})
}

func FuzzFromGuest(f *testing.F) {
	f.Add(echo(f, guest4, gw4, 1, 1, 64, []byte("data")).Eth)
	f.Add(echo(f, guest6, gw6, 1, 1, 64, []byte("data")).Eth)
	r := newRig(f)
	r.refuse = sys.ENETUNREACH
	f.Fuzz(func(t *testing.T, b []byte) {
		var p wire.Packet
		if p.Parse(b, &wire.Vnet{}) != wire.DropNone || p.EtherType == wire.EtherARP {
			return
		}
		r.link.got = nil
		r.p.FromGuest(&p)
		r.broker()
		r.env.EndTurn()
		if r.env.Table.Used() != 0 || len(r.link.got) > 1 {
			t.Fatalf("%d flows, %d frames", r.env.Table.Used(), len(r.link.got))
		}
		for k := range r.p.wait.one {
			if r.p.wait.one[k].used {
				t.Fatal("a request waits for nothing")
			}
		}
		for _, g := range r.link.got {
			var e wire.Packet
			if d := e.Parse(g, &wire.Vnet{}); d != wire.DropNone || e.Dst != p.Src {
				t.Fatalf("%v: % x", d, g)
			}
		}
	})
}
