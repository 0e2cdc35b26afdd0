// SPDX-License-Identifier: Apache-2.0

package wire

import "encoding/binary"

// IP protocol numbers.
const (
	ProtoICMP   = 1
	ProtoTCP    = 6
	ProtoUDP    = 17
	ProtoICMPv6 = 58
)

// Packet is a frame from the guest, taken apart. Slices point into the link's batch and are valid until
// the batch is filled again.
type Packet struct {
	Eth       []byte // whole frame from the Ethernet header on
	L4        []byte // from the L4 header to the end of the IP payload (ARP: the ARP message)
	Src, Dst  Addr   // IP addresses; zero for ARP
	SrcPort   uint16 // TCP, UDP
	DstPort   uint16
	EtherType uint16
	GSOSize   uint16 // bytes of payload per segment, 0: one segment
	Proto     uint8
	TTL       uint8 // or hop limit
	GSOType   uint8 // from the virtio-net header, ECN bit removed
	L4Off     uint8 // offset of L4 in Eth; 0 when it does not fit 8 bits
}

// SrcMAC gives the sender's Ethernet address.
func (p *Packet) SrcMAC() MAC { return MAC(p.Eth[6:12]) }

// Parse takes one frame apart: Ethernet, IPv4 or IPv6 with its extension headers, ports of TCP and UDP.
//
//	in:     b, a frame without FCS, 0 ≤ len ≤ 65535+14; v, its virtio-net header
//	out:    p complete, or the reason why the frame is dropped; link padding is cut off
//	errors: DropShort, DropVnet, DropEtherType, DropIP*, DropFragment, DropExtension, DropTCPHeader, DropUDPLength
//	source: RFC 791, RFC 8200 s.4; spec services 1.3
//	cost:   no allocation, one pass
//
// Checksums are not verified: the header says who owes them, and the host's kernel makes its own.
func (p *Packet) Parse(b []byte, v *Vnet) Drop {
	if len(b) < EthSize {
		return DropShort
	}
	p.Eth = b
	p.EtherType = binary.BigEndian.Uint16(b[12:])
	p.Src, p.Dst, p.SrcPort, p.DstPort, p.Proto, p.TTL, p.L4Off = Addr{}, Addr{}, 0, 0, 0, 0, 0
	p.GSOType, p.GSOSize = v.GSOType&^GSOECN, v.GSOSize
	var d Drop
	switch p.EtherType {
	case EtherIP4:
		d = p.parse4(b[EthSize:])
	case EtherIP6:
		d = p.parse6(b[EthSize:])
	case EtherARP:
		p.L4 = b[EthSize:]
		return p.checkGSO()
	default:
		return DropEtherType
	}
	if d != DropNone {
		return d
	}
	if p.Src.IsLoopback() || p.Dst.IsLoopback() {
		return DropIPLoopback
	}
	if d = p.parseL4(); d != DropNone {
		return d
	}
	return p.checkGSO()
}

func (p *Packet) parse4(b []byte) Drop {
	if len(b) < IP4Size {
		return DropIPLength
	}
	if b[0]>>4 != 4 {
		return DropIPVersion
	}
	hl := int(b[0]&15) * 4
	total := int(binary.BigEndian.Uint16(b[2:]))
	if hl < IP4Size || total < hl || total > len(b) {
		return DropIPLength
	}
	// More fragments, an offset, or the reserved flag: RFC 791 leaves the last one zero.
	if binary.BigEndian.Uint16(b[6:])&0xbfff != 0 {
		return DropFragment
	}
	p.TTL, p.Proto = b[8], b[9]
	p.Src, p.Dst = Addr4From(b[12:]), Addr4From(b[16:])
	p.L4 = b[hl:total]
	p.L4Off = uint8(EthSize + hl)
	return DropNone
}

// parse6 walks all extension headers that may precede the L4 header; RFC 8200 s.4, RFC 5570, 6275, 7401, 5533, 3692.
func (p *Packet) parse6(b []byte) Drop {
	if len(b) < IP6Size {
		return DropIPLength
	}
	if b[0]>>4 != 6 {
		return DropIPVersion
	}
	n := int(binary.BigEndian.Uint16(b[4:]))
	if n > len(b)-IP6Size {
		return DropIPLength
	}
	p.TTL = b[7]
	p.Src, p.Dst = Addr6From(b[8:]), Addr6From(b[24:])
	if p.Src.Is4() || p.Dst.Is4() {
		return DropAddress // ::ffff:0:0/96 must not appear on a link (RFC 4291 s.2.5.5.2)
	}
	next, rest, off := b[6], b[IP6Size:IP6Size+n], EthSize+IP6Size
	for {
		switch next {
		case 0, 43, 60, 135, 139, 140, 253, 254:
			if len(rest) < 8 {
				return DropExtension
			}
			l := 8 + int(rest[1])*8
			if l > len(rest) {
				return DropExtension
			}
			next, rest, off = rest[0], rest[l:], off+l
		case 44:
			return DropFragment
		case 50, 51, 59:
			return DropExtension
		default:
			p.Proto, p.L4 = next, rest
			if off < 256 {
				p.L4Off = uint8(off)
			}
			return DropNone
		}
	}
}

func (p *Packet) parseL4() Drop {
	switch p.Proto {
	case ProtoTCP:
		t, d := ParseTCP(p.L4)
		if d != DropNone {
			return d
		}
		p.SrcPort, p.DstPort = t.SrcPort(), t.DstPort()
	case ProtoUDP:
		u, d := ParseUDP(p.L4)
		if d != DropNone {
			return d
		}
		p.L4 = u
		p.SrcPort, p.DstPort = u.SrcPort(), u.DstPort()
	}
	return DropNone
}

// checkGSO refuses a segmentation request that does not fit the packet.
func (p *Packet) checkGSO() Drop {
	switch p.GSOType {
	case GSONone:
		p.GSOSize = 0
		return DropNone
	case GSOTCP4:
		if p.Proto != ProtoTCP || p.EtherType != EtherIP4 {
			return DropVnet
		}
	case GSOTCP6:
		if p.Proto != ProtoTCP || p.EtherType != EtherIP6 {
			return DropVnet
		}
	case GSOUDPL4:
		if p.Proto != ProtoUDP {
			return DropVnet
		}
	default:
		return DropVnet
	}
	if p.GSOSize == 0 {
		return DropVnet
	}
	return DropNone
}
