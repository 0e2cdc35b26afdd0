// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"encoding/binary"
	"fmt"

	"passt/dataplane/fwd"
	"passt/dataplane/wire"
	"passt/internal/sys"
	"passt/ipc"
)

const backlog = 128

// sendTries bounds, in seconds, the wait for a worker that does not read its queue: it must not hold us up for ever.
const sendTries = 5

// Listener is one bound socket of a rule.
type Listener struct {
	FD   sys.FD
	ID   uint32
	Rule int
	Port uint16
}

// Listeners opens and closes the listening sockets of one table on one side, and keeps the worker informed.
type Listeners struct {
	side    fwd.Pif
	cfg     *fwd.Config
	rules   []fwd.Rule
	open    map[uint64]*Listener // by rule and port
	nextID  uint32
	isOpen  []Ports // per rule, the open ports of scan rules
	wantTCP Ports   // as last applied
	wantUDP Ports
	failed  map[uint64]bool // scan ports whose failure was reported
	granted bool
	conn    *ipc.Conn // to the worker
	Warn    func(string)
}

// NewListeners prepares the table of a side; nothing is opened yet.
func NewListeners(side fwd.Pif, cfg *fwd.Config, rules []fwd.Rule, conn *ipc.Conn, warn func(string)) *Listeners {
	return &Listeners{side: side, cfg: cfg, rules: rules, open: map[uint64]*Listener{}, failed: map[uint64]bool{}, isOpen: make([]Ports, len(rules)), conn: conn, Warn: warn}
}

func key(rule int, port uint16) uint64 { return uint64(rule)<<16 | uint64(port) }

// OpenAll binds every port of every rule that is not a scan rule.
//
//	errors: the first port of a rule that is not best-effort; a best-effort rule of which no port could be bound
func (l *Listeners) OpenAll() error {
	defer reserve()()
	for i := range l.rules {
		r := &l.rules[i]
		if r.Flags&fwd.RuleScan != 0 {
			continue
		}
		bound, skipped := 0, 0
		var last error
		for p := uint32(r.First); p <= uint32(r.Last); p++ {
			if len(l.open) >= fwd.MaxListeners {
				return fmt.Errorf("more than %d listening sockets", fwd.MaxListeners)
			}
			if err := l.bind(i, uint16(p)); err != nil {
				if r.Flags&fwd.RuleBestEffort == 0 {
					return err
				}
				last = err
				skipped++
				continue
			}
			bound++
		}
		if bound == 0 {
			return fmt.Errorf("no port of %s could be bound: %w", r, last)
		}
		if skipped > 0 {
			l.Warn(fmt.Sprintf("%s: %d ports could not be bound, last: %v", r, skipped, last))
		}
	}
	return nil
}

// reserve holds descriptors back until the returned function runs: best-effort rules bind until none is left, and the rest of
// the start needs some.
func reserve() func() {
	const spare = 32
	var held [spare]sys.FD
	for i := range held {
		held[i], _ = sys.Socket(sys.AFInet, sys.SockStream, 0) // NoFD: none to hold back
	}
	return func() {
		for _, fd := range held {
			sys.Close(fd)
		}
	}
}

func protoName(p uint8) string {
	if p == fwd.ProtoTCP {
		return "TCP"
	}
	return "UDP"
}

// bind opens one port.
func (l *Listeners) bind(rule int, port uint16) error {
	r := &l.rules[rule]
	fd, err := listenSocket(l.cfg, r, port)
	if err != nil {
		return fmt.Errorf("cannot listen on %s %s: %w", protoName(r.Proto), where(r, port), err)
	}
	l.nextID++
	ln := &Listener{FD: fd, ID: l.nextID, Rule: rule, Port: port}
	l.open[key(rule, port)] = ln
	if l.granted {
		return l.grant(ln)
	}
	return nil
}

func where(r *fwd.Rule, port uint16) string {
	a := "*"
	if r.Flags&fwd.RuleDual == 0 {
		a = r.Addr.Netip().String()
		if r.Addr.IsZero() {
			a = "::"
		}
	}
	if r.If != (fwd.IfName{}) {
		a += "%" + r.If.String()
	}
	return fmt.Sprintf("%s port %d", a, port)
}

