// SPDX-License-Identifier: Apache-2.0

package local

import (
	"encoding/binary"
	"strings"

	"passt/dataplane/flow"
	"passt/dataplane/wire"
	"passt/internal/sys"
)

// Config is what the services hand out besides the addresses of fwd.Config.
type Config struct {
	MTU                   int // bytes, told to the guest; 0: not told
	OurMAC                wire.MAC
	DHCP4, DHCP6, NDP, RA bool // services that are on
	ConfigNet             bool // the namespace is configured by us: no router advertisements
	SendDNS, SendSearch   bool
	DNS4, DNS6            []wire.Addr
	Search                []string // domains; an entry may hold several, parted by blanks
	Hostname, FQDN        string   // "": not told
	Pasta                 bool
	Seed                  uint64 // of the intervals between advertisements
}

// Room in Local.buf in front of a message: IPv6 and UDP headers. The rest is for the largest message, 1280 bytes.
const (
	head    = wire.IP6Size + wire.UDPSize
	bufSize = head + 1280
)

// Lines that tell of an answer: at most logMost in logWindowMs.
const (
	levelInfo   = 2
	logMost     = 8
	logWindowMs = 10_000
)

// Local answers for one loop. Not safe for concurrent use.
type Local struct {
	env *flow.Env
	c   Config
	buf []byte // frame under construction, from the IP header on

	neigh  neighbours
	opts4  options4
	raTail []byte // options of router advertisements behind the prefix
	tail6  []byte // DHCPv6 options 23 and 24
	fqdn6  []byte // wire form of FQDN
	duid   [10]byte
	ra     raTimer

	logFrom int64
	logged  int
}

// New prepares the answers; env.Fwd must be filled.
func New(env *flow.Env, c Config) *Local {
	s := &Local{env: env, c: c, buf: sys.Alloc(bufSize)}
	var search []string
	if c.SendSearch {
		for _, e := range c.Search {
			search = append(search, strings.Fields(e)...)
		}
	}
	s.neigh.init(c.Seed)
	s.ra.rng = c.Seed | 1
	s.opts4.build(&c, &env.Fwd.V4, search)
	s.buildRA(search)
	s.buildDHCP6(search)
	return s
}

// Probe makes the guest speak: its answers tell its Ethernet address (spec services 1, "On connect").
func (s *Local) Probe() {
	if f := &s.env.Fwd.V4; f.On && !f.Guest.IsZero() && !f.Our.IsZero() {
		m := wire.ARPMessage{Op: wire.ARPRequest, SenderMAC: s.c.OurMAC, SenderIP: f.Our, TargetMAC: wire.Broadcast, TargetIP: f.Guest}
		s.sendARP(&m, &wire.Broadcast)
	}
	f := &s.env.Fwd.V6
	if !f.On || !s.ndpOn() || f.Guest.IsZero() || f.Our.IsZero() {
		return
	}
	to := wire.SolicitedNode(&f.Guest)
	mac := wire.MulticastMAC(&to)
	n := wire.PutNeigh(s.buf[wire.IP6Size:], wire.NDPNeighbourSolicit, 0, &f.Guest, &s.c.OurMAC)
	s.sendICMP6(&to, &mac, n)
}

// linkReady tells whether unasked frames may go to the guest: pasta's tap is not up before the namespace's owner sets it up,
// unless we did.
func (s *Local) linkReady() bool {
	return s.env.Link != nil && (!s.c.Pasta || s.c.ConfigNet)
}

// sendUDP completes the UDP datagram whose payload of n bytes is at s.buf[head:].
func (s *Local) sendUDP(src, dst *wire.Addr, from, to uint16, n int) {
	be := binary.BigEndian
	u := s.buf[head-wire.UDPSize : head+n]
	be.PutUint16(u[0:], from)
	be.PutUint16(u[2:], to)
	be.PutUint16(u[4:], uint16(len(u)))
	be.PutUint16(u[6:], 0)
	sum := wire.L4Checksum(src, dst, wire.ProtoUDP, u)
	if sum == 0 {
		sum = 0xffff
	}
	be.PutUint16(u[6:], sum)
	b := s.buf[head-wire.UDPSize-wire.IPHeaderLen(src) : head+n]
	wire.PutIP(b, src, dst, wire.ProtoUDP, len(u), 0)
	s.send(&s.env.Guest.MAC, &s.c.OurMAC, wire.EtherTypeOf(src), b)
}

// sendICMP6 completes the ICMPv6 message of n bytes at s.buf[wire.IP6Size:] and sends it from our link-local address.
func (s *Local) sendICMP6(to *wire.Addr, mac *wire.MAC, n int) {
	our := &s.env.Fwd.V6.Our
	m := s.buf[wire.IP6Size : wire.IP6Size+n]
	m[2], m[3] = 0, 0
	binary.BigEndian.PutUint16(m[2:], wire.L4Checksum(our, to, wire.ProtoICMPv6, m))
	wire.PutIP(s.buf, our, to, wire.ProtoICMPv6, n, 0)
	s.send(mac, &s.c.OurMAC, wire.EtherIP6, s.buf[:wire.IP6Size+n])
}

// send gives one frame to the guest; what the link does not take is lost, as on any wire.
func (s *Local) send(dst, src *wire.MAC, etherType uint16, b []byte) {
	if s.env.Link == nil {
		return
	}
	segs := s.env.Link.Reserve(wire.EthSize, len(b), 1)
	if len(segs) == 0 {
		s.env.Drops.Add(wire.DropLinkFull)
		return
	}
	g := &segs[0]
	wire.PutEth(g.Hdr, dst, src, etherType)
	if g.Buf != nil {
		g.Len = copy(g.Buf, b)
	} else {
		g.Len = sys.CopyToVec(g.Vec, b)
	}
	if n, _ := s.env.Link.Send(segs); n == 0 {
		s.env.Drops.Add(wire.DropLinkFull)
	}
}

// mayLog rations lines that a guest can cause.
func (s *Local) mayLog() bool {
	if s.env.NowMs-s.logFrom >= logWindowMs {
		s.logFrom, s.logged = s.env.NowMs, 0
	}
	s.logged++
	return s.logged <= logMost
}
