// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"encoding/binary"
	"testing"
)

var (
	testMACa = MAC{0x02, 0, 0, 0, 0, 1}
	testMACb = MAC{0x9a, 0x55, 0x9a, 0x55, 0x9a, 0x55}
	testA4   = Addr4(192, 0, 2, 15)
	testB4   = Addr4(198, 51, 100, 7)
	testA6   = Addr{0x20, 0x01, 0x0d, 0xb8, 15: 0x15}
	testB6   = Addr{0x20, 0x01, 0x0d, 0xb8, 4: 1, 15: 7}
)

// tcpSegment is a SYN with one option and two bytes of payload, ports 40000 and 443.
func tcpSegment() []byte {
	b := make([]byte, 26)
	binary.BigEndian.PutUint16(b[0:], 40000)
	binary.BigEndian.PutUint16(b[2:], 443)
	binary.BigEndian.PutUint32(b[4:], 1000)
	b[12], b[13] = 6<<4, SYN
	binary.BigEndian.PutUint16(b[14:], 64240)
	copy(b[20:], []byte{2, 4, 0x05, 0xb4, 'h', 'i'})
	return b
}

// udpDatagram has ports 5555 and 53 and the payload given.
func udpDatagram(payload string) []byte {
	b := make([]byte, UDPSize+len(payload))
	binary.BigEndian.PutUint16(b[0:], 5555)
	binary.BigEndian.PutUint16(b[2:], 53)
	binary.BigEndian.PutUint16(b[4:], uint16(len(b)))
	copy(b[UDPSize:], payload)
	return b
}

// frame4 and frame6 put an L4 message into a frame; chain holds extension headers whose first byte is the next header,
// first is the type of the first of them.
func frame4(proto uint8, l4 []byte) []byte { return frameOf(&testA4, &testB4, proto, l4) }
func frame6(proto uint8, l4 []byte) []byte { return frameOf(&testA6, &testB6, proto, l4) }

func frameOf(src, dst *Addr, proto uint8, l4 []byte) []byte {
	b := make([]byte, EthSize+IPHeaderLen(src), EthSize+IPHeaderLen(src)+len(l4))
	PutEth(b, &testMACb, &testMACa, EtherTypeOf(src))
	PutIP(b[EthSize:], src, dst, proto, len(l4), 0)
	return append(b, l4...)
}

// ext is one extension header of n*8 bytes, n ≥ 1.
func ext(next uint8, n int) []byte {
	b := make([]byte, 8*n)
	b[0], b[1] = next, uint8(n-1)
	return b
}

func arpFrame() []byte {
	b := make([]byte, EthSize+28)
	PutEth(b, &Broadcast, &testMACa, EtherARP)
	copy(b[EthSize:], []byte{0, 1, 8, 0, 6, 4, 0, 1})
	return b
}

