// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"passt/dataplane/fwd"
	"passt/dataplane/link"
	"passt/internal/logx"
	"passt/internal/sys"
	"passt/internal/sys/priv"
	"passt/ipc"
	"passt/isolation"
	"passt/supervisor/agent"
	"passt/supervisor/broker"
	"passt/supervisor/conf"
)

func (s *Supervisor) parse() error {
	opts, x := conf.Parse(s.argv)
	if x != nil {
		_, _ = os.Stdout.WriteString(x.Stdout) // --help, --version, a diagnostic: nothing to do where nobody reads
		_, _ = os.Stderr.WriteString(x.Stderr)
		return &exit{status: x.Code}
	}
	s.opts = opts
	s.log.Ident = opts.Ident()
	s.log.Level = logx.Level(opts.LogLevel())
	s.log.Stamps = opts.Debug
	if !opts.Debug {
		s.log.Syslog = priv.Syslog()
	}
	if opts.Mode != conf.ModePasta {
		return fmt.Errorf("%s: the virtual machine side is not built yet; call this program as pasta", opts.Ident())
	}
	if opts.Background() && s.ready == sys.NoFD {
		return s.background()
	}
	isolation.RaiseNOFILE()
	return nil
}

// background starts this program again as the process that stays, and waits for its word. A Go program cannot
// fork; the second start costs 2 ms.
func (s *Supervisor) background() error {
	r, w, e := priv.Pipe(false)
	if e != 0 {
		return fmt.Errorf("pipe: %w", e)
	}
	pid, e := priv.Restart(RoleMain, s.argv, w)
	if e != 0 {
		return fmt.Errorf("start in the background: %w", e)
	}
	sys.Close(w)
	if ok, _ := priv.ReadByte(r); ok {
		return &exit{status: 0}
	}
	status := priv.WaitStatus(pid) // it has printed its reason
	if status == 0 {
		status = 1
	}
	return &exit{status: status}
}

func (s *Supervisor) discover() error {
	plan, err := conf.Load(s.opts)
	if err != nil {
		return err
	}
	s.plan = plan
	for _, l := range plan.Messages {
		s.log.Line(logx.Level(l.Level), l.Text)
	}
	if e := priv.Random(plan.Boot.Secret[:]); e != 0 {
		return fmt.Errorf("random numbers: %w", e)
	}
	plan.Boot.ClockBaseNs = uint64(s.log.Start)
	plan.Boot.LogLevel = uint8(s.log.Level)
	plan.Boot.NoPeekOffset = os.Getenv("PASST_TEST_NO_PEEK_OFFSET") != ""
	return nil
}

func (s *Supervisor) openFiles() error {
	open := func(path, what string, to *sys.FD) error {
		if path == "" {
			return nil
		}
		fd, e := priv.OpenFile(path)
		if e != 0 {
			return fmt.Errorf("cannot open %s %s: %w", what, path, e)
		}
		*to = fd
		return nil
	}
	if err := open(s.opts.PidFile, "PID file", &s.pidFile); err != nil {
		return err
	}
	if err := open(s.opts.Pcap, "capture file", &s.capture); err != nil {
		return err
	}
	if s.capture != sys.NoFD {
		if n, e := sys.Write(s.capture, link.CaptureHeader[:]); e != 0 || n != len(link.CaptureHeader) {
			return fmt.Errorf("write capture file %s: %w", s.opts.Pcap, e)
		}
	}
	return nil
}

// becomeUser gives up root: to --runas, or to nobody where user 0 is the host's own.
func (s *Supervisor) becomeUser() error {
	uid, _ := priv.IDs()
	switch {
	case s.opts.RunAs != "":
		u, g, err := isolation.LookupUser(s.opts.RunAs)
		if err != nil {
			return err
		}
		return isolation.BecomeUser(u, g)
	case uid == 0 && isolation.InInitialUserNS():
		u, g, err := isolation.LookupUser("nobody")
		if err != nil {
			u, g = 65534, 65534
		}
		s.log.Warnf("Started as root, will change to nobody (%d:%d)", u, g)
		return isolation.BecomeUser(u, g)
	}
	return nil
}

// openNamespace finds the target's namespaces, or starts the launcher that will become the command in new ones.
func (s *Supervisor) openNamespace() error {
	t := &s.plan.Target
	if t.Command != nil {
		return s.startLauncher(t)
	}
	if t.UserNS != "" {
		fd, err := isolation.OpenNamespace(t.UserNS)
		if err != nil {
			return err
		}
		s.userNS, s.userNSName = fd, t.UserNS
	}
	fd, err := isolation.OpenNamespace(t.NetNS)
	if err != nil {
		return err
	}
	s.netNS, s.netNSName = fd, t.NetNS
	return nil
}

