// SPDX-License-Identifier: Apache-2.0

package flow

import "math/bits"

// The wheel: 5 levels of 64 slots, 1 ms at the bottom, so 2^30 ms (12 days) at the top. A slot is a list of
// rows linked through themselves; one bitmap per level tells which slots are in use. One timer per flow: protocols fold
// their several deadlines into the earliest. Arming later than before costs nothing: the row stays and is
// moved when its slot comes up.
const (
	wheelLevels = 5
	wheelSlots  = 64
)

type wheel struct {
	head [wheelLevels * wheelSlots]Index
	used [wheelLevels]uint64
	now  int64 // ms, all slots before it are done
	n    int   // armed rows
}

func (w *wheel) init(nowMs int64) {
	w.now = nowMs
	for i := range w.head {
		w.head[i] = NoFlow
	}
}

// place computes the slot for a deadline, at least one tick ahead.
func (w *wheel) place(deadline int64) int {
	d := max(deadline, w.now+1)
	delta := uint64(d ^ w.now)
	level := 0
	if delta >= wheelSlots {
		level = (bits.Len64(delta) - 1) / 6
	}
	if level >= wheelLevels {
		// Beyond the top level's turn, or across its end: the top level's slots wrap around.
		level = wheelLevels - 1
		d = min(d, w.now+(1<<(6*wheelLevels)-1)) // re-placed when it comes up
	}
	return level*wheelSlots + int(d>>(6*level))&(wheelSlots-1)
}

func (t *Table) link(w *wheel, i Index, slot int) {
	r := &t.Rows[i]
	r.tslot = uint16(slot + 1)
	r.tprev = NoFlow
	r.tnext = w.head[slot]
	if r.tnext != NoFlow {
		t.Rows[r.tnext].tprev = i
	}
	w.head[slot] = i
	w.used[slot/wheelSlots] |= 1 << (slot % wheelSlots)
	w.n++
}

func (t *Table) unlink(w *wheel, i Index) {
	r := &t.Rows[i]
	if r.tslot == 0 {
		return
	}
	slot := int(r.tslot - 1)
	if r.tprev != NoFlow {
		t.Rows[r.tprev].tnext = r.tnext
	} else {
		w.head[slot] = r.tnext
		if r.tnext == NoFlow {
			w.used[slot/wheelSlots] &^= 1 << (slot % wheelSlots)
		}
	}
	if r.tnext != NoFlow {
		t.Rows[r.tnext].tprev = r.tprev
	}
	r.tslot = 0
	w.n--
}

// slotTime gives when a slot of a level comes up next, ms.
func (w *wheel) slotTime(level, slot int) int64 {
	shift := 6 * level
	base := w.now >> shift &^ (wheelSlots - 1)
	at := (base + int64(slot)) << shift
	if at <= w.now {
		at += wheelSlots << shift
	}
	return at
}

// next gives the earliest time at which a slot comes up; false when nothing is armed.
func (w *wheel) next() (int64, bool) {
	best, ok := int64(0), false
	for l := range wheelLevels {
		if w.used[l] == 0 {
			continue
		}
		cur := int(w.now>>(6*l)) & (wheelSlots - 1)
		// Rotate so that the slot behind the current one is bit 0.
		rot := bits.RotateLeft64(w.used[l], -(cur + 1))
		slot := (cur + 1 + bits.TrailingZeros64(rot)) & (wheelSlots - 1)
		if at := w.slotTime(l, slot); !ok || at < best {
			best, ok = at, true
		}
	}
	return best, ok
}