func TestPacketParse_RealFrames_FieldsRight(t *testing.T) {
	hop := append(ext(60, 1), append(ext(ProtoUDP, 2), udpDatagram("x")...)...)
	for _, c := range []struct {
		name     string
		b        []byte
		src, dst Addr
		sp, dp   uint16
		proto    uint8
		l4Off    uint8
		l4       int
	}{
		{"ARP", arpFrame(), Addr{}, Addr{}, 0, 0, 0, 0, 28},
		{"IPv4 TCP", frame4(ProtoTCP, tcpSegment()), testA4, testB4, 40000, 443, ProtoTCP, 34, 26},
		{"IPv4 UDP", frame4(ProtoUDP, udpDatagram("query")), testA4, testB4, 5555, 53, ProtoUDP, 34, 13},
		{"IPv4 UDP empty", frame4(ProtoUDP, udpDatagram("")), testA4, testB4, 5555, 53, ProtoUDP, 34, 8},
		{"IPv4 ICMP", frame4(ProtoICMP, []byte{8, 0, 0, 0, 0, 1, 0, 1}), testA4, testB4, 0, 0, ProtoICMP, 34, 8},
		{"IPv6 TCP", frame6(ProtoTCP, tcpSegment()), testA6, testB6, 40000, 443, ProtoTCP, 54, 26},
		{"IPv6 UDP", frame6(ProtoUDP, udpDatagram("query")), testA6, testB6, 5555, 53, ProtoUDP, 54, 13},
		{"IPv6 ICMP", frame6(ProtoICMPv6, []byte{128, 0, 0, 0, 0, 1, 0, 1}), testA6, testB6, 0, 0, ProtoICMPv6, 54, 8},
		{"IPv6 hop-by-hop, destination options, UDP", frame6(0, hop), testA6, testB6, 5555, 53, ProtoUDP, 54 + 24, 9},
		{"IPv6 far UDP", frame6(60, append(ext(ProtoUDP, 30), udpDatagram("x")...)), testA6, testB6, 5555, 53, ProtoUDP, 0, 9},
		{"other protocol", frame4(47, []byte{1, 2, 3}), testA4, testB4, 0, 0, 47, 34, 3},
	} {
		var p Packet
		if d := p.Parse(c.b, &Vnet{}); d != DropNone {
			t.Errorf("%s: %v", c.name, d)
			continue
		}
		if p.Src != c.src || p.Dst != c.dst || p.SrcPort != c.sp || p.DstPort != c.dp || p.Proto != c.proto || p.L4Off != c.l4Off || len(p.L4) != c.l4 {
			t.Errorf("%s: %+v", c.name, p)
		}
		if p.SrcMAC() != testMACa {
			t.Errorf("%s: MAC %v", c.name, p.SrcMAC())
		}
		if c.proto != 0 && p.TTL != 255 {
			t.Errorf("%s: TTL %d", c.name, p.TTL)
		}
	}
}

// TestPacketParse_TruncatedAtEachByte_Drops: no shorter frame parses, since every length field is exact.
func TestPacketParse_TruncatedAtEachByte_Drops(t *testing.T) {
	long := append(ext(60, 1), append(ext(43, 2), append(ext(ProtoUDP, 1), udpDatagram("query")...)...)...)
	for name, b := range map[string][]byte{
		"IPv4 TCP": frame4(ProtoTCP, tcpSegment()), "IPv4 UDP": frame4(ProtoUDP, udpDatagram("query")),
		"IPv4 ICMP": frame4(ProtoICMP, make([]byte, 16)), "IPv6 TCP": frame6(ProtoTCP, tcpSegment()),
		"IPv6 UDP": frame6(ProtoUDP, udpDatagram("query")), "IPv6 ICMP": frame6(ProtoICMPv6, make([]byte, 16)),
		"IPv6 chain": frame6(0, long),
	} {
		for n := range len(b) {
			var p Packet
			d := p.Parse(b[:n:n], &Vnet{})
			if d == DropNone {
				t.Errorf("%s cut to %d bytes is accepted", name, n)
			}
			if n < EthSize && d != DropShort {
				t.Errorf("%s cut to %d: %v", name, n, d)
			}
		}
		// The same cut with the IP length made to fit: the L4 checks and the extension walk decide.
		for n := EthSize + 20; n < len(b); n++ {
			var p Packet
			c := bytes.Clone(b[:n:n])
			if c[EthSize]>>4 == 4 {
				binary.BigEndian.PutUint16(c[EthSize+2:], uint16(n-EthSize))
			} else if n >= EthSize+IP6Size {
				binary.BigEndian.PutUint16(c[EthSize+4:], uint16(n-EthSize-IP6Size))
			}
			d := p.Parse(c, &Vnet{})
			if d == DropNone && (p.Proto == ProtoUDP || p.Proto == ProtoTCP && n < len(b)-2) {
				t.Errorf("%s cut to %d with IP length %d is accepted", name, n, n-EthSize)
			}
		}
	}
	var p Packet
	for n := range EthSize + 28 {
		if d := p.Parse(arpFrame()[:n], &Vnet{}); (d == DropNone) != (n >= EthSize) {
			t.Errorf("ARP cut to %d: %v", n, d)
		}
	}
}

