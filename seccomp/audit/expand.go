// SPDX-License-Identifier: Apache-2.0

package audit

import "passt/seccomp"

// fullMask compares all bits of an argument.
const fullMask = 1<<64 - 1

// Match is one way to satisfy a rule: every argument with one mask and one value.
type Match struct {
	Arg         int
	Mask, Value uint64
}

// Expand gives all combinations of a rule's values; one empty combination for a rule without conditions.
func Expand(r *seccomp.Rule) [][]Match {
	out := [][]Match{nil}
	for _, c := range r.Args {
		var next [][]Match
		for _, m := range out {
			for _, v := range c.Values {
				next = append(next, append(m[:len(m):len(m)], Match{c.Arg, c.Mask, v}))
			}
		}
		out = next
	}
	return out
}
