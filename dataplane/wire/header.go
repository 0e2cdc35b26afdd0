// SPDX-License-Identifier: Apache-2.0

package wire

import "encoding/binary"

// Header sizes and ether types.
const (
	EthSize  = 14
	IP4Size  = 20
	IP6Size  = 40
	TCPSize  = 20
	UDPSize  = 8
	MinFrame = 60 // Ethernet minimum without FCS: shorter frames are padded with zeroes

	EtherIP4 = 0x0800
	EtherARP = 0x0806
	EtherIP6 = 0x86dd
)

// TCP flags.
const (
	FIN = 1
	SYN = 2
	RST = 4
	PSH = 8
	ACK = 16
	URG = 32
)

// TCP is a TCP header with options and payload (RFC 9293 s.3.1); ParseTCP checked the data offset.
type TCP []byte

// ParseTCP checks that the header, options included, lies within b.
//
//	errors: DropTCPHeader
func ParseTCP(b []byte) (TCP, Drop) {
	if len(b) < TCPSize {
		return nil, DropTCPHeader
	}
	off := int(b[12]>>4) * 4
	if off < TCPSize || off > len(b) {
		return nil, DropTCPHeader
	}
	return TCP(b), DropNone
}

func (t TCP) SrcPort() uint16 { return binary.BigEndian.Uint16(t[0:]) }
func (t TCP) DstPort() uint16 { return binary.BigEndian.Uint16(t[2:]) }
func (t TCP) Seq() uint32     { return binary.BigEndian.Uint32(t[4:]) }
func (t TCP) Ack() uint32     { return binary.BigEndian.Uint32(t[8:]) }
func (t TCP) Flags() uint8    { return t[13] }
func (t TCP) Window() uint16  { return binary.BigEndian.Uint16(t[14:]) }
func (t TCP) HeaderLen() int  { return int(t[12]>>4) * 4 }
func (t TCP) Options() []byte { return t[TCPSize:t.HeaderLen()] }
func (t TCP) Payload() []byte { return t[t.HeaderLen():] }

// UDP is a UDP header and its payload, cut to the length field (RFC 768).
type UDP []byte

// ParseUDP honours the length field: larger than b is an error, smaller trims.
//
//	errors: DropUDPLength
func ParseUDP(b []byte) (UDP, Drop) {
	if len(b) < UDPSize {
		return nil, DropUDPLength
	}
	n := int(binary.BigEndian.Uint16(b[4:]))
	if n < UDPSize || n > len(b) {
		return nil, DropUDPLength
	}
	return UDP(b[:n]), DropNone
}

func (u UDP) SrcPort() uint16 { return binary.BigEndian.Uint16(u[0:]) }
func (u UDP) DstPort() uint16 { return binary.BigEndian.Uint16(u[2:]) }
func (u UDP) Payload() []byte { return u[UDPSize:] }

// PutEth writes an Ethernet header to b[:EthSize].
func PutEth(b []byte, dst, src *MAC, etherType uint16) {
	_ = b[EthSize-1]
	copy(b[0:6], dst[:])
	copy(b[6:12], src[:])
	binary.BigEndian.PutUint16(b[12:], etherType)
}

// PutIP writes the IP header for addresses of one family and returns its length (20 or 40).
// IPv4: no options, TOS 0, ID 0, DF, TTL 255, header checksum complete. IPv6: hop limit 255.
//
//	in: b with room for the header; n, bytes behind the IP header; label, IPv6 flow label
func PutIP(b []byte, src, dst *Addr, proto uint8, n int, label uint32) int {
	be := binary.BigEndian
	if src.Is4() {
		h := b[:IP4Size]
		be.PutUint32(h[0:], 0x45000000|uint32(n+IP4Size)&0xffff)
		be.PutUint32(h[4:], 0x00004000)
		be.PutUint32(h[8:], 0xff000000|uint32(proto)<<16)
		copy(h[12:16], src[12:])
		copy(h[16:20], dst[12:])
		be.PutUint16(h[10:], ^Fold(Sum(h, 0)))
		return IP4Size
	}
	h := b[:IP6Size]
	be.PutUint32(h[0:], 0x60000000|label&0xfffff)
	be.PutUint16(h[4:], uint16(n))
	h[6], h[7] = proto, 255
	copy(h[8:24], src[:])
	copy(h[24:40], dst[:])
	return IP6Size
}

// IPHeaderLen gives the length of the header that PutIP writes.
func IPHeaderLen(a *Addr) int {
	if a.Is4() {
		return IP4Size
	}
	return IP6Size
}

// EtherTypeOf gives the ether type for an address' family.
func EtherTypeOf(a *Addr) uint16 {
	if a.Is4() {
		return EtherIP4
	}
	return EtherIP6
}
