// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"passt/dataplane/fwd"
	"passt/internal/logx"
	"passt/internal/sys"
	"passt/internal/sys/priv"
	"passt/ipc"
	"passt/supervisor/broker"
	"passt/supervisor/host"
)

// Agent is the state of the process.
type Agent struct {
	control *ipc.Conn
	worker  *ipc.Conn
	setup   Setup
	boot    *ipc.Boot
	broker  *broker.Broker
	follow  broker.Follower
	msg     ipc.Message
	started bool // the worker is locked down
}

// Run is the life of the namespace agent. lock gives up what the running agent does not need; it runs once, when
// everything is open.
//
//	errors: why it ends; the supervisor being gone is a normal end (nil)
func Run(lock func() error) error {
	a := &Agent{control: ipc.NewConn(FDControl), worker: ipc.NewConn(FDWorker)}
	if err := a.readSetup(); err != nil {
		return err
	}
	res, tap := a.prepare()
	err := SendResult(a.control, res, tap)
	sys.Close(tap)
	if res.Err != "" || err != nil {
		return err // the supervisor prints the reason
	}
	if err := lock(); err != nil {
		return fmt.Errorf("namespace agent: lock down: %w", err)
	}
	return a.serve()
}

func (a *Agent) readSetup() error {
	f := os.NewFile(FDSetup, "setup")
	b, err := io.ReadAll(f)
	if err == nil {
		err = f.Close()
	}
	if err == nil {
		err = json.Unmarshal(b, &a.setup)
	}
	if err == nil {
		a.boot, err = ipc.ParseBoot(a.setup.Boot)
	}
	if err != nil {
		return fmt.Errorf("namespace agent: set-up: %w", err)
	}
	return nil
}

// prepare makes and configures the tap and opens the listening sockets.
func (a *Agent) prepare() (*Result, sys.FD) {
	res := new(Result)
	tap, err := a.network(res)
	if err == nil {
		err = a.sockets()
	}
	if err != nil {
		res.Err = err.Error()
	}
	return res, tap
}

func (a *Agent) network(res *Result) (sys.FD, error) {
	if err := host.LoopbackUp(); err != nil {
		return sys.NoFD, err
	}
	if a.setup.SpliceOnly {
		return sys.NoFD, nil
	}
	t, err := host.OpenTap(host.TapOptions{Name: a.setup.TapName, MAC: a.setup.TapMAC})
	if err != nil {
		return sys.NoFD, err
	}
	tap := sys.FD(t.FD)
	res.IfName, res.IfIndex, res.MAC, res.LinkLocal, res.Offloads, res.VnetHdr = t.Name, t.IfIndex, t.MAC, t.LinkLocal, t.Offloads, t.VnetHdr
	if len(a.setup.NS) == 0 {
		return tap, nil
	}
	ns, err := host.UnmarshalNSConfig(a.setup.NS)
	if err != nil {
		return tap, err
	}
	ns.IfIndex = t.IfIndex
	notes, ll, err := host.Configure(ns)
	res.Notes, res.LinkLocal = notes, ll
	return tap, err
}

func (a *Agent) sockets() error {
	b := a.boot
	warn := func(s string) { a.log(logx.Warn, s) }
	l := broker.NewListeners(fwd.PifSplice, &b.Fwd, b.Ns, a.worker, warn)
	if err := l.OpenAll(); err != nil {
		return fmt.Errorf("namespace: %w", err)
	}
	a.follow.Listeners = l
	a.follow.Scanner = broker.OpenScanner(openTable)
	for i := range b.Host {
		a.follow.Others = a.follow.Others || b.Host[i].Flags&fwd.RuleScan != 0
	}
	a.broker = broker.New(a.worker, fwd.PifSplice, &b.Fwd, b.Host, b.Ns)
	return nil
}

// openTable opens a table of /proc/net; NoFD when there is none.
func openTable(path string) sys.FD {
	f, err := os.Open(path)
	if err != nil {
		return sys.NoFD
	}
	return priv.Steal(f)
}

func (a *Agent) log(level logx.Level, text string) {
	_ = Send(a.control, CtlLog, append([]byte{byte(level)}, text...)) // the supervisor being gone shows in the loop
}

func (a *Agent) sendPorts(tcp, udp *broker.Ports) error { return SendPorts(a.control, tcp, udp) }

// serve is the agent's loop after the lock-down.
func (a *Agent) serve() error {
	ep, e := sys.EpollCreate()
	if e != 0 {
		return fmt.Errorf("namespace agent: epoll: %w", e)
	}
	const tagControl, tagWorker = 1, 2
	if e := sys.EpollAdd(ep, FDControl, sys.PollIn, tagControl); e != 0 {
		return fmt.Errorf("namespace agent: watch: %w", e)
	}
	if e := sys.EpollAdd(ep, FDWorker, sys.PollIn, tagWorker); e != 0 {
		return fmt.Errorf("namespace agent: watch: %w", e)
	}
	if err := a.follow.Scan(a.sendPorts); err != nil {
		return err
	}
	next := sys.NowNs() + broker.ScanIntervalMs*1e6
	wait := sys.Waiter{Ep: ep}
	var evs [8]sys.PollEvent
	for {
		timeout := -1
		if a.follow.NeedsTimer() {
			timeout = int(max(next-sys.NowNs(), 0)/1e6) + 1
		}
		n, now, e := wait.Wait(evs[:], timeout)
		if e != 0 {
			return fmt.Errorf("namespace agent: wait: %w", e)
		}
		for i := range n {
			if evs[i].Data() == tagWorker {
				if err := a.fromWorker(ep); err != nil {
					return err
				}
			} else if done, err := a.fromSupervisor(); done || err != nil {
				return err
			}
		}
		if a.follow.NeedsTimer() && now >= next {
			next = now + broker.ScanIntervalMs*1e6
			a.follow.Listeners.Retry()
			if err := a.follow.Scan(a.sendPorts); err != nil {
				return err
			}
		}
	}
}

// fromWorker serves requests; a worker that broke the protocol is reported, and its end is the supervisor's work.
func (a *Agent) fromWorker(ep sys.FD) error {
	_, err := a.broker.Serve()
	switch {
	case err == nil:
		return nil
	case ipc.Gone(err):
	case broker.IsWorkerFault(err) || errors.Is(err, ipc.ErrFormat):
		a.log(logx.Error, err.Error())
		return err
	default:
		return err
	}
	_ = sys.EpollDel(ep, FDWorker)
	return nil
}

// fromSupervisor handles control messages; done when the supervisor is gone.
func (a *Agent) fromSupervisor() (done bool, err error) {
	for {
		ok, err := a.control.Recv(&a.msg)
		if err != nil {
			if ipc.Gone(err) {
				return true, nil
			}
			return true, err
		}
		if !ok {
			return false, nil
		}
		if a.msg.Kind != ipc.KindControl || len(a.msg.Body) == 0 {
			return true, fmt.Errorf("namespace agent: message of kind %d from the supervisor", a.msg.Kind)
		}
		body := a.msg.Body[1:]
		switch a.msg.Body[0] {
		case CtlGo:
			a.started = true
			a.broker.SetReady()
			if err := a.follow.Listeners.GrantAll(); err != nil {
				return true, err
			}
		case CtlPorts:
			tcp, udp, err := ParsePorts(body)
			if err != nil {
				return true, err
			}
			a.follow.Listeners.Apply(&tcp, &udp)
		}
	}
}
