// SPDX-License-Identifier: Apache-2.0

package ipc

import (
	"encoding/binary"
	"errors"
	"fmt"

	"passt/dataplane/fwd"
	"passt/dataplane/wire"
)

// Kind names a message.
type Kind uint16

const (
	KindBoot    Kind = 1  // supervisor → worker: configuration, once
	KindReady   Kind = 2  // worker → supervisor: locked down, send the link
	KindGrant   Kind = 3  // supervisor, agent → worker: a link, capture file or listener, with its descriptor
	KindRevoke  Kind = 4  // supervisor, agent → worker: close a listener
	KindConnect Kind = 5  // worker → supervisor, agent: make and connect sockets
	KindReply   Kind = 6  // answer to KindConnect and KindPipe
	KindLog     Kind = 7  // worker → supervisor: one line
	KindPipe    Kind = 8  // worker → supervisor: one pipe (two descriptors)
	KindUpdate  Kind = 9  // supervisor → worker: one changed address (neighbour, resolver)
	KindControl Kind = 10 // supervisor ↔ agent, both trusted: set-up result, start, ports in use
)

// Sizes of the wire form, bytes.
const (
	HeaderSize  = 16
	ConnectSize = 64
	ReplySize   = 40
	GrantSize   = 40
	UpdateSize  = 32
	MaxBatch    = 16       // records in one packet, and descriptors in one packet
	MaxLog      = 512      // bytes of one log line
	MaxBoot     = 64 << 10 // bytes of a Boot body
)

// Op is what a Connect record asks for.
type Op uint8

const (
	OpTCP       Op = 1 // guest's connection: Dst as the guest sees it, the broker translates and connects
	OpUDP       Op = 2 // guest's flow: the same; SrcPort is kept where it can be
	OpPing      Op = 3 // guest's echo flow: the same
	OpUDPReply  Op = 4 // socket for the answers to a host peer: Src our address and port (a UDP listener's), Dst the peer as it is
	OpSpliceTCP Op = 5 // loopback path: Dst is an address on the broker's own side, port by rule
	OpSpliceUDP Op = 6 // the same for UDP; Src is kept where it can be
	OpUDPListen Op = 7 // unconnected socket on SrcPort that can only receive, for answers to a multicast or broadcast question
)

// Connect asks a broker for one socket.
type Connect struct {
	Flow    uint32 // index of the flow, echoed
	Gen     uint32 // generation of the flow, echoed
	Op      Op
	Slot    uint8 // which descriptor of the flow, echoed
	TTL     uint8 // 0: kernel's default
	_       uint8
	Src     wire.Addr // meaning depends on Op; zero: any
	Dst     wire.Addr
	SrcPort uint16
	DstPort uint16
	MSS     uint16 // OpTCP: the guest's MSS for TCP_MAXSEG, 0: unset
	Rule    uint16 // splice: index of the rule that the flow came in by
}

// ReplyFlags qualify a reply.
type ReplyFlags uint8

const (
	ReplyConnected ReplyFlags = 1 // TCP: connection already established
	ReplyLocal     ReplyFlags = 2 // the target is an address of this host
)

// Reply answers one Connect. FDs descriptors of the packet, in order, belong to it.
type Reply struct {
	Flow      uint32
	Gen       uint32
	Errno     uint16 // 0, or why there is no descriptor
	Slot      uint8
	FDs       uint8
	Flags     ReplyFlags
	Target    wire.Addr // the address that was connected to
	LocalPort uint16    // bound port, UDP
}

// GrantType tells what a Grant's descriptor is.
type GrantType uint8

const (
	GrantTap     GrantType = 1 // tap device; Arg: TUN_F offloads in force, bit 31: virtio-net header present
	GrantTCP     GrantType = 2 // TCP listener
	GrantUDP     GrantType = 3 // UDP socket of a forwarding rule, sending shut down
	GrantCapture GrantType = 4 // capture file, header written
	GrantStream  GrantType = 5 // connected QEMU stream socket
)

