// SPDX-License-Identifier: Apache-2.0

package splice

import "testing"

func TestState_Walk_EachReachableAndEachLeaves(t *testing.T) {
	reach := map[state]bool{stAsked: true}
	for range numStates {
		for s := range numStates {
			for _, n := range next[s] {
				if reach[s] && n != stNone {
					reach[n] = true
				}
			}
		}
	}
	for s := stAsked; s < numStates; s++ {
		if !reach[s] {
			t.Errorf("%v is not reachable", s)
		}
		if s.String() == "?" || s.String() == "" {
			t.Errorf("state %d has no name", s)
		}
		final := s == stClosed || s == stReset
		if got := next[s][evFail]; !final && got != stReset {
			t.Errorf("a failure in %v leads to %v", s, got)
		}
		for ev, n := range next[s] {
			if final && n != stNone {
				t.Errorf("%v is final and yet has event %d", s, ev)
			}
		}
	}
	if numStates.String() != "?" {
		t.Error("a state beyond the last has a name")
	}
}
