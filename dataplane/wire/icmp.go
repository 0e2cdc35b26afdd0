// SPDX-License-Identifier: Apache-2.0

package wire

import "encoding/binary"

// ICMP types (RFC 792, RFC 4443).
const (
	ICMPEchoReply    = 0
	ICMPUnreachable  = 3
	ICMPEcho         = 8
	ICMPTimeExceeded = 11
	ICMPParameter    = 12

	ICMP6Unreachable  = 1
	ICMP6TooBig       = 2
	ICMP6TimeExceeded = 3
	ICMP6Parameter    = 4
	ICMP6Echo         = 128
	ICMP6EchoReply    = 129

	ICMPSize = 8 // type, code, checksum and the four bytes behind them

	ICMPFragNeeded      = 4  // code of ICMPUnreachable
	ICMPAdminProhibited = 13 // code of ICMPUnreachable (RFC 1812 s.5.2.7.1)
	ICMP6AdminProhibit  = 1  // code of ICMP6Unreachable
)

// ICMPQuote4 and ICMPQuote6 bound what an error quotes behind the original L4 header, bytes: the errors stay within 576
// (RFC 1812 s.4.3.2.3) and 1280 bytes (RFC 4443 s.2.4).
const (
	ICMPQuote4 = 576 - 2*IP4Size - 2*ICMPSize
	ICMPQuote6 = 1280 - 2*IP6Size - 2*ICMPSize
)

// ICMPIsError tells whether a type reports an error about a packet; redirects and queries are none.
func ICMPIsError(four bool, t uint8) bool {
	if four {
		return t == ICMPUnreachable || t == ICMPTimeExceeded || t == ICMPParameter
	}
	return t >= ICMP6Unreachable && t <= ICMP6Parameter
}

// ICMPError describes an error about a packet that the guest sent.
type ICMPError struct {
	From       Addr   // who reports
	Src, Dst   Addr   // of the guest's packet; Src receives the error
	Proto      uint8  // of the guest's packet
	Type, Code uint8  // of the error, of the family of Src
	MTU        uint32 // next hop, for fragmentation needed and packet too big
	L4         [8]byte
	Data       []byte // what followed L4, possibly cut
}

// Put writes the IP packet of the error: IP header, ICMP header, the guest's IP and L4 header rebuilt, data.
//
//	in:     b with room for 576 (IPv4) or 1280 (IPv6) bytes; From, Src and Dst of one family
//	out:    bytes written
//	source: RFC 792, RFC 1191 s.4, RFC 4443 s.3
func (e *ICMPError) Put(b []byte) int {
	be := binary.BigEndian
	four := e.Src.Is4()
	proto, ipLen, most := uint8(ProtoICMPv6), IP6Size, ICMPQuote6
	if four {
		proto, ipLen, most = ProtoICMP, IP4Size, ICMPQuote4
	}
	data := e.Data[:min(len(e.Data), most)]
	n := ICMPSize + ipLen + len(e.L4) + len(data)
	PutIP(b, &e.From, &e.Src, proto, n, 0)
	m := b[ipLen : ipLen+n]
	m[0], m[1] = e.Type, e.Code
	be.PutUint16(m[2:], 0)
	be.PutUint32(m[4:], 0)
	switch {
	case four && e.Type == ICMPUnreachable && e.Code == ICMPFragNeeded:
		be.PutUint16(m[6:], uint16(min(e.MTU, 0xffff)))
	case !four && (e.Type == ICMP6TooBig || e.Type == ICMP6Parameter):
		be.PutUint32(m[4:], e.MTU)
	}
	q := m[ICMPSize:]
	PutIP(q, &e.Src, &e.Dst, e.Proto, len(e.L4)+len(data), 0)
	copy(q[ipLen:], e.L4[:])
	copy(q[ipLen+len(e.L4):], data)
	PutICMPChecksum(m, &e.From, &e.Src)
	return ipLen + n
}

// PutICMPChecksum fills the checksum of a whole ICMP or ICMPv6 message, which has at least 4 bytes.
func PutICMPChecksum(m []byte, src, dst *Addr) {
	m[2], m[3] = 0, 0
	sum := uint64(0)
	if !src.Is4() {
		sum = PseudoSum(src, dst, ProtoICMPv6, len(m))
	}
	binary.BigEndian.PutUint16(m[2:], ^Fold(Sum(m, sum)))
}