// Grant hands one descriptor over. Revoke has the same layout, ID and Type only.
type Grant struct {
	Type GrantType
	Pif  fwd.Pif // where the listener listens
	Rule uint16  // index in that Pif's table
	Port uint16
	_    uint16
	ID   uint32 // names the listener in Revoke; unique per channel
	Arg  uint32
	Addr wire.Addr // bound address; zero: wildcard of both families
}

// UpdateType tells what changed.
type UpdateType uint8

const (
	UpdateNeigh   UpdateType = 1 // neighbour Addr has MAC; zero MAC: gone
	UpdateDNSHost UpdateType = 2 // resolver of Addr's family
	UpdateGuest   UpdateType = 3 // namespace's own address (link-local of the tap, ...)
)

// Update tells the worker of one change on the host.
type Update struct {
	Type UpdateType
	Addr wire.Addr
	MAC  wire.MAC
}

// Header starts each packet.
type Header struct {
	Kind  Kind
	Count uint16 // records; Boot, Log: 1
	Len   uint32 // bytes after the header
	Seq   uint32 // packets sent so far on this channel by this side
	FDs   uint8  // descriptors in the packet
}

// ErrFormat is wrapped by every parse error; the text names the field and the values.
var ErrFormat = errors.New("malformed message")

var be = binary.BigEndian

// PutHeader writes h to b[:HeaderSize].
func PutHeader(b []byte, h Header) {
	clear(b[:HeaderSize])
	be.PutUint16(b[0:], uint16(h.Kind))
	be.PutUint16(b[2:], h.Count)
	be.PutUint32(b[4:], h.Len)
	be.PutUint32(b[8:], h.Seq)
	b[12] = h.FDs
}

// RecordSize gives the fixed size of one record; 0 for kinds with a body of bounded length.
func RecordSize(k Kind) int {
	switch k {
	case KindGrant, KindRevoke:
		return GrantSize
	case KindConnect:
		return ConnectSize
	case KindReply:
		return ReplySize
	case KindPipe:
		return 16
	case KindUpdate:
		return UpdateSize
	}
	return 0
}

// ParseHeader checks a whole packet b with nfds descriptors: kind, exact length, counts.
//
//	errors: ErrFormat with the field and both values
func ParseHeader(b []byte, nfds int) (Header, []byte, error) {
	if len(b) < HeaderSize {
		return Header{}, nil, fmt.Errorf("%w: %d bytes, a header has %d", ErrFormat, len(b), HeaderSize)
	}
	h := Header{Kind: Kind(be.Uint16(b)), Count: be.Uint16(b[2:]), Len: be.Uint32(b[4:]), Seq: be.Uint32(b[8:]), FDs: b[12]}
	body := b[HeaderSize:]
	if uint64(h.Len) != uint64(len(body)) {
		return h, nil, fmt.Errorf("%w: kind %d: length %d, body has %d", ErrFormat, h.Kind, h.Len, len(body))
	}
	if int(h.FDs) != nfds {
		return h, nil, fmt.Errorf("%w: kind %d: %d descriptors announced, %d came", ErrFormat, h.Kind, h.FDs, nfds)
	}
	if b[13]|b[14]|b[15] != 0 {
		return h, nil, fmt.Errorf("%w: kind %d: reserved bytes %x", ErrFormat, h.Kind, b[13:16])
	}
	size := RecordSize(h.Kind)
	switch {
	case size > 0:
		if h.Count == 0 || h.Count > MaxBatch || int(h.Count)*size != len(body) {
			return h, nil, fmt.Errorf("%w: kind %d: %d records of %d bytes, body has %d", ErrFormat, h.Kind, h.Count, size, len(body))
		}
	case h.Kind == KindBoot, h.Kind == KindLog, h.Kind == KindReady, h.Kind == KindControl:
		if h.Count != 1 {
			return h, nil, fmt.Errorf("%w: kind %d: count %d, must be 1", ErrFormat, h.Kind, h.Count)
		}
	default:
		return h, nil, fmt.Errorf("%w: kind %d is unknown", ErrFormat, h.Kind)
	}
	return h, body, nil
}

