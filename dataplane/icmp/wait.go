// SPDX-License-Identifier: Apache-2.0

package icmp

import (
	"passt/dataplane/flow"
	"passt/internal/sys"
)

// Requests that wait for their socket: few, of any size.
const (
	waitSlots = 16
	waitSize  = 1 << 16
)

type waitingOne struct {
	flow flow.Index
	n    uint32
	turn uint32 // order of arrival
	used bool
	ttl  uint8
}

// waiting keeps requests whose socket is being made.
type waiting struct {
	mem  []byte
	one  [waitSlots]waitingOne
	turn uint32
}

func (w *waiting) init() { w.mem = sys.Alloc(waitSlots * waitSize) }

// push keeps a copy of m; false when there is no room.
func (w *waiting) push(i flow.Index, m []byte, ttl uint8) bool {
	if len(m) > waitSize {
		return false
	}
	for k := range w.one {
		if o := &w.one[k]; !o.used {
			w.turn++
			*o = waitingOne{flow: i, n: uint32(len(m)), turn: w.turn, used: true, ttl: ttl}
			copy(w.mem[k*waitSize:], m)
			return true
		}
	}
	return false
}

// pop takes the oldest request of a flow out; it stays valid until the next push.
func (w *waiting) pop(i flow.Index) (m []byte, ttl uint8, ok bool) {
	best := -1
	for k := range w.one {
		if o := &w.one[k]; o.used && o.flow == i && (best < 0 || int32(o.turn-w.one[best].turn) < 0) {
			best = k
		}
	}
	if best < 0 {
		return nil, 0, false
	}
	o := &w.one[best]
	o.used = false
	return w.mem[best*waitSize:][:o.n], o.ttl, true
}

// drop forgets all requests of a flow.
func (w *waiting) drop(i flow.Index) {
	for k := range w.one {
		if w.one[k].flow == i {
			w.one[k].used = false
		}
	}
}
