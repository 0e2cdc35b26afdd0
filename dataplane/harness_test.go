// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"passt/dataplane/flow"
	"passt/dataplane/fwd"
	"passt/dataplane/link"
	"passt/dataplane/local"
	"passt/dataplane/wire"
	"passt/internal/sys"
)

func ip(s string) wire.Addr {
	if s == "" {
		return wire.Addr{}
	}
	return wire.FromNetip(netip.MustParseAddr(s))
}

var (
	guestMAC = wire.MAC{2, 0, 0, 0, 0, 2}
	guest4   = ip("192.0.2.15")
	gw4      = ip("192.0.2.1")
	remote4  = ip("203.0.113.5")
	guest6   = ip("2001:db8::15")
	remote6  = ip("2001:db8:1::5")
)

// rig is a plane over one end of a packet pair; the test is guest and broker.
type rig struct {
	t     *testing.T
	p     *Plane
	env   *flow.Env
	guest sys.FD
	logs  []string
}

func newRig(t *testing.T, edit func(c *fwd.Config)) *rig {
	t.Helper()
	ep, e := sys.EpollCreate()
	if e != 0 {
		t.Fatal(e)
	}
	a, b, e := sys.SeqPair()
	if e != 0 {
		t.Fatal(e)
	}
	t.Cleanup(func() { sys.Close(ep); sys.Close(a); sys.Close(b) })
	env := flow.NewEnv(flow.NewTable(256, [16]byte{1}), 1e12)
	env.Ep = ep
	env.Fwd = &fwd.Config{TCP: true, UDP: true, ICMP: true, Splice: true,
		V4: fwd.Family{On: true, Prefix: 24, Guest: guest4, Gateway: gw4, Our: gw4, MapLoop: gw4},
		V6: fwd.Family{On: true, Prefix: 64, Guest: guest6, Gateway: ip("fe80::1"), Our: ip("fe80::1"), MapLoop: ip("fe80::1")}}
	if edit != nil {
		edit(env.Fwd)
	}
	env.Guest.Seen4, env.Guest.Seen6 = env.Fwd.V4.Guest, env.Fwd.V6.Guest
	env.Cfg = flow.Config{MTU: 1500, Pasta: true, OurMAC: wire.MAC{0x9a, 0x55, 0x9a, 0x55, 0x9a, 0x55}, UDPTimeoutS: 30, UDPStreamS: 120, SynRetries: 6}
	r := &rig{t: t, env: env, guest: b}
	env.Log = func(_ int, s string) { r.logs = append(r.logs, s) }
	r.p = New(env, local.Config{MTU: 1500, OurMAC: env.Cfg.OurMAC, DHCP4: true, DHCP6: true, NDP: true})
	if e := r.p.SetLink(link.NewTap(a, 0, true), false); e != 0 {
		t.Fatal(e)
	}
	t.Cleanup(func() {
		for i := range env.Table.Rows {
			env.End(flow.Index(i))
		}
		env.EndTurn()
	})
	return r
}

// turn sends frames as the guest and runs one turn; it gives the requests made.
func (r *rig) turn(frames ...[]byte) []flow.Request {
	r.t.Helper()
	for _, f := range frames {
		if _, e := sys.Write(r.guest, append(make([]byte, wire.VnetSize), f...)); e != 0 {
			r.t.Fatal(e)
		}
	}
	r.p.BeginTurn()
	if e := r.p.LinkEvent(sys.PollIn); e != 0 {
		r.t.Fatal(e)
	}
	r.p.EndTurn()
	return append([]flow.Request(nil), r.env.TakeRequests()...)
}

// answers takes what the guest was sent.
func (r *rig) answers() (fs [][]byte) {
	for {
		b := make([]byte, 70000)
		n, e := sys.Read(r.guest, b)
		if e != 0 {
			return fs
		}
		fs = append(fs, b[wire.VnetSize:n])
	}
}

func eth(src, dst *wire.Addr, proto uint8, l4 []byte) []byte {
	b := make([]byte, wire.EthSize+wire.IPHeaderLen(src), 2000)
	wire.PutEth(b, &wire.Broadcast, &guestMAC, wire.EtherTypeOf(src))
	wire.PutIP(b[wire.EthSize:], src, dst, proto, len(l4), 0)
	return append(b, l4...)
}

func udpTo(src, dst wire.Addr, from, to uint16, payload string) []byte {
	b := make([]byte, 8, 100)
	binary.BigEndian.PutUint16(b[0:], from)
	binary.BigEndian.PutUint16(b[2:], to)
	binary.BigEndian.PutUint16(b[4:], uint16(8+len(payload)))
	return eth(&src, &dst, wire.ProtoUDP, append(b, payload...))
}

func synTo(src, dst wire.Addr, from, to uint16) []byte {
	b := make([]byte, 20)
	binary.BigEndian.PutUint16(b[0:], from)
	binary.BigEndian.PutUint16(b[2:], to)
	binary.BigEndian.PutUint32(b[4:], 1000)
	b[12], b[13] = 5<<4, wire.SYN
	binary.BigEndian.PutUint16(b[14:], 64240)
	return eth(&src, &dst, wire.ProtoTCP, b)
}

func arpFor(target wire.Addr) []byte {
	b := make([]byte, wire.EthSize+28)
	wire.PutEth(b, &wire.Broadcast, &guestMAC, wire.EtherARP)
	m := b[wire.EthSize:]
	copy(m, []byte{0, 1, 8, 0, 6, 4, 0, 1})
	copy(m[8:], guestMAC[:])
	copy(m[14:], guest4[12:])
	copy(m[24:], target[12:])
	return b
}

func pingTo(dst wire.Addr) []byte {
	m := []byte{8, 0, 0, 0, 0, 7, 0, 1, 'x', 0}
	binary.BigEndian.PutUint16(m[2:], ^wire.Fold(wire.Sum(m, 0)))
	return eth(&guest4, &dst, wire.ProtoICMP, m)
}

// pieces cuts a frame's IP payload after n bytes.
func pieces(f []byte, n int) (a, b []byte) {
	l4 := f[wire.EthSize+20:]
	mk := func(off int, data []byte, more bool) []byte {
		p := eth(&guest4, &remote4, f[wire.EthSize+9], data)
		h := p[wire.EthSize : wire.EthSize+20]
		w := uint16(off / 8)
		if more {
			w |= 0x2000
		}
		binary.BigEndian.PutUint16(h[6:], w)
		binary.BigEndian.PutUint16(h[4:], 77)
		return p
	}
	return mk(0, l4[:n], true), mk(n, l4[n:], false)
}

// ops lists the requests as "op port".
func ops(qs []flow.Request) string {
	var s []string
	for _, q := range qs {
		s = append(s, fmt.Sprintf("%d:%d", q.Op, q.DstPort))
	}
	return strings.Join(s, " ")
}
