// SPDX-License-Identifier: Apache-2.0

package local

import (
	"encoding/binary"
	"net/netip"
	"strings"
	"testing"

	"passt/dataplane/flow"
	"passt/dataplane/fwd"
	"passt/dataplane/link"
	"passt/dataplane/wire"
	"passt/internal/sys"
)

var (
	guestMAC = wire.MAC{0x52, 0x54, 0, 0x12, 0x34, 0x56}
	ourMAC   = wire.MAC{0x9a, 0x55, 0x9a, 0x55, 0x9a, 0x55}
	mac44    = wire.MAC{0x02, 0, 0, 0, 0, 0x44}
	a4, g4   = ip("198.51.100.10"), ip("198.51.100.1")
	a6       = ip("2001:db8:9::10")
	oll, gll = ip("fe80::1"), ip("fe80::5054:ff:fe12:3456")
)

func ip(s string) wire.Addr {
	if s == "" {
		return wire.Addr{}
	}
	return wire.FromNetip(netip.MustParseAddr(s))
}

// fakeLink keeps frames as the tap would write them: padded to 60 bytes.
type fakeLink struct {
	mem   []byte
	seg   [1]link.Seg
	vec   [1]sys.Iovec
	got   [][]byte
	sent  int
	full  bool
	noBuf bool // vectors only, as a ring of guest descriptors gives
	mute  bool // count only
}

func (l *fakeLink) FD() sys.FD                 { return sys.NoFD }
func (l *fakeLink) Features() link.Features    { return link.Features{} }
func (l *fakeLink) Recv(*link.Batch) sys.Errno { return sys.EAGAIN }
func (l *fakeLink) Flush() sys.Errno           { return 0 }
func (l *fakeLink) Reserve(h, p, n int) []link.Seg {
	if l.full || h > 116 {
		return nil
	}
	l.seg[0] = link.Seg{Hdr: l.mem[200-h : 200 : 200], Buf: l.mem[200 : 200+p : 200+p]}
	l.vec[0].Set(l.seg[0].Buf)
	l.seg[0].Vec = l.vec[:]
	if l.noBuf {
		l.seg[0].Buf = nil
	}
	return l.seg[:]
}

func (l *fakeLink) Send(s []link.Seg) (int, sys.Errno) {
	l.sent++
	if l.mute {
		return 1, 0
	}
	f := append([]byte(nil), l.mem[200-len(s[0].Hdr):200+s[0].Len]...)
	for len(f) < wire.MinFrame {
		f = append(f, 0)
	}
	l.got = append(l.got, f)
	return 1, 0
}

type rig struct {
	t    testing.TB
	env  *flow.Env
	s    *Local
	link *fakeLink
	logs []string
}

func baseConfig() Config {
	return Config{MTU: 65520, OurMAC: ourMAC, DHCP4: true, DHCP6: true, NDP: true, RA: true, SendDNS: true, SendSearch: true, Seed: 7,
		DNS4: []wire.Addr{ip("198.51.100.53")}, DNS6: []wire.Addr{ip("2001:db8:9::53")}, Search: []string{"example.com"}}
}

func baseFwd() fwd.Config {
	return fwd.Config{TCP: true, UDP: true, ICMP: true,
		V4: fwd.Family{On: true, Prefix: 24, Guest: a4, Gateway: g4, Our: g4, MapLoop: g4},
		V6: fwd.Family{On: true, Prefix: 64, Guest: a6, Gateway: oll, Our: oll, MapLoop: oll}}
}

// newRig makes the services; change may alter both configurations first.
func newRig(t testing.TB, change func(c *Config, f *fwd.Config)) *rig {
	c, f := baseConfig(), baseFwd()
	if change != nil {
		change(&c, &f)
	}
	env := flow.NewEnv(flow.NewTable(8, [16]byte{1}), 1e9)
	env.Fwd = &f
	env.Guest = flow.Guest{MAC: guestMAC, Seen4: a4, Seen6: a6, SeenL: gll}
	r := &rig{t: t, env: env, link: &fakeLink{mem: sys.Alloc(4096)}}
	env.Link = r.link
	env.Log = func(_ int, s string) { r.logs = append(r.logs, s) }
	r.s = New(env, c)
	return r
}

// take gives the frames sent since the last call.
func (r *rig) take() [][]byte {
	g := r.link.got
	r.link.got = nil
	return g
}

// one gives the only frame sent, taken apart, after checking Ethernet addresses and all checksums.
func (r *rig) one() frame {
	r.t.Helper()
	g := r.take()
	if len(g) != 1 {
		r.t.Fatalf("%d frames instead of one", len(g))
	}
	return r.decode(g[0])
}

func (r *rig) none(what string) {
	r.t.Helper()
	if g := r.take(); len(g) != 0 {
		r.t.Errorf("%s: answered with % x", what, g[0])
	}
}

