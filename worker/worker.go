// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"fmt"

	"passt/dataplane"
	"passt/dataplane/flow"
	"passt/dataplane/fwd"
	"passt/dataplane/link"
	"passt/dataplane/local"
	"passt/dataplane/wire"
	"passt/internal/sys"
	"passt/ipc"
)

// peer is one broker's channel.
type peer struct {
	conn *ipc.Conn
	side fwd.Pif
	full bool // the last send found no room
	gone bool
	held []flow.Request // requests that found no room
	n    int
}

// heldMax bounds the requests that wait for room in a broker's channel.
const heldMax = 8192

// Worker is the state of the process.
type Worker struct {
	ep           sys.FD
	host, ns     peer
	boot         *ipc.Boot
	plane        *dataplane.Plane
	env          *flow.Env
	tap          *link.Tap // made before the lock-down, attached when it is granted
	msg          ipc.Message
	events       [128]sys.PollEvent
	logLost      int
	logLevel     int
	done         error         // why the loop ends
	drops        wire.Counters // as last reported
	dropsAt      int64         // ms of that report
	captureEnded bool
	listener     sys.FD
}

// Run is the life of the worker. host and ns are the channels to the supervisor and (pasta) to the agent, NoFD: none.
// lock gives up every right and puts the filter on; it runs once, between the last allocation and Ready. It returns the
// filter's listener, which the supervisor takes over to learn the name of a forbidden call (NoFD: none).
//
//	errors: why the worker cannot start or go on; the supervisor being gone is a normal end (nil)
func Run(host, ns sys.FD, lock func() (sys.FD, error)) error {
	w := &Worker{host: peer{conn: ipc.NewConn(host), side: fwd.PifHost}, ns: peer{side: fwd.PifSplice, gone: true}}
	if ns != sys.NoFD {
		w.ns.conn, w.ns.gone = ipc.NewConn(ns), false
	}
	for _, p := range []*peer{&w.host, &w.ns} {
		p.held = sys.AllocOf[flow.Request](heldMax)
	}
	if err := w.start(); err != nil {
		return err
	}
	listener, err := lock()
	if err != nil {
		return err
	}
	w.listener = listener
	put32(w.host.conn.Body(4), uint32(listener))
	if e := w.host.conn.Send(ipc.KindReady, 1, 4, nil); e != 0 {
		return fmt.Errorf("send ready: %w", e)
	}
	w.loop()
	return w.done
}

// start waits for Boot and builds every table.
func (w *Worker) start() error {
	ep, e := sys.EpollCreate()
	if e != 0 {
		return fmt.Errorf("epoll: %w", e)
	}
	w.ep = ep
	if e := sys.EpollAdd(ep, w.host.conn.FD, sys.PollIn|sys.PollOut|sys.PollEdge, flow.Tag(flow.PollHostIPC, 0, 0)); e != 0 {
		return fmt.Errorf("watch supervisor: %w", e)
	}
	if !w.ns.gone {
		if e := sys.EpollAdd(ep, w.ns.conn.FD, sys.PollIn|sys.PollOut|sys.PollEdge, flow.Tag(flow.PollNsIPC, 0, 0)); e != 0 {
			return fmt.Errorf("watch agent: %w", e)
		}
	}
	for {
		ok, err := w.host.conn.Recv(&w.msg)
		if err != nil {
			return fmt.Errorf("boot: %w", err)
		}
		if ok {
			break
		}
		if _, e := sys.EpollWait(ep, w.events[:], -1, true); e != 0 {
			return fmt.Errorf("wait: %w", e)
		}
	}
	if w.msg.Kind != ipc.KindBoot {
		return fmt.Errorf("%w: kind %d before boot", ipc.ErrFormat, w.msg.Kind)
	}
	b, err := ipc.ParseBoot(w.msg.Body)
	if err != nil {
		return err
	}
	w.build(b)
	return nil
}

func (w *Worker) build(b *ipc.Boot) {
	w.boot, w.logLevel = b, int(b.LogLevel)
	flows := flow.MaxFlows
	if b.MaxFlows != 0 {
		flows = min(flows, int(b.MaxFlows))
	}
	env := flow.NewEnv(flow.NewTable(flows, b.Secret), sys.NowNs())
	env.Cfg = flow.Config{MTU: int(b.MTU), Pasta: b.Mode == ipc.ModePasta, OurMAC: b.OurMAC,
		SynRetries: int(b.SynRetries), SynLinear: int(b.SynLinear), RTOMaxMs: int64(b.RTOMaxMs),
		UDPTimeoutS: int64(b.UDPTimeout), UDPStreamS: int64(b.UDPStream), NoPeekOffset: b.NoPeekOffset}
	env.Fwd, env.HostRules, env.NsRules, env.Ep = &b.Fwd, b.Host, b.Ns, w.ep
	env.Guest.Seen4, env.Guest.Seen6, env.Guest.SeenL = b.Fwd.V4.Guest, b.Fwd.V6.Guest, b.GuestLL
	if !b.GuestMAC.IsZero() {
		env.Guest.MAC = b.GuestMAC
	}
	env.Trace = w.logLevel > dataplane.LevelDebug
	env.Log = w.log
	w.env = env
	w.tap = link.PrepareTap()
	if b.Capture {
		w.tap.Capture = link.NewCapture()
	}
	w.plane = dataplane.New(env, local.Config{MTU: int(b.MTU), OurMAC: b.OurMAC, DHCP4: b.DHCP4, DHCP6: b.DHCP6, NDP: b.NDP, RA: b.RA,
		ConfigNet: b.ConfigNet, SendDNS: b.SendDNS, SendSearch: b.SendSearch, DNS4: b.DNS4, DNS6: b.DNS6, Search: b.Search,
		Hostname: b.Hostname, FQDN: b.FQDN, Pasta: env.Cfg.Pasta, Seed: env.Table.Hash(1, &flow.Side{})})
}

