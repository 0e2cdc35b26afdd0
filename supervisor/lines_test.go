// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"strings"
	"testing"
)

func TestLineLimit_Flood_IsCutAndToldOnce(t *testing.T) {
	var l lineLimit
	now, written := int64(1e15), 0
	for range 200_000 {
		if l.take(now) {
			written++
		}
	}
	if written != lineBurst {
		t.Errorf("%d lines at once, want %d", written, lineBurst)
	}
	now += lineNs
	if !l.take(now) || l.take(now) {
		t.Error("one line must come back after its time, and only one")
	}
	if n := l.note(); !strings.Contains(n, "199901 lines") {
		t.Errorf("note %q", n)
	}
	if n := l.note(); n != "" {
		t.Errorf("told twice: %q", n)
	}
	now += 3600e9
	written = 0
	for range 2 * lineBurst {
		if l.take(now) {
			written++
		}
	}
	if written != lineBurst {
		t.Errorf("%d lines after an hour, want %d: the budget is not saved up", written, lineBurst)
	}
}