func edit(b []byte, f func(b []byte)) []byte { f(b); return b }

func TestPacketParse_HostileFrames_DropNamed(t *testing.T) {
	ip := EthSize
	frag4 := func(w uint16) []byte {
		return edit(frame4(ProtoUDP, udpDatagram("x")), func(b []byte) { binary.BigEndian.PutUint16(b[ip+6:], w) })
	}
	l6, mapped := Addr{15: 1}, testA6
	copy(mapped[:], testA4[:])
	for _, c := range []struct {
		name string
		b    []byte
		want Drop
	}{
		{"VLAN tag", edit(frame4(ProtoUDP, udpDatagram("x")), func(b []byte) { b[12], b[13] = 0x81, 0 }), DropEtherType},
		{"length instead of type", edit(arpFrame(), func(b []byte) { b[12], b[13] = 0, 46 }), DropEtherType},
		{"version 6 in IPv4", edit(frame4(ProtoUDP, udpDatagram("x")), func(b []byte) { b[ip] = 0x65 }), DropIPVersion},
		{"version 4 in IPv6", edit(frame6(ProtoUDP, udpDatagram("x")), func(b []byte) { b[ip] = 0x45 }), DropIPVersion},
		{"header of 16 bytes", edit(frame4(ProtoUDP, udpDatagram("x")), func(b []byte) { b[ip] = 0x44 }), DropIPLength},
		{"header beyond total", edit(frame4(ProtoUDP, nil), func(b []byte) { b[ip] = 0x46 }), DropIPLength},
		{"total below header", edit(frame4(ProtoUDP, udpDatagram("x")), func(b []byte) { b[ip+2], b[ip+3] = 0, 19 }), DropIPLength},
		{"total beyond frame", edit(frame4(ProtoUDP, udpDatagram("x")), func(b []byte) { b[ip+3]++ }), DropIPLength},
		{"payload beyond frame", edit(frame6(ProtoUDP, udpDatagram("x")), func(b []byte) { b[ip+5]++ }), DropIPLength},
		{"more fragments", frag4(0x2000), DropFragment},
		{"offset", frag4(0x0001), DropFragment},
		{"last offset", frag4(0x1fff), DropFragment},
		{"reserved flag", frag4(0x8000), DropFragment},
		{"DF alone is no fragment", frag4(0x4000), DropNone},
		{"IPv6 fragment", frame6(44, append(ext(ProtoUDP, 1), udpDatagram("x")...)), DropFragment},
		{"IPv6 fragment behind options", frame6(0, append(ext(44, 1), append(ext(ProtoUDP, 1), udpDatagram("x")...)...)), DropFragment},
		{"ESP", frame6(50, make([]byte, 40)), DropExtension},
		{"AH", frame6(51, make([]byte, 40)), DropExtension},
		{"no next header", frame6(59, make([]byte, 8)), DropExtension},
		{"no next header behind options", frame6(60, ext(59, 1)), DropExtension},
		{"extension of 7 bytes", frame6(0, make([]byte, 7)), DropExtension},
		{"extension beyond payload", frame6(0, edit(ext(ProtoUDP, 1), func(b []byte) { b[1] = 1 })), DropExtension},
		{"extension chain into nothing", frame6(0, ext(60, 1)), DropExtension},
		{"jumbogram", frame6(0, nil), DropExtension},
		{"source 127.0.0.1", frameOf(&loop4, &testB4, ProtoUDP, udpDatagram("x")), DropIPLoopback},
		{"destination 127.255.0.9", frameOf(&testA4, &Addr{10: 0xff, 11: 0xff, 12: 127, 13: 255, 15: 9}, ProtoUDP, udpDatagram("x")), DropIPLoopback},
		{"destination ::1", frameOf(&testA6, &l6, ProtoUDP, udpDatagram("x")), DropIPLoopback},
		{"source ::1", frameOf(&l6, &testB6, ProtoTCP, tcpSegment()), DropIPLoopback},
		{"mapped source", edit(frame6(ProtoUDP, udpDatagram("x")), func(b []byte) { copy(b[ip+8:], loop4[:]) }), DropAddress},
		{"mapped destination", edit(frame6(ProtoUDP, udpDatagram("x")), func(b []byte) { copy(b[ip+24:], loop4[:]) }), DropAddress},
		{"TCP offset 4", edit(frame4(ProtoTCP, tcpSegment()), func(b []byte) { b[ip+32] = 4 << 4 }), DropTCPHeader},
		{"TCP offset beyond", edit(frame4(ProtoTCP, tcpSegment()), func(b []byte) { b[ip+32] = 7 << 4 }), DropTCPHeader},
		{"TCP 19 bytes", frame4(ProtoTCP, make([]byte, 19)), DropTCPHeader},
		{"UDP 7 bytes", frame4(ProtoUDP, make([]byte, 7)), DropUDPLength},
		{"UDP length larger", edit(frame4(ProtoUDP, udpDatagram("x")), func(b []byte) { b[ip+25]++ }), DropUDPLength},
		{"UDP length 7", edit(frame6(ProtoUDP, udpDatagram("x")), func(b []byte) { b[ip+45] = 7 }), DropUDPLength},
		{"UDP length 0", edit(frame6(ProtoUDP, udpDatagram("x")), func(b []byte) { b[ip+45] = 0 }), DropUDPLength},
	} {
		var p Packet
		if d := p.Parse(c.b, &Vnet{}); d != c.want {
			t.Errorf("%s: %v, want %v", c.name, d, c.want)
		}
	}
}

