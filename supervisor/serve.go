// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strconv"

	"passt/internal/logx"
	"passt/internal/sys"
	"passt/internal/sys/priv"
	"passt/ipc"
	"passt/isolation"
	"passt/supervisor/agent"
	"passt/supervisor/broker"
)

// Tags of the supervisor's loop.
const (
	tagWorker = 1 + iota
	tagAgent
	tagWorkerEnd
	tagAgentEnd
	tagLauncherEnd
	tagWatch
	tagSignal
	tagWorkerText
	tagAgentText
	tagForbidden
)

// lockDown gives up what the running supervisor does not need.
func (s *Supervisor) lockDown() error {
	abi, err := isolation.LockdownSupervisor()
	if err != nil {
		return fmt.Errorf("lock down: %w", err)
	}
	s.log.Debugf("Landlock ABI %d", abi)
	if err := s.lock(); err != nil {
		return fmt.Errorf("lock down: %w", err)
	}
	return nil
}

// handOver gives the worker its link and listeners: it is confined by now.
func (s *Supervisor) handOver() error {
	grant := func(g ipc.Grant, fd sys.FD) error {
		if fd == sys.NoFD {
			return nil
		}
		g.Put(s.workerConn.Body(ipc.GrantSize))
		e := s.workerConn.Send(ipc.KindGrant, 1, ipc.GrantSize, []sys.FD{fd})
		sys.Close(fd)
		if e != 0 {
			return fmt.Errorf("hand over to the worker: %w", e)
		}
		return nil
	}
	wall := uint64(priv.WallMinusMono())
	c := ipc.Grant{Type: ipc.GrantCapture, Arg: uint32(wall >> 32)}
	c.Addr[0], c.Addr[1], c.Addr[2], c.Addr[3] = byte(wall>>24), byte(wall>>16), byte(wall>>8), byte(wall)
	if err := grant(c, s.capture); err != nil {
		return err
	}
	if err := grant(ipc.Grant{Type: ipc.GrantTap, Arg: s.tapArg}, s.tap); err != nil {
		return err
	}
	if err := s.listeners.GrantAll(); err != nil {
		return err
	}
	if err := s.follow.Scan(s.sendPorts); err != nil {
		return err
	}
	return agent.Send(s.agentConn, agent.CtlGo, nil)
}

func (s *Supervisor) sendPorts(tcp, udp *broker.Ports) error {
	return agent.SendPorts(s.agentConn, tcp, udp)
}

// sayReady writes the PID file, lets the command go and tells the caller's process.
func (s *Supervisor) sayReady() error {
	for _, l := range s.plan.Summary {
		s.log.Line(logx.Info, l)
	}
	if s.pidFile != sys.NoFD {
		text := strconv.Itoa(priv.Pid()) + "\n"
		if err := priv.WriteAll(s.pidFile, []byte(text)); err != nil {
			return fmt.Errorf("write PID file %s: %w", s.opts.PidFile, err)
		}
	}
	if s.ready != sys.NoFD {
		if !s.opts.Debug || s.log.Syslog != sys.NoFD {
			s.log.Stderr = sys.NoFD
		}
		// The caller reads our output to its end: no copy may stay open.
		s.detach()
		if err := priv.WriteAll(s.ready, []byte{0}); err != nil {
			return fmt.Errorf("say ready: %w", err)
		}
		s.ready = sys.NoFD
	}
	if s.release != sys.NoFD {
		if !s.opts.Debug {
			s.log.Stderr = sys.NoFD // the terminal belongs to the command now
		}
		if err := priv.WriteAll(s.release, []byte{0}); err != nil {
			return fmt.Errorf("release the command: %w", err)
		}
		s.release = sys.NoFD
	}
	return nil
}

// detach puts /dev/null in place of the standard descriptors.
func (s *Supervisor) detach() {
	for fd := sys.FD(0); fd <= 2; fd++ {
		_ = priv.Dup2(s.null, fd) // both are open: cannot fail
	}
	sys.Close(s.null)
	s.null = sys.NoFD
}

// watchSignals makes TERM and QUIT events of the loop; other signals keep their default.
func (s *Supervisor) watchSignals() error {
	r, w, e := priv.Pipe(true)
	if e != 0 {
		return fmt.Errorf("pipe: %w", e)
	}
	s.signals = r
	ch := make(chan os.Signal, 4)
	signal.Notify(ch, priv.SIGTERM, priv.SIGQUIT)
	signal.Ignore(priv.SIGPIPE)
	go func() {
		for range ch {
			_, _ = sys.Write(w, []byte{1}) // a full pipe says it already
		}
	}()
	return nil
}

