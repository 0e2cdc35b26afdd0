// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"bytes"

	"passt/internal/sys"
)

// Socket states in /proc/net (proc(5)): a listening TCP socket, an unconnected UDP one.
const (
	stateListen = "0A"
	stateUDP    = "07"
)

// Scanner reads which ports are in use on its side. The tables are opened before the lock-down and read again from
// their start each time.
type Scanner struct {
	TCP, TCP6, UDP, UDP6 sys.FD
	buf                  []byte
}

// Scan reads the four tables into two sets; a table that cannot be read counts as empty.
func (s *Scanner) Scan(tcp, udp *Ports) {
	*tcp, *udp = Ports{}, Ports{}
	s.table(s.TCP, stateListen, tcp)
	s.table(s.TCP6, stateListen, tcp)
	s.table(s.UDP, stateUDP, udp)
	s.table(s.UDP6, stateUDP, udp)
}

func (s *Scanner) table(fd sys.FD, state string, set *Ports) {
	if fd == sys.NoFD {
		return
	}
	if s.buf == nil {
		s.buf = make([]byte, 64<<10)
	}
	have := 0
	for off := int64(0); ; {
		n, e := sys.Pread(fd, s.buf[have:], off)
		if e != 0 || n == 0 {
			return
		}
		off += int64(n)
		have += n
		used := parseLines(s.buf[:have], state, set)
		have = copy(s.buf, s.buf[used:have])
		if have == len(s.buf) {
			return // no line is that long
		}
	}
}

// parseLines takes the complete lines of b and tells how many bytes they were.
func parseLines(b []byte, state string, set *Ports) int {
	used := 0
	for {
		n := bytes.IndexByte(b[used:], '\n')
		if n < 0 {
			return used
		}
		if port, ok := parseLine(b[used:used+n], state); ok {
			set.Set(port)
		}
		used += n + 1
	}
}

// parseLine reads "  sl: ADDR:PORT ADDR:PORT ST ..." (hexadecimal).
func parseLine(b []byte, state string) (uint16, bool) {
	f := bytes.Fields(b[:min(len(b), 128)])
	if len(f) < 4 || string(f[3]) != state {
		return 0, false
	}
	_, hex, ok := bytes.Cut(f[1], []byte{':'})
	if !ok || len(hex) != 4 {
		return 0, false
	}
	v := uint16(0)
	for _, c := range hex {
		switch {
		case c >= '0' && c <= '9':
			v = v<<4 | uint16(c-'0')
		case c >= 'A' && c <= 'F':
			v = v<<4 | uint16(c-'A'+10)
		default:
			return 0, false
		}
	}
	return v, true
}