func (s *Supervisor) startLauncher(t *conf.Target) error {
	r, w, e := priv.Pipe(false)
	if e != 0 {
		return fmt.Errorf("pipe: %w", e)
	}
	args := append([]string{s.opts.Hostname, t.Program}, t.Command...)
	c, err := isolation.StartLauncher(isolation.LaunchOpts{Args: args, NetnsOnly: t.NetnsOnly}, []sys.FD{r})
	sys.Close(r)
	if err != nil {
		return err
	}
	s.launcher, s.release = c, w
	base := fmt.Sprintf("/proc/%d/ns/", c.Pid)
	if !t.NetnsOnly {
		if s.userNS, err = isolation.OpenNamespace(base + "user"); err != nil {
			return err
		}
		s.userNSName = base + "user"
	}
	s.netNS, err = isolation.OpenNamespace(base + "net")
	s.netNSName = base + "net"
	return err
}

func (s *Supervisor) makeChannels() error {
	sw, ws, e1 := sys.SeqPair()
	aw, wa, e2 := sys.SeqPair()
	sa, as, e3 := sys.SeqPair()
	for _, e := range []sys.Errno{e1, e2, e3} {
		if e != 0 {
			return fmt.Errorf("socket pair: %w", e)
		}
	}
	s.workerConn, s.agentConn = ipc.NewConn(sw), ipc.NewConn(sa)
	s.workerFDs, s.agentFDs = [2]sys.FD{ws, wa}, [2]sys.FD{as, aw}
	return nil
}

func (s *Supervisor) startWorker() error {
	r, w, e := priv.Pipe(true)
	if e != 0 {
		return fmt.Errorf("pipe: %w", e)
	}
	s.workerErr = r
	c, err := isolation.StartWorker(isolation.WorkerOpts{FDs: s.workerFDs[:], Stderr: w})
	sys.Close(w)
	for _, fd := range s.workerFDs {
		sys.Close(fd)
	}
	if err != nil {
		return err
	}
	s.worker = c
	return nil
}

func (s *Supervisor) startAgent() error {
	boot, err := ipc.EncodeBoot(&s.plan.Boot)
	if err != nil {
		return err
	}
	setup := agent.Setup{Boot: boot, TapName: s.plan.TapName, TapMAC: s.plan.TapMAC, MTU: int(s.plan.Boot.MTU),
		SpliceOnly: s.plan.Boot.Fwd.SpliceOnly, LogLevel: uint8(s.log.Level)}
	if s.plan.NS != nil {
		if setup.NS, err = s.plan.NS.Marshal(); err != nil {
			return err
		}
	}
	text, err := json.Marshal(&setup)
	if err != nil {
		return err
	}
	r, w, e := priv.Pipe(false)
	re, we, e2 := priv.Pipe(true)
	if e != 0 || e2 != 0 {
		return fmt.Errorf("pipe: %w", max(e, e2))
	}
	s.agentErr = re
	s.agent, err = isolation.JoinAndStart(isolation.JoinOpts{UserNS: s.userNS, NetNS: s.netNS, UserNSName: s.userNSName, NetNSName: s.netNSName,
		Role: isolation.RoleAgent, Env: []string{"GOMAXPROCS=1"}, FDs: []sys.FD{s.agentFDs[0], s.agentFDs[1], r}, Stderr: we},
		isolation.CapNetAdmin, isolation.CapNetBindService, isolation.CapSetPcap)
	for _, fd := range []sys.FD{r, we, s.agentFDs[0], s.agentFDs[1], s.userNS, s.netNS} {
		sys.Close(fd)
	}
	if err != nil {
		return err
	}
	return priv.WriteAll(w, text)
}

// listen binds the host side while the agent is at work.
func (s *Supervisor) listen() error {
	b := &s.plan.Boot
	s.listeners = broker.NewListeners(fwd.PifHost, &b.Fwd, b.Host, s.workerConn, func(t string) { s.log.Warnf("%s", t) })
	s.follow.Listeners = s.listeners
	s.follow.Scanner = broker.OpenScanner(openTable)
	for i := range b.Ns {
		s.follow.Others = s.follow.Others || b.Ns[i].Flags&fwd.RuleScan != 0
	}
	return s.listeners.OpenAll()
}

func openTable(path string) sys.FD {
	fd, e := priv.OpenRead(path)
	if e != 0 {
		return sys.NoFD
	}
	return fd
}