// Put writes the record to b[:ConnectSize].
func (c *Connect) Put(b []byte) {
	_ = b[ConnectSize-1]
	be.PutUint32(b[0:], c.Flow)
	be.PutUint32(b[4:], c.Gen)
	b[8], b[9], b[10], b[11] = byte(c.Op), c.Slot, c.TTL, 0
	copy(b[12:28], c.Src[:])
	copy(b[28:44], c.Dst[:])
	be.PutUint16(b[44:], c.SrcPort)
	be.PutUint16(b[46:], c.DstPort)
	be.PutUint16(b[48:], c.MSS)
	be.PutUint16(b[50:], c.Rule)
	clear(b[52:ConnectSize])
}

// Parse reads the record from b[:ConnectSize]; false when an op is unknown or a reserved byte is set.
func (c *Connect) Parse(b []byte) bool {
	_ = b[ConnectSize-1]
	*c = Connect{Flow: be.Uint32(b[0:]), Gen: be.Uint32(b[4:]), Op: Op(b[8]), Slot: b[9], TTL: b[10],
		Src: wire.Addr(b[12:28]), Dst: wire.Addr(b[28:44]),
		SrcPort: be.Uint16(b[44:]), DstPort: be.Uint16(b[46:]), MSS: be.Uint16(b[48:]), Rule: be.Uint16(b[50:])}
	for _, x := range b[52:ConnectSize] {
		if x != 0 {
			return false
		}
	}
	return c.Op >= OpTCP && c.Op <= OpUDPListen && b[11] == 0
}

// Put writes the record to b[:ReplySize].
func (r *Reply) Put(b []byte) {
	_ = b[ReplySize-1]
	be.PutUint32(b[0:], r.Flow)
	be.PutUint32(b[4:], r.Gen)
	be.PutUint16(b[8:], r.Errno)
	b[10], b[11], b[12], b[13] = r.Slot, r.FDs, byte(r.Flags), 0
	copy(b[14:30], r.Target[:])
	be.PutUint16(b[30:], r.LocalPort)
	clear(b[32:ReplySize])
}

// Parse reads the record from b[:ReplySize].
func (r *Reply) Parse(b []byte) {
	_ = b[ReplySize-1]
	*r = Reply{Flow: be.Uint32(b[0:]), Gen: be.Uint32(b[4:]), Errno: be.Uint16(b[8:]), Slot: b[10], FDs: b[11],
		Flags: ReplyFlags(b[12]), Target: wire.Addr(b[14:30]), LocalPort: be.Uint16(b[30:])}
}

// Put writes the record to b[:GrantSize].
func (g *Grant) Put(b []byte) {
	_ = b[GrantSize-1]
	clear(b[:GrantSize])
	b[0], b[1] = byte(g.Type), byte(g.Pif)
	be.PutUint16(b[2:], g.Rule)
	be.PutUint16(b[4:], g.Port)
	be.PutUint32(b[8:], g.ID)
	be.PutUint32(b[12:], g.Arg)
	copy(b[16:32], g.Addr[:])
}

// Parse reads the record from b[:GrantSize].
func (g *Grant) Parse(b []byte) {
	_ = b[GrantSize-1]
	*g = Grant{Type: GrantType(b[0]), Pif: fwd.Pif(b[1]), Rule: be.Uint16(b[2:]), Port: be.Uint16(b[4:]),
		ID: be.Uint32(b[8:]), Arg: be.Uint32(b[12:]), Addr: wire.Addr(b[16:32])}
}

// Put writes the record to b[:UpdateSize].
func (u *Update) Put(b []byte) {
	_ = b[UpdateSize-1]
	clear(b[:UpdateSize])
	b[0] = byte(u.Type)
	copy(b[2:18], u.Addr[:])
	copy(b[18:24], u.MAC[:])
}

// Parse reads the record from b[:UpdateSize].
func (u *Update) Parse(b []byte) {
	_ = b[UpdateSize-1]
	*u = Update{Type: UpdateType(b[0]), Addr: wire.Addr(b[2:18]), MAC: wire.MAC(b[18:24])}
}
