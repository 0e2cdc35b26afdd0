// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"errors"

	"passt/internal/sys"
)

// ScanIntervalMs is how often scan rules look at the tables: the latency that users know.
const ScanIntervalMs = 1000

// Follower keeps scan rules of both sides in step: it scans this side for the other one, and
// applies what the other side reports to this side's listeners.
type Follower struct {
	Scanner   *Scanner
	Listeners *Listeners
	Others    bool // the other side has scan rules: scan here
	lastTCP   Ports
	lastUDP   Ports
	sent      bool
}

// Scan looks at this side's ports, without our own listeners of either protocol, and reports them through send
// when they changed.
func (f *Follower) Scan(send func(tcp, udp *Ports) error) error {
	if !f.Others {
		return nil
	}
	var tcp, udp, own Ports
	f.Scanner.Scan(&tcp, &udp)
	f.Listeners.Own(&own)
	tcp.Remove(&own)
	udp.Remove(&own)
	if f.sent && tcp == f.lastTCP && udp == f.lastUDP {
		return nil
	}
	f.sent, f.lastTCP, f.lastUDP = true, tcp, udp
	return send(&tcp, &udp)
}

// NeedsTimer tells whether Scan must run every ScanIntervalMs.
func (f *Follower) NeedsTimer() bool { return f.Others }

// OpenScanner opens the four tables of the calling process's network namespace through open, which returns NoFD
// where a table does not exist (no IPv6).
func OpenScanner(open func(path string) sys.FD) *Scanner {
	return &Scanner{TCP: open("/proc/net/tcp"), TCP6: open("/proc/net/tcp6"), UDP: open("/proc/net/udp"), UDP6: open("/proc/net/udp6")}
}

// IsWorkerFault tells whether an error of Serve is the worker's.
func IsWorkerFault(err error) bool { return errors.Is(err, ErrWorker) }