// awaitAgent waits for the namespace to be ready.
func (s *Supervisor) awaitAgent() error {
	m, err := s.await(s.agentConn, s.agent, "namespace agent", s.agentErr)
	if err != nil {
		return err
	}
	res, tap, err := agent.ParseResult(m)
	if err != nil {
		return err
	}
	for _, n := range res.Notes {
		s.log.Infof("%s", n)
	}
	if res.Err != "" {
		return fmt.Errorf("%s", res.Err)
	}
	b := &s.plan.Boot
	b.GuestMAC, b.GuestLL = res.MAC, res.LinkLocal
	s.tap, s.tapArg = tap, res.Offloads
	if res.VnetHdr {
		s.tapArg |= 1 << 31
	}
	return nil
}

// await waits for one message of a starting process; its end, and startMs, end the wait.
func (s *Supervisor) await(c *ipc.Conn, child isolation.Child, name string, text sys.FD) (*ipc.Message, error) {
	const startMs = 30_000
	deadline := sys.NowNs() + startMs*1e6
	for {
		m := new(ipc.Message)
		ok, err := c.Recv(m)
		switch {
		case ok:
			if m.Kind == ipc.KindControl && len(m.Body) > 1 && m.Body[0] == agent.CtlLog {
				s.log.Line(logx.Level(m.Body[1]), string(m.Body[2:]))
				continue
			}
			if m.Kind == ipc.KindLog && len(m.Body) > 1 {
				s.log.Line(logx.Level(m.Body[0]), string(m.Body[1:]))
				continue
			}
			return m, nil
		case err != nil && !ipc.Gone(err):
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		left := (deadline - sys.NowNs()) / 1e6
		if err != nil || !sys.WaitReadable(c.FD, child.PidFD, int(left)) {
			if left <= 0 {
				return nil, fmt.Errorf("%s: not ready within %d s", name, startMs/1000)
			}
			return nil, fmt.Errorf("%s: %s%s", name, s.reap(child), drain(text))
		}
	}
}

// reap waits shortly for a child that has closed its channel and says how it ended.
func (s *Supervisor) reap(c isolation.Child) string {
	sys.WaitReadable(c.PidFD, sys.NoFD, 1000)
	status, signal, ended, e := priv.Wait(c.Pid)
	if e != 0 || !ended {
		return "closed its channel"
	}
	return "ended: " + childEnd(status, signal)
}

// drain reads what a child wrote to its stderr, one line.
func drain(fd sys.FD) string {
	var b [4096]byte
	n, e := sys.Read(fd, b[:])
	if e != 0 || n <= 0 {
		return ""
	}
	return ": " + strings.Join(strings.Fields(string(b[:n])), " ")
}

// bootWorker tells the worker its configuration and waits until it is locked down.
func (s *Supervisor) bootWorker() error {
	b := &s.plan.Boot
	b.Capture = s.capture != sys.NoFD
	body, err := ipc.EncodeBoot(b)
	if err != nil {
		return err
	}
	n := s.workerConn.PutBytes(body)
	e := s.workerConn.Send(ipc.KindBoot, 1, n, nil)
	if e != 0 {
		return fmt.Errorf("worker: boot: %w%s", e, drain(s.workerErr))
	}
	m, err := s.await(s.workerConn, s.worker, "worker", s.workerErr)
	if err != nil {
		return err
	}
	if m.Kind != ipc.KindReady || len(m.Body) != 4 {
		return fmt.Errorf("worker: message of kind %d (%d bytes) instead of ready", m.Kind, len(m.Body))
	}
	if fd := int32(binary.BigEndian.Uint32(m.Body)); fd >= 0 {
		if s.listener, e = priv.PidfdGetfd(s.worker.PidFD, int(fd)); e != 0 {
			return fmt.Errorf("worker: take over the filter's listener: %w", e)
		}
	}
	s.broker = broker.New(s.workerConn, fwd.PifHost, &b.Fwd, b.Host, b.Ns)
	s.broker.Log = s.workerLine
	s.broker.SetReady()
	return nil
}

// workerLine writes a log line of the worker: level and text. Who asks for its debug lines gets them all.
func (s *Supervisor) workerLine(b []byte) {
	if len(b) < 2 || logx.Level(b[0]) > s.log.Level || s.log.Level < logx.Debug && !s.lines.take(sys.NowNs()) {
		return
	}
	if n := s.lines.note(); n != "" {
		s.log.Warnf("%s", n)
	}
	s.log.Line(logx.Level(b[0]), string(b[1:]))
}