// frame is what a decoder that shares no code with the encoders finds.
type frame struct {
	raw      []byte
	dst, src wire.MAC
	kind     uint16
	from, to string // IP addresses
	hops     byte
	proto    byte
	l4       []byte // ARP: the message
}

func (r *rig) decode(b []byte) frame {
	r.t.Helper()
	be := binary.BigEndian
	f := frame{raw: b, dst: wire.MAC(b[:6]), src: wire.MAC(b[6:12]), kind: be.Uint16(b[12:])}
	p := b[14:]
	var pseudo []byte
	switch f.kind {
	case 0x0806:
		f.l4 = p
		return f
	case 0x0800:
		n := int(be.Uint16(p[2:]))
		if p[0] != 0x45 || n > len(p) || ones(p[:20]) != 0xffff || p[1] != 0 || be.Uint32(p[4:]) != 0x4000 {
			r.t.Fatalf("IPv4 header % x", p[:20])
		}
		f.hops, f.proto, f.l4 = p[8], p[9], p[20:n]
		f.from, f.to = netip.AddrFrom4([4]byte(p[12:16])).String(), netip.AddrFrom4([4]byte(p[16:20])).String()
		pseudo = append(pseudo, p[12:20]...)
	case 0x86dd:
		n := int(be.Uint16(p[4:]))
		if be.Uint32(p) != 0x60000000 || n != len(p)-40 || n > 1240 {
			r.t.Fatalf("IPv6 header % x", p[:40])
		}
		f.hops, f.proto, f.l4 = p[7], p[6], p[40:]
		f.from, f.to = netip.AddrFrom16([16]byte(p[8:24])).String(), netip.AddrFrom16([16]byte(p[24:40])).String()
		pseudo = append(pseudo, p[8:40]...)
	default:
		r.t.Fatalf("ether type %x", f.kind)
	}
	pseudo = append(pseudo, 0, f.proto, byte(len(f.l4)>>8), byte(len(f.l4)))
	if s := ones(append(pseudo, f.l4...)); s != 0xffff {
		r.t.Errorf("checksum of L4 sums to %04x", s)
	}
	if f.hops != 255 {
		r.t.Errorf("hop limit %d", f.hops)
	}
	return f
}

// ones is the plain RFC 1071 sum.
func ones(b []byte) uint32 {
	var s uint32
	for i := 0; i < len(b); i += 2 {
		s += uint32(b[i]) << 8
		if i+1 < len(b) {
			s += uint32(b[i+1])
		}
	}
	for s>>16 != 0 {
		s = s>>16 + s&0xffff
	}
	return s
}

// fromGuest builds an IP frame of the guest and parses it as the data path does.
func (r *rig) fromGuest(src, dst string, proto uint8, l4 []byte) *wire.Packet {
	r.t.Helper()
	s, d := ip(src), ip(dst)
	if src == "::" {
		s = wire.Addr{}
	}
	b := make([]byte, 14+40+len(l4))
	wire.PutEth(b, &wire.MAC{2, 9, 9, 9, 9, 9}, &guestMAC, wire.EtherTypeOf(&d))
	n := wire.PutIP(b[14:], &s, &d, proto, len(l4), 0)
	b = append(b[:14+n], l4...)
	p := new(wire.Packet)
	if drop := p.Parse(b, &wire.Vnet{}); drop != wire.DropNone {
		r.t.Fatalf("own frame: %v", drop)
	}
	return p
}

func udp(from, to uint16, payload []byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, from)
	b = binary.BigEndian.AppendUint16(b, to)
	b = binary.BigEndian.AppendUint16(b, uint16(8+len(payload)))
	return append(append(b, 0, 0), payload...)
}

// names reads uncompressed names up to the first empty one or the end.
func names(t testing.TB, b []byte) []string {
	t.Helper()
	var out []string
	for at := 0; at < len(b) && b[at] != 0; {
		s, n := name(t, b, at)
		out = append(out, s)
		at = n
	}
	return out
}

// name reads one name, following pointers; it gives the offset behind it.
func name(t testing.TB, b []byte, at int) (string, int) {
	t.Helper()
	var labels []string
	end := 0
	for hops := 0; ; {
		if at >= len(b) || hops > 20 {
			t.Fatalf("bad name in % x", b)
		}
		c := int(b[at])
		switch {
		case c == 0:
			if end == 0 {
				end = at + 1
			}
			return strings.Join(labels, "."), end
		case c >= 0xc0:
			if end == 0 {
				end = at + 2
			}
			at = c&0x3f<<8 | int(b[at+1])
			hops++
		default:
			labels = append(labels, string(b[at+1:at+1+c]))
			at += 1 + c
		}
	}
}
