// SPDX-License-Identifier: Apache-2.0

package supervisor

import "fmt"

// What the worker may make us write: it is not trusted, and neither the system log nor the disk under it is its to fill.
const (
	lineBurst  = 100         // lines at once
	lineNs     = 100_000_000 // one more in this time
	childBytes = 64 << 10    // of stderr: the text of a panic is shorter
)

// lineLimit is the worker's budget of log lines.
type lineLimit struct {
	spent  int
	sinceN int64 // ns, when spent was last reduced
	lost   int
}

// take tells whether one more line may be written now (ns, monotonic).
func (l *lineLimit) take(now int64) bool {
	back := (now - l.sinceN) / lineNs
	if back > 0 {
		l.spent = int(max(int64(l.spent)-back, 0))
		l.sinceN += back * lineNs
	}
	if l.spent >= lineBurst {
		l.lost++
		return false
	}
	l.spent++
	return true
}

// note says, once after a gap, how many lines were left out; "" when none.
func (l *lineLimit) note() string {
	if l.lost == 0 {
		return ""
	}
	n := l.lost
	l.lost = 0
	return fmt.Sprintf("worker: %d lines left out, it writes more than %d a second", n, 1_000_000_000/lineNs)
}
