// SPDX-License-Identifier: Apache-2.0

package wire

import "encoding/binary"

// ARP for IPv4 over Ethernet (RFC 826).
const (
	ARPSize    = 28
	ARPRequest = 1
	ARPReply   = 2
)

// arpHead is hardware type 1, protocol 0x0800, lengths 6 and 4: the only kind of ARP there is here.
const arpHead = 0x0001_0800_0604

// ARP is an ARP message for IPv4 over Ethernet; ParseARP checked length and types.
//
//	0 hardware type | 2 protocol | 4 lengths | 6 operation | 8 sender MAC | 14 sender IP | 18 target MAC | 24 target IP
type ARP []byte

// ParseARP checks that b begins with a complete message for IPv4 over Ethernet; link padding behind it is cut off.
//
//	errors: DropARP
func ParseARP(b []byte) (ARP, Drop) {
	if len(b) < ARPSize || binary.BigEndian.Uint64(b)>>16 != arpHead {
		return nil, DropARP
	}
	return ARP(b[:ARPSize]), DropNone
}

func (a ARP) Op() uint16       { return binary.BigEndian.Uint16(a[6:]) }
func (a ARP) SenderMAC() MAC   { return MAC(a[8:14]) }
func (a ARP) SenderIP() Addr   { return Addr4From(a[14:]) }
func (a ARP) TargetMAC() MAC   { return MAC(a[18:24]) }
func (a ARP) TargetIP() Addr   { return Addr4From(a[24:]) }
func (a ARP) FromNobody() bool { return binary.BigEndian.Uint32(a[14:]) == 0 } // a probe, RFC 5227 s.1.1

// ARPMessage is what PutARP writes.
type ARPMessage struct {
	Op                   uint16
	SenderMAC, TargetMAC MAC
	SenderIP, TargetIP   Addr // IPv4
}

// Put writes the message to b[:ARPSize] and returns ARPSize.
func (m *ARPMessage) Put(b []byte) int {
	_ = b[ARPSize-1]
	binary.BigEndian.PutUint64(b, arpHead<<16|uint64(m.Op))
	copy(b[8:], m.SenderMAC[:])
	copy(b[14:], m.SenderIP[12:])
	copy(b[18:], m.TargetMAC[:])
	copy(b[24:], m.TargetIP[12:])
	return ARPSize
}
