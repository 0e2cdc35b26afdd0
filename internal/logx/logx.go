// SPDX-License-Identifier: Apache-2.0

// Package logx writes the program's log lines: levels and destinations as users of the C program expect them (stderr,
// syslog). It holds open descriptors only, so it works after the lock-down. The worker never uses it: its lines come over ipc.
package logx

import (
	"fmt"
	"strings"

	"passt/internal/sys"
)

// Level of a line; a logger shows lines up to its own level.
type Level uint8

const (
	Error Level = iota
	Warn
	Info
	Debug
	Trace
)

// severity for syslog(3): facility daemon (3<<3) plus error 3, warning 4, info 6, debug 7.
var severity = [...]int{Error: 27, Warn: 28, Info: 30, Debug: 31, Trace: 31}

// Logger has one level and up to two destinations.
type Logger struct {
	Level  Level
	Ident  string // passt or pasta
	Stderr sys.FD // sys.NoFD: off
	Syslog sys.FD // connected datagram socket, sys.NoFD: off
	Stamps bool   // prefix with seconds since Start (debug)
	Start  int64  // ns, monotonic
}

// New logs to stderr only.
func New(ident string) *Logger {
	return &Logger{Level: Info, Ident: ident, Stderr: 2, Syslog: sys.NoFD, Start: sys.NowNs()}
}

// Printf writes one line at a level.
func (l *Logger) Printf(level Level, format string, args ...any) {
	if level > l.Level {
		return
	}
	l.Line(level, fmt.Sprintf(format, args...))
}

// Line writes one line; line breaks inside become blanks, so that a peer cannot forge lines.
func (l *Logger) Line(level Level, text string) {
	if level > l.Level {
		return
	}
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r <= 0x9f { // U+009B begins a terminal sequence, too
			return ' '
		}
		return r
	}, text)
	if l.Stderr != sys.NoFD {
		out := text + "\n"
		if l.Stamps {
			t := (sys.NowNs() - l.Start) / 100_000
			out = fmt.Sprintf("%d.%04d: %s", t/10_000, t%10_000, out)
		}
		_, _ = sys.Write(l.Stderr, []byte(out)) // a closed stderr is the user's choice
	}
	if l.Syslog != sys.NoFD {
		_, _ = sys.Write(l.Syslog, fmt.Appendf(nil, "<%d> %s: %s\n", severity[min(level, Trace)], l.Ident, text)) // syslogd may be away
	}
}

func (l *Logger) Errorf(format string, args ...any) { l.Printf(Error, format, args...) }
func (l *Logger) Warnf(format string, args ...any)  { l.Printf(Warn, format, args...) }
func (l *Logger) Infof(format string, args ...any)  { l.Printf(Info, format, args...) }
func (l *Logger) Debugf(format string, args ...any) { l.Printf(Debug, format, args...) }
