// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"encoding/json"
	"fmt"

	"passt/dataplane/wire"
	"passt/internal/sys"
	"passt/ipc"
	"passt/supervisor/broker"
)

// Descriptors of the agent's process.
const (
	FDControl = 3 // channel to the supervisor
	FDWorker  = 4 // channel to the worker
	FDSetup   = 5 // pipe with one Setup, JSON, until end of file
)

// Setup is what the agent is told at start. Both ends are one binary and trust each other.
type Setup struct {
	Boot       []byte // ipc.Boot: address policy and rules
	NS         []byte // host.NSConfig, empty without --config-net
	TapName    string
	TapMAC     wire.MAC // zero: the kernel's choice
	MTU        int
	SpliceOnly bool // no tap
	LogLevel   uint8
}

// Result is the agent's answer once the namespace is ready.
type Result struct {
	Err       string // why it cannot start; empty: all is well
	Notes     []string
	IfName    string
	IfIndex   int
	MAC       wire.MAC
	LinkLocal wire.Addr
	Offloads  uint32
	VnetHdr   bool
}

// Kinds of control message, the first byte of the body.
const (
	CtlResult = 'R' // agent → supervisor: Result as JSON, and the tap's descriptor
	CtlGo     = 'G' // supervisor → agent: the worker is locked down, hand listeners over
	CtlPorts  = 'P' // both: TCP and UDP ports in use on the sender's side
	CtlLog    = 'L' // agent → supervisor: level and one line
)

// Send sends one control message.
func Send(c *ipc.Conn, kind byte, body []byte, fds ...sys.FD) error {
	b := c.Body(ipc.MaxBoot)
	b[0] = kind
	if len(body) > len(b)-1 {
		return fmt.Errorf("control message %c: %d bytes do not fit", kind, len(body))
	}
	n := 1 + copy(b[1:], body)
	for {
		switch e := c.Send(ipc.KindControl, 1, n, fds); e {
		case 0:
			return nil
		case sys.EAGAIN:
			sys.WaitWritable(c.FD, 1000)
		default:
			return fmt.Errorf("control message %c: %w", kind, e)
		}
	}
}

// SendResult sends the set-up's result with the tap (or NoFD).
func SendResult(c *ipc.Conn, r *Result, tap sys.FD) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if tap == sys.NoFD {
		return Send(c, CtlResult, b)
	}
	return Send(c, CtlResult, b, tap)
}

// ParseResult reads what SendResult sent; the tap is NoFD where there is none.
func ParseResult(m *ipc.Message) (*Result, sys.FD, error) {
	if m.Kind != ipc.KindControl || len(m.Body) == 0 || m.Body[0] != CtlResult {
		return nil, sys.NoFD, fmt.Errorf("namespace agent: message of kind %d instead of its result", m.Kind)
	}
	r := new(Result)
	if err := json.Unmarshal(m.Body[1:], r); err != nil {
		return nil, sys.NoFD, fmt.Errorf("namespace agent: result: %w", err)
	}
	tap := sys.NoFD
	if len(m.FDs) > 0 {
		tap = m.FDs[0]
	}
	return r, tap, nil
}

// SendPorts tells the other side which ports are in use here.
func SendPorts(c *ipc.Conn, tcp, udp *broker.Ports) error {
	var b [2 * 8192]byte
	tcp.Put(b[:8192])
	udp.Put(b[8192:])
	return Send(c, CtlPorts, b[:])
}

// ParsePorts reads the body (without its first byte) of a CtlPorts message.
func ParsePorts(b []byte) (tcp, udp broker.Ports, err error) {
	if len(b) != 2*8192 {
		return tcp, udp, fmt.Errorf("ports message of %d bytes", len(b))
	}
	tcp.Get(b[:8192])
	udp.Get(b[8192:])
	return tcp, udp, nil
}