// serve is the loop of the running supervisor.
func (s *Supervisor) serve() int {
	ep, e := sys.EpollCreate()
	if e != 0 {
		return s.fail(fmt.Errorf("epoll: %w", e))
	}
	for _, w := range []struct {
		fd  sys.FD
		tag uint64
	}{{s.workerConn.FD, tagWorker}, {s.agentConn.FD, tagAgent}, {s.worker.PidFD, tagWorkerEnd}, {s.agent.PidFD, tagAgentEnd},
		{s.launcherFD(), tagLauncherEnd}, {s.watch.fd, tagWatch}, {s.signals, tagSignal}, {s.workerErr, tagWorkerText}, {s.agentErr, tagAgentText}, {s.listener, tagForbidden}} {
		if w.fd == sys.NoFD {
			continue
		}
		if e := sys.EpollAdd(ep, w.fd, sys.PollIn, w.tag); e != 0 {
			return s.fail(fmt.Errorf("watch: %w", e))
		}
	}
	runtime.GC()
	debug.FreeOSMemory()
	next := sys.NowNs() + broker.ScanIntervalMs*1e6
	wait := sys.Waiter{Ep: ep}
	var evs [16]sys.PollEvent
	for {
		timeout := -1
		if s.follow.NeedsTimer() || s.listeners.NeedsScan() {
			timeout = int(max(next-sys.NowNs(), 0)/1e6) + 1
		}
		n, now, e := wait.Wait(evs[:], timeout)
		if e != 0 {
			return s.fail(fmt.Errorf("wait: %w", e))
		}
		for i := range n {
			if err := s.event(ep, evs[i].Data()); err != nil {
				return s.fail(err)
			}
		}
		if timeout >= 0 && now >= next {
			next = now + broker.ScanIntervalMs*1e6
			s.listeners.Retry()
			if err := s.follow.Scan(s.sendPorts); err != nil {
				return s.fail(err)
			}
		}
	}
}

func (s *Supervisor) launcherFD() sys.FD {
	if s.launcher.Pid == 0 {
		return sys.NoFD
	}
	return s.launcher.PidFD
}

// event handles one event; an error ends the service, an exit with its status.
func (s *Supervisor) event(ep sys.FD, tag uint64) error {
	switch tag {
	case tagWorker:
		return s.fromWorker()
	case tagAgent:
		return s.fromAgent(ep)
	case tagWorkerEnd:
		return s.childEnded(s.worker, "worker", s.workerErr)
	case tagAgentEnd:
		return s.childEnded(s.agent, "namespace agent", s.agentErr)
	case tagLauncherEnd:
		return s.commandEnded()
	case tagWatch:
		if s.watch.gone() {
			s.log.Infof("Namespace %s is gone, exiting", s.watch.name)
			return &exit{status: 0}
		}
	case tagSignal:
		return &exit{status: 0}
	case tagWorkerText:
		s.text(ep, s.workerErr, "worker")
	case tagAgentText:
		s.text(ep, s.agentErr, "namespace agent")
	case tagForbidden:
		return s.forbidden(ep)
	}
	return nil
}

func (s *Supervisor) fromWorker() error {
	_, err := s.broker.Serve()
	switch {
	case err == nil:
		return nil
	case ipc.Gone(err):
		// It is ending, and the pidfd says how; one that only closed its channel (or sent an empty packet) is ended here.
		sys.WaitReadable(s.worker.PidFD, sys.NoFD, 1000)
		if err := s.childEnded(s.worker, "worker", s.workerErr); err != nil {
			return err
		}
		return &exit{status: 1, text: "worker ended: it closed its channel"}
	case broker.IsWorkerFault(err), errors.Is(err, ipc.ErrFormat):
		return &exit{status: 1, text: "worker ended: " + err.Error()}
	}
	return err
}

func (s *Supervisor) fromAgent(ep sys.FD) error {
	var m ipc.Message
	for {
		ok, err := s.agentConn.Recv(&m)
		if ipc.Gone(err) {
			_ = sys.EpollDel(ep, s.agentConn.FD)
			return nil
		}
		if err != nil || !ok {
			return err
		}
		if m.Kind != ipc.KindControl || len(m.Body) < 2 {
			return fmt.Errorf("namespace agent: message of kind %d", m.Kind)
		}
		switch m.Body[0] {
		case agent.CtlLog:
			s.log.Line(logx.Level(m.Body[1]), string(m.Body[2:]))
		case agent.CtlPorts:
			tcp, udp, err := agent.ParsePorts(m.Body[1:])
			if err != nil {
				return err
			}
			s.listeners.Apply(&tcp, &udp)
		}
	}
}

func (s *Supervisor) childEnded(c isolation.Child, name string, text sys.FD) error {
	status, sig, ended, e := priv.Wait(c.Pid)
	if e != 0 || !ended {
		return nil
	}
	why := drain(text)
	// The command may have ended in the same moment and taken the namespace along: its status counts.
	if s.launcher.Pid != 0 && name != "worker" {
		if err := s.commandEnded(); err != nil {
			return err
		}
	}
	return &exit{status: 1, text: name + " ended: " + childEnd(status, sig) + why}
}

// forbidden ends a worker that made a call which its policy does not name; the call itself never ran.
func (s *Supervisor) forbidden(ep sys.FD) error {
	nr, args, e := priv.Forbidden(s.listener)
	if e != 0 {
		_ = sys.EpollDel(ep, s.listener) // the worker is gone
		return nil
	}
	return &exit{status: 1, text: fmt.Sprintf("worker ended: it made the system call %s (number %d, arguments %#x), which its policy does not name",
		s.callName(nr), nr, args)}
}

// commandEnded passes the command's status on.
func (s *Supervisor) commandEnded() error {
	status, sig, ended, e := priv.Wait(s.launcher.Pid)
	if e != 0 || !ended {
		return nil
	}
	if sig != 0 {
		status = 128 + sig
	}
	return &exit{status: status}
}

// text logs what a child wrote to its stderr: the text of a panic.
func (s *Supervisor) text(ep, fd sys.FD, name string) {
	t := drain(fd)
	if s.childText += len(t); t == "" || s.childText > childBytes {
		_ = sys.EpollDel(ep, fd)
		return
	}
	s.log.Errorf("%s%s", name, t)
}
