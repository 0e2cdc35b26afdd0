// SPDX-License-Identifier: Apache-2.0

package conf

import (
	"fmt"

	"passt/dataplane/wire"
	"passt/ipc"
	"passt/supervisor/host"
)

// Host is what Resolve needs to know of the machine: plain values, so that tests need no kernel.
type Host struct {
	V4, V6                   *host.Template // nil: no interface for that family
	DefaultV6                bool           // the host has an IPv6 default route, whatever the template
	Resolv                   host.Resolv
	HasIPv6                  bool   // the kernel makes IPv6 sockets
	NoBindDevice             bool   // no SO_BINDTODEVICE without privilege (kernel before 5.7)
	EphemeralLo, EphemeralHi uint16 // net.ipv4.ip_local_port_range
	Shell                    string // $SHELL; ShellSet: it is in the environment
	ShellSet                 bool
	SynRetries, SynLinear    uint8    // net.ipv4.tcp_syn_retries, tcp_syn_linear_timeouts
	RTOMaxMs                 uint32   // net.ipv4.tcp_rto_max_ms
	UDPTimeout, UDPStream    uint32   // seconds, nf_conntrack_udp_timeout, nf_conntrack_udp_timeout_stream
	Notes                    []string // of the search for the interfaces
}

// Message is one line of the start, in order.
type Message struct {
	Level Level
	Text  string
}

// Target is the namespace and what runs in it. Command is nil where an existing namespace is joined.
type Target struct {
	Command   []string // argv
	Program   string   // file, looked up in PATH unless it has a slash
	NetNS     string   // path; empty with Command
	UserNS    string   // path; empty: stay in our own
	NetnsOnly bool     // with Command: no new user namespace
}

// Plan is all that the start needs. Boot lacks what only the caller knows: Secret, MaxFlows, ClockBaseNs, LogLevel,
// Capture, and the guest's MAC and link-local address.
type Plan struct {
	Boot     ipc.Boot
	NS       *host.NSConfig // what the agent configures; nil without --config-net
	TapName  string         // empty with --splice-only
	TapMAC   wire.MAC       // zero: the kernel's choice
	Target   Target
	Messages []Message // to be logged at once
	Summary  []string  // to be logged (info) when ready; nil where a command owns the terminal
}

func (p *Plan) say(level Level, format string, args ...any) {
	p.Messages = append(p.Messages, Message{level, fmt.Sprintf(format, args...)})
}

// target says what is joined or run (spec cli 12.1 to 12.3).
func (o *Options) target(h *Host) (Target, error) {
	pid, isPid, err := o.pid()
	switch {
	case err != nil:
		return Target{}, err
	case isPid:
		t := Target{NetNS: fmt.Sprintf("/proc/%d/ns/net", pid), UserNS: o.UserNS}
		if t.UserNS == "" && !o.NetnsOnly {
			t.UserNS = fmt.Sprintf("/proc/%d/ns/user", pid)
		}
		return t, nil
	case o.NetNS != "":
		return Target{NetNS: o.NetNS, UserNS: o.UserNS}, nil
	case len(o.Args) > 0:
		return Target{Command: o.Args, Program: o.Args[0], NetnsOnly: o.NetnsOnly}, nil
	}
	shell := h.Shell
	if !h.ShellSet {
		shell = "/bin/sh"
	}
	if shell == "" {
		return Target{}, errorf("No command given and SHELL is empty")
	}
	return Target{Command: []string{"-" + shell}, Program: shell, NetnsOnly: o.NetnsOnly}, nil
}