func (l *Listeners) grant(ln *Listener) error {
	t := ipc.GrantTCP
	if l.rules[ln.Rule].Proto == fwd.ProtoUDP {
		t = ipc.GrantUDP
	}
	g := ipc.Grant{Type: t, Pif: l.side, Rule: uint16(ln.Rule), Port: ln.Port, ID: ln.ID, Addr: l.rules[ln.Rule].Addr}
	g.Put(l.conn.Body(ipc.GrantSize))
	for try := 0; ; try++ {
		e := l.conn.Send(ipc.KindGrant, 1, ipc.GrantSize, []sys.FD{ln.FD})
		if e == sys.EAGAIN && try < sendTries {
			// The worker is reading its queue: thousands of listeners are granted at start.
			sys.WaitWritable(l.conn.FD, 1000)
			continue
		}
		sys.Close(ln.FD)
		ln.FD = sys.NoFD
		if e != 0 {
			return fmt.Errorf("hand over a listening socket: %w", e)
		}
		return nil
	}
}

// GrantAll hands everything that is open to the worker; later openings go there at once.
func (l *Listeners) GrantAll() error {
	l.granted = true
	for _, ln := range l.open {
		if err := l.grant(ln); err != nil {
			return err
		}
	}
	return nil
}

// Ports is a set of port numbers.
type Ports [1024]uint64

// Set adds a port.
func (p *Ports) Set(port uint16) { p[port/64] |= 1 << (port % 64) }

func (p *Ports) clear(port uint16) { p[port/64] &^= 1 << (port % 64) }

// Has tells whether a port is in the set.
func (p *Ports) Has(port uint16) bool { return p[port/64]>>(port%64)&1 != 0 }

// Own adds the ports that are listened on here, of both protocols: a scan of this side must not take our own for a service.
func (l *Listeners) Own(p *Ports) {
	for _, ln := range l.open {
		p.Set(ln.Port)
	}
}

// NeedsScan tells whether a scan rule of a protocol exists.
func (l *Listeners) NeedsScan() bool {
	for i := range l.rules {
		if l.rules[i].Flags&fwd.RuleScan != 0 {
			return true
		}
	}
	return false
}

// Apply opens and closes the ports of scan rules so that they follow the target side's ports in use.
// For UDP rules a TCP port of the same number counts too (forwarding.md 3.3).
func (l *Listeners) Apply(tcp, udp *Ports) {
	l.wantTCP, l.wantUDP = *tcp, *udp
	for i := range l.rules {
		r := &l.rules[i]
		if r.Flags&fwd.RuleScan == 0 {
			continue
		}
		for p := uint32(r.First); p <= uint32(r.Last); p++ {
			port := uint16(p)
			to := r.Map(port)
			want := tcp.Has(to) || r.Proto == fwd.ProtoUDP && udp.Has(to)
			switch {
			case want != l.isOpen[i].Has(port):
				l.follow(i, port, want)
			case !want && len(l.failed) > 0:
				delete(l.failed, key(i, port)) // no longer wanted: a later failure is news again
			}
		}
	}
}

// Retry tries again what could not be bound in the last round: a port that has become free is taken within a second.
func (l *Listeners) Retry() {
	if len(l.failed) > 0 {
		l.Apply(&l.wantTCP, &l.wantUDP)
	}
}

func (l *Listeners) follow(rule int, port uint16, want bool) {
	k := key(rule, port)
	if !want {
		l.close(l.open[k])
		delete(l.open, k)
		l.isOpen[rule].clear(port)
		return
	}
	if err := l.bind(rule, port); err != nil {
		if !l.failed[k] { // tried again each round, told once
			l.failed[k] = true
			l.Warn(err.Error())
		}
		return
	}
	delete(l.failed, k)
	l.isOpen[rule].Set(port)
}

func (l *Listeners) close(ln *Listener) {
	if !l.granted {
		sys.Close(ln.FD)
		return
	}
	g := ipc.Grant{Pif: l.side, ID: ln.ID}
	g.Put(l.conn.Body(ipc.GrantSize))
	for try := 0; l.conn.Send(ipc.KindRevoke, 1, ipc.GrantSize, nil) == sys.EAGAIN && try < sendTries; try++ {
		sys.WaitWritable(l.conn.FD, 1000)
	}
}