var loop4 = Addr4(127, 0, 0, 1)

// TestPacketParse_PaddedFrames_PaddingCut: bug B056; drivers pad to 60 bytes with whatever is there.
func TestPacketParse_PaddedFrames_PaddingCut(t *testing.T) {
	ack := tcpSegment()[:20]
	ack[12], ack[13] = 5<<4, ACK
	for _, fill := range []byte{0, 0xff} {
		for _, size := range []int{60, 64, 1514} {
			for name, b := range map[string][]byte{
				"IPv4 ACK": frame4(ProtoTCP, ack), "IPv4 UDP": frame4(ProtoUDP, udpDatagram("ab")),
				"IPv6 ACK": frame6(ProtoTCP, ack), "IPv6 UDP": frame6(ProtoUDP, udpDatagram("ab")),
			} {
				var bare, p Packet
				if d := bare.Parse(b, &Vnet{}); d != DropNone {
					t.Fatalf("%s: %v", name, d)
				}
				padded := append(bytes.Clone(b), bytes.Repeat([]byte{fill}, max(0, size-len(b)))...)
				if d := p.Parse(padded, &Vnet{}); d != DropNone || !bytes.Equal(p.L4, bare.L4) {
					t.Errorf("%s padded to %d with %#x: %v, %d bytes of L4, want %d", name, size, fill, d, len(p.L4), len(bare.L4))
				}
			}
		}
	}
}

func TestPacketParse_UDPLengthSmaller_Trims(t *testing.T) {
	b := frame4(ProtoUDP, udpDatagram("abcdef"))
	b[EthSize+25] = 8 + 2
	var p Packet
	if d := p.Parse(b, &Vnet{}); d != DropNone || string(UDP(p.L4).Payload()) != "ab" {
		t.Errorf("%v %q", d, p.L4)
	}
}

func TestPacketParse_IPv4Options_Skipped(t *testing.T) {
	b := frame4(ProtoUDP, append([]byte{7, 7, 4, 0, 0, 0, 0, 0}, udpDatagram("x")...))
	b[EthSize] = 0x47
	var p Packet
	if d := p.Parse(b, &Vnet{}); d != DropNone || p.DstPort != 53 || p.L4Off != EthSize+28 {
		t.Errorf("%v %+v", d, p)
	}
}

