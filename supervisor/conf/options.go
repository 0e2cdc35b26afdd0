// SPDX-License-Identifier: Apache-2.0

package conf

import (
	"passt/dataplane/wire"
)

// Mode is a set of program flavours; Options holds exactly one.
type Mode uint8

const (
	ModePasta Mode = 1 << iota
	ModePasst
	modeAll = ModePasta | ModePasst
)

// Version is set once by main, from the build.
var Version = "unknown"

// Defaults and limits (spec addressing 1, cli 3).
const (
	DefaultMTU = 65520
	MaxMTU     = 65521 // 65535 minus the Ethernet header
	maxDNS     = 3     // per family
	maxSearch  = 6
	maxName    = 253  // host name, FQDN
	maxDomain  = 1024 // one word of the search list
	maxPath    = 4095
	maxPid     = 1<<31 - 1
)

// Pair is one optional address per family; zero is unset.
type Pair struct{ V4, V6 wire.Addr }

// of gives the field of the address' own family.
func (p *Pair) of(a *wire.Addr) *wire.Addr {
	if a.Is4() {
		return &p.V4
	}
	return &p.V6
}

// PortOption is one -t, -u, -T or -U; it is read when the addresses are known.
type PortOption struct {
	Option byte // 't', 'u', 'T', 'U'
	Spec   string
}

// Options is what was typed. The zero value of a field is "not given".
type Options struct {
	Mode Mode
	Prog string   // argv[0]
	Args []string // words behind the options: PID, or command and its arguments

	Debug, Trace, Quiet, Foreground bool
	RunAs                           string // --runas, unread
	Pcap, PidFile                   string // -p, -P
	Only                            uint8  // 4 (-4), 6 (-6), 0: both families

	NoTCP, NoUDP, NoICMP          bool
	NoDHCP, NoDHCPv6, NoNDP, NoRA bool
	FreeBind                      bool
	MTU                           int     // bytes; -1: not given
	Addr                          Pair    // -a
	AddrLen4, AddrLen6            int     // prefix length behind -a; 0: not given
	Netmask                       int     // -n as length; 0: not given
	MAC                           [6]byte // -M: our own
	Gateway                       Pair    // -g
	Interface                     string  // -i
	Outbound                      Pair    // -o
	OutboundIf4, OutboundIf6      string
	DNS4, DNS6                    []wire.Addr // -D, at most maxDNS each
	NoDNS                         bool        // -D none, not followed by an address
	DNSForward, DNSHost           Pair
	Search                        []string // -S, at most maxSearch
	NoSearch                      bool     // -S none, not followed by a name
	Hostname, FQDN                string
	DHCPDNS, DHCPSearch           bool
	MapLoop                       Pair // --map-host-loopback
	NoMapGW                       bool // --no-map-gw or --map-host-loopback none
	MapGuest                      Pair // --map-guest-addr
	Ports                         []PortOption
	NsIfName                      string // -I
	UserNS, NetNS                 string // paths
	NetnsOnly, NoNetnsQuit        bool
	ConfigNet                     bool
	NsMAC                         wire.MAC
	HostLoToNsLo                  bool
	NoSplice, SpliceOnly          bool

	Warnings []string // met while reading, in order

	lastLen bool // the most recent -a had a /LEN
}

// Ident is the program's name in messages and in the system log.
func (o *Options) Ident() string {
	if o.Mode == ModePasst {
		return "passt"
	}
	return "pasta"
}

// Level of a message or of the filter; the numbers are those of internal/logx.
type Level uint8

const (
	LevelError Level = iota
	LevelWarn
	LevelInfo
	LevelDebug
	LevelTrace
)

// LogLevel is the filter that -q, -d and --trace ask for.
func (o *Options) LogLevel() Level {
	switch {
	case o.Trace:
		return LevelTrace
	case o.Debug:
		return LevelDebug
	case o.Quiet:
		return LevelWarn
	}
	return LevelInfo
}

// Background tells whether the program leaves its caller once it is ready: always, except with -f and where it runs
// a command or a shell (spec cli 8.1).
func (o *Options) Background() bool { return !o.Foreground && !o.spawns() }

// spawns tells whether pasta makes a namespace and runs a command or a shell in it.
func (o *Options) spawns() bool {
	_, isPid, _ := o.pid()
	return o.Mode == ModePasta && o.NetNS == "" && !isPid
}

// pid reads the words as a PID: exactly one, all digits.
func (o *Options) pid() (pid int, is bool, err error) {
	if len(o.Args) != 1 {
		return 0, false, nil
	}
	digits := unsigned(o.Args[0])
	for _, c := range []byte(digits) {
		if c < '0' || c > '9' {
			return 0, false, nil
		}
		if pid = pid*10 + int(c-'0'); pid > maxPid {
			return 0, true, errorf("Invalid PID: %s", o.Args[0])
		}
	}
	return pid, digits != "", nil
}