// listenSocket makes the listening socket of one port (forwarding.md 4).
func listenSocket(cfg *fwd.Config, r *fwd.Rule, port uint16) (sys.FD, error) {
	v4 := r.Addr.Is4()
	fam, kind := sys.AFInet6, sys.SockStream
	if v4 {
		fam = sys.AFInet
	}
	if r.Proto == fwd.ProtoUDP {
		kind = sys.SockDgram
	}
	fd, e := sys.Socket(fam, kind, 0)
	if e != 0 {
		return fd, fmt.Errorf("socket: %w%s", e, limitHint(e))
	}
	for _, s := range listenOptions(cfg, r) {
		if e := s.opt.Set(fd, s.value); e != 0 && !s.soft {
			sys.Close(fd)
			return sys.NoFD, fmt.Errorf("option %d/%d: %w", s.opt.Level, s.opt.Name, e)
		}
	}
	if r.If != (fwd.IfName{}) {
		if e := sys.BindToDevice(fd, (*[16]byte)(&r.If)); e != 0 {
			sys.Close(fd)
			return sys.NoFD, fmt.Errorf("bind to device %s: %w", r.If, e)
		}
	}
	var sa sys.SockAddr
	if v4 {
		sa = sys.MakeSockAddr4(r.Addr.V4(), port)
	} else {
		var scope uint32
		if r.Addr.IsLinkLocal() {
			scope = cfg.V6.Scope
		}
		sa = sys.MakeSockAddr6(r.Addr, port, scope)
	}
	if e = sys.Bind(fd, &sa); e == 0 && kind == sys.SockStream {
		e = sys.Listen(fd, backlog)
	}
	if e != 0 {
		sys.Close(fd)
		return sys.NoFD, e
	}
	if kind == sys.SockDgram {
		// The worker only receives here: sending is shut down before it gets the socket. Linux answers
		// ENOTCONN and honours it all the same (EPIPE on every send).
		_ = sys.Shutdown(fd, sys.ShutWr)
	}
	return fd, nil
}

func limitHint(e sys.Errno) string {
	if e == sys.EMFILE {
		return " (raise the open-files limit, ulimit -Hn)"
	}
	return ""
}

type setting struct {
	opt   sys.Option
	value int
	soft  bool
}

func listenOptions(cfg *fwd.Config, r *fwd.Rule) []setting {
	s := []setting{{sys.OptReuseAddr, 1, false}}
	v4 := r.Addr.Is4()
	switch {
	case v4:
	case r.Flags&fwd.RuleDual != 0:
		s = append(s, setting{sys.OptV6Only, 0, false})
	case r.Addr == wire.Addr{}:
		s = append(s, setting{sys.OptV6Only, 1, false})
	}
	if cfg.FreeBind {
		o := sys.OptFreebind6
		if v4 {
			o = sys.OptFreebind4
		}
		s = append(s, setting{o, 1, true})
	}
	if r.Proto != fwd.ProtoUDP {
		return s
	}
	if v4 {
		return append(s, setting{sys.OptRecvErr4, 1, false}, setting{sys.OptPktInfo4, 1, false}, setting{sys.OptUDPGRO, 1, true})
	}
	// A socket for both families needs the IPv4 forms too.
	return append(s, setting{sys.OptRecvErr6, 1, false}, setting{sys.OptPktInfo6, 1, false},
		setting{sys.OptRecvErr4, 1, true}, setting{sys.OptUDPGRO, 1, true})
}

// Put writes the set to b[:8192].
func (p *Ports) Put(b []byte) {
	for i, w := range p {
		binary.LittleEndian.PutUint64(b[i*8:], w)
	}
}

// Get reads the set from b[:8192].
func (p *Ports) Get(b []byte) {
	for i := range p {
		p[i] = binary.LittleEndian.Uint64(b[i*8:])
	}
}

// Remove takes the ports of q out of p.
func (p *Ports) Remove(q *Ports) {
	for i := range p {
		p[i] &^= q[i]
	}
}