func TestPacketParse_Segmentation_OnlyWhereItFits(t *testing.T) {
	t4, t6 := frame4(ProtoTCP, tcpSegment()), frame6(ProtoTCP, tcpSegment())
	u4, u6 := frame4(ProtoUDP, udpDatagram("x")), frame6(ProtoUDP, udpDatagram("x"))
	for _, c := range []struct {
		name string
		b    []byte
		v    Vnet
		want Drop
	}{
		{"none clears a size", t4, Vnet{GSOSize: 1400}, DropNone},
		{"TCP4", t4, Vnet{GSOType: GSOTCP4, GSOSize: 1400}, DropNone},
		{"TCP4 with ECN", t4, Vnet{GSOType: GSOTCP4 | GSOECN, GSOSize: 1400}, DropNone},
		{"TCP6", t6, Vnet{GSOType: GSOTCP6, GSOSize: 1400}, DropNone},
		{"UDP4", u4, Vnet{GSOType: GSOUDPL4, GSOSize: 1400}, DropNone},
		{"UDP6", u6, Vnet{GSOType: GSOUDPL4, GSOSize: 1400}, DropNone},
		{"TCP4 on IPv6", t6, Vnet{GSOType: GSOTCP4, GSOSize: 1400}, DropVnet},
		{"TCP6 on IPv4", t4, Vnet{GSOType: GSOTCP6, GSOSize: 1400}, DropVnet},
		{"TCP4 on UDP", u4, Vnet{GSOType: GSOTCP4, GSOSize: 1400}, DropVnet},
		{"UDP on TCP", t4, Vnet{GSOType: GSOUDPL4, GSOSize: 1400}, DropVnet},
		{"UFO", u4, Vnet{GSOType: GSOUDP, GSOSize: 1400}, DropVnet},
		{"unknown", t4, Vnet{GSOType: 2, GSOSize: 1400}, DropVnet},
		{"size 0", t4, Vnet{GSOType: GSOTCP4}, DropVnet},
		{"ARP", arpFrame(), Vnet{GSOType: GSOTCP4, GSOSize: 1400}, DropVnet},
		{"ICMP", frame4(ProtoICMP, make([]byte, 8)), Vnet{GSOType: GSOTCP4, GSOSize: 1}, DropVnet},
	} {
		var p Packet
		if d := p.Parse(c.b, &c.v); d != c.want {
			t.Errorf("%s: %v, want %v", c.name, d, c.want)
		} else if d == DropNone && (p.GSOType != c.v.GSOType&^GSOECN || p.GSOType == GSONone && p.GSOSize != 0) {
			t.Errorf("%s: type %d size %d", c.name, p.GSOType, p.GSOSize)
		}
	}
}

func TestPacketParse_ReusedPacket_NothingLeftOver(t *testing.T) {
	var p, fresh Packet
	if d := p.Parse(frame6(ProtoTCP, tcpSegment()), &Vnet{GSOType: GSOTCP6, GSOSize: 9}); d != DropNone {
		t.Fatal(d)
	}
	b := arpFrame()
	p.Parse(b, &Vnet{})
	fresh.Parse(b, &Vnet{})
	if p.Src != fresh.Src || p.SrcPort != 0 || p.DstPort != 0 || p.Proto != 0 || p.TTL != 0 || p.GSOSize != 0 || p.GSOType != 0 || p.L4Off != 0 {
		t.Errorf("%+v", p)
	}
}

