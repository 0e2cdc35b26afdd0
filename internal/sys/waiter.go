// SPDX-License-Identifier: Apache-2.0

package sys

// Waiter is a loop's way to wait on epoll. While events follow each other closely it waits past the Go scheduler, which
// costs no hand-off; otherwise it uses the blocking form, which lets the runtime's monitor sleep. Measured: a wait past
// the scheduler keeps the monitor at work, some fifty wake-ups for one lone event; the blocking form at each turn
// costs futex calls under load.
type Waiter struct {
	Ep     FD
	burst  int   // turns that came closely one after the other
	lastNs int64 // when the last turn began
}

const (
	rawWaitMs  = 20 // longest wait past the scheduler
	burstTurns = 8  // close turns before it is used
)

// Wait waits for at most timeoutMs (-1: without end) and gives the events and the clock after it.
func (w *Waiter) Wait(evs []PollEvent, timeoutMs int) (n int, nowNs int64, e Errno) {
	raw := w.burst >= burstTurns
	if raw && (timeoutMs < 0 || timeoutMs > rawWaitMs) {
		timeoutMs = rawWaitMs
	}
	n, e = EpollWait(w.Ep, evs, timeoutMs, !raw && timeoutMs != 0)
	nowNs = NowNs()
	switch {
	case n == 0 && timeoutMs != 0, nowNs-w.lastNs > rawWaitMs*1e6:
		w.burst = 0
	case w.burst < burstTurns:
		w.burst++
	}
	w.lastNs = nowNs
	return n, nowNs, e
}