// log sends one line to the supervisor; what finds no room is counted and told later.
func (w *Worker) log(level int, line string) {
	if level > w.logLevel {
		return
	}
	if w.logLost > 0 {
		n := w.logLost
		w.logLost = 0
		w.sendLog(dataplane.LevelWarn, fmt.Sprintf("%d log lines were lost", n))
	}
	w.sendLog(level, line)
}

func (w *Worker) sendLog(level int, line string) {
	c := w.host.conn
	b := c.Body(ipc.MaxLog)
	b[0] = byte(level)
	n := 1 + copy(b[1:], line)
	if e := c.Send(ipc.KindLog, 1, n, nil); e != 0 {
		w.logLost++
	}
}

// fromBroker handles everything a broker has sent.
func (w *Worker) fromBroker(p *peer) {
	for !p.gone {
		ok, err := p.conn.Recv(&w.msg)
		if err != nil {
			p.gone = true
			if p == &w.host {
				if !ipc.Gone(err) {
					w.done = err
				}
				return
			}
			w.log(dataplane.LevelWarn, "namespace agent is gone: "+err.Error())
			return
		}
		if !ok {
			return
		}
		w.message(p, &w.msg)
	}
}

func (w *Worker) message(p *peer, m *ipc.Message) {
	used := 0
	switch m.Kind {
	case ipc.KindReply:
		for i := range int(m.Count) {
			used += w.reply(m.Record(i), m.FDs[used:])
		}
	case ipc.KindGrant:
		for i := range int(m.Count) {
			if used == len(m.FDs) {
				w.log(dataplane.LevelError, "out of file descriptors: a listener or link could not be taken")
				break
			}
			var g ipc.Grant
			g.Parse(m.Record(i))
			w.grant(&g, m.FDs[used])
			used++
		}
	case ipc.KindRevoke:
		for i := range int(m.Count) {
			var g ipc.Grant
			g.Parse(m.Record(i))
			w.plane.Revoke(g.Pif, g.ID)
		}
	case ipc.KindUpdate:
		for i := range int(m.Count) {
			var u ipc.Update
			u.Parse(m.Record(i))
			w.update(&u)
		}
	default:
		w.done = fmt.Errorf("%w: kind %d is not for the worker", ipc.ErrFormat, m.Kind)
	}
	for _, f := range m.FDs[used:] {
		sys.Close(f)
	}
}

// reply hands one answer on and tells how many descriptors it used.
func (w *Worker) reply(rec []byte, fds []sys.FD) int {
	var r ipc.Reply
	r.Parse(rec)
	o := flow.Opened{Flow: flow.Index(r.Flow), Slot: r.Slot, Errno: sys.Errno(r.Errno), FD: sys.NoFD, FD2: sys.NoFD,
		Connected: r.Flags&ipc.ReplyConnected != 0, Local: r.Flags&ipc.ReplyLocal != 0, Target: r.Target, LocalPort: r.LocalPort}
	n := min(int(r.FDs), len(fds), 2)
	if n > 0 {
		o.FD = fds[0]
	}
	if n > 1 {
		o.FD2 = fds[1]
	}
	if n < int(r.FDs) || n == 0 && o.Errno == 0 {
		// The kernel could not install the descriptor here.
		sys.Close(o.FD)
		o.FD, o.FD2, o.Errno = sys.NoFD, sys.NoFD, sys.EMFILE
	}
	w.plane.Opened(&o, r.Gen)
	return n
}

func (w *Worker) grant(g *ipc.Grant, fd sys.FD) {
	// A grant means that the supervisor has its copy: ours could only answer for ourselves.
	sys.Close(w.listener)
	w.listener = sys.NoFD
	var e sys.Errno
	switch g.Type {
	case ipc.GrantTap:
		w.tap.Attach(fd, g.Arg&^(1<<31), g.Arg>>31 != 0)
		e = w.plane.SetLink(w.tap, w.boot.ConfigNet)
	case ipc.GrantCapture:
		if w.tap.Capture == nil {
			sys.Close(fd)
			return
		}
		w.tap.Capture.Open(fd, int64(uint64(g.Arg)<<32|uint64(be32(g.Addr[:]))))
	case ipc.GrantTCP, ipc.GrantUDP:
		e = w.plane.Grant(flow.Listener{FD: fd, Pif: g.Pif, UDP: g.Type == ipc.GrantUDP, Rule: g.Rule, Port: g.Port, ID: g.ID & flow.GenMask, Addr: g.Addr})
	default:
		sys.Close(fd)
	}
	if e != 0 {
		w.log(dataplane.LevelError, "cannot watch a granted descriptor: "+e.Error())
	}
}

func (w *Worker) update(u *ipc.Update) {
	switch u.Type {
	case ipc.UpdateNeigh:
		w.plane.SetNeigh(u.Addr, u.MAC)
	case ipc.UpdateDNSHost:
		w.env.Fwd.Of(&u.Addr).DNSHost = u.Addr
	case ipc.UpdateGuest:
		if u.Addr.IsLinkLocal() && !u.Addr.Is4() {
			w.env.Guest.SeenL = u.Addr
		}
		if u.MAC != (wire.MAC{}) {
			w.env.Guest.MAC = u.MAC
		}
	}
}

func be32(b []byte) uint32 {
	return uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
}