func TestPacketParse_Hot_NoAllocation(t *testing.T) {
	b, v := frame6(ProtoTCP, tcpSegment()), Vnet{}
	var p Packet
	if n := testing.AllocsPerRun(100, func() { p.Parse(b, &v) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzParsePacket(f *testing.F) {
	chain := append(ext(60, 1), append(ext(ProtoUDP, 2), udpDatagram("x")...)...)
	for _, b := range [][]byte{arpFrame(), frame4(ProtoTCP, tcpSegment()), frame4(ProtoUDP, udpDatagram("x")), frame6(ProtoTCP, tcpSegment()),
		frame6(0, chain), frame6(44, append(ext(ProtoUDP, 1), udpDatagram("x")...)), frame4(ProtoICMP, make([]byte, 8))} {
		f.Add(b, uint8(0), uint16(0))
		f.Add(b, uint8(GSOTCP4), uint16(1400))
		f.Add(b, uint8(GSOTCP6|GSOECN), uint16(1400))
		f.Add(b, uint8(GSOUDPL4), uint16(10))
	}
	f.Fuzz(func(t *testing.T, b []byte, kind uint8, size uint16) {
		var p Packet
		if p.Parse(b, &Vnet{GSOType: kind, GSOSize: size}) != DropNone {
			return
		}
		checkParsed(t, b, &p)
	})
}

// checkParsed asserts what every accepted packet must be.
func checkParsed(t *testing.T, b []byte, p *Packet) {
	be := binary.BigEndian
	off := cap(b) - cap(p.L4)
	if off < EthSize || off+len(p.L4) > len(b) || len(p.L4) > 0 && &p.L4[0] != &b[off] {
		t.Fatalf("L4 at %d, %d bytes, frame of %d", off, len(p.L4), len(b))
	}
	if p.L4Off != 0 && int(p.L4Off) != off {
		t.Fatalf("L4Off %d, L4 at %d", p.L4Off, off)
	}
	ip := b[EthSize:]
	switch p.EtherType {
	case EtherIP4:
		if ip[0]>>4 != 4 || be.Uint16(ip[6:])&0xbfff != 0 || p.Src != Addr4From(ip[12:]) || p.Dst != Addr4From(ip[16:]) || p.Proto != ip[9] {
			t.Fatalf("IPv4 %x taken as %+v", ip[:20], p)
		}
	case EtherIP6:
		if ip[0]>>4 != 6 || p.Src != Addr6From(ip[8:]) || p.Dst != Addr6From(ip[24:]) || p.Src.Is4() || p.Dst.Is4() {
			t.Fatalf("IPv6 %x taken as %+v", ip[:40], p)
		}
		switch p.Proto {
		case 0, 43, 44, 50, 51, 59, 60, 135, 139, 140, 253, 254:
			t.Fatalf("extension header %d taken for L4", p.Proto)
		}
	case EtherARP:
	default:
		t.Fatalf("ether type %#x", p.EtherType)
	}
	if p.Src.IsLoopback() || p.Dst.IsLoopback() {
		t.Fatalf("loopback %v %v", p.Src, p.Dst)
	}
	ported := p.Proto == ProtoTCP || p.Proto == ProtoUDP
	if ported && (p.SrcPort != be.Uint16(p.L4) || p.DstPort != be.Uint16(p.L4[2:])) || !ported && p.SrcPort|p.DstPort != 0 {
		t.Fatalf("ports %d %d of %x", p.SrcPort, p.DstPort, p.L4)
	}
	switch {
	case p.Proto == ProtoUDP && int(be.Uint16(p.L4[4:])) != len(p.L4):
		t.Fatalf("UDP length %d, %d bytes", be.Uint16(p.L4[4:]), len(p.L4))
	case p.Proto == ProtoTCP && (TCP(p.L4).HeaderLen() < TCPSize || TCP(p.L4).HeaderLen() > len(p.L4)):
		t.Fatalf("TCP header of %d bytes in %d", TCP(p.L4).HeaderLen(), len(p.L4))
	}
	fits := p.GSOType == GSONone || p.GSOSize > 0 && (p.GSOType == GSOTCP4 && p.Proto == ProtoTCP && p.EtherType == EtherIP4 ||
		p.GSOType == GSOTCP6 && p.Proto == ProtoTCP && p.EtherType == EtherIP6 || p.GSOType == GSOUDPL4 && p.Proto == ProtoUDP)
	if !fits || p.GSOType == GSONone && p.GSOSize != 0 {
		t.Fatalf("segmentation %d/%d of protocol %d", p.GSOType, p.GSOSize, p.Proto)
	}
}
