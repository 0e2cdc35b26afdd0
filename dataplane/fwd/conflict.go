// SPDX-License-Identifier: Apache-2.0

package fwd

import (
	"errors"
	"strconv"
)

// Conflicts tells whether two rules of one direction want the same port of the same listening address.
//
// source: spec forwarding 5, except that rules on two different interfaces never conflict: the kernel keeps their sockets apart.
func (r *Rule) Conflicts(o *Rule) bool {
	if r.Proto != o.Proto || r.Last < o.First || o.Last < r.First {
		return false
	}
	if r.If != o.If && r.If != (IfName{}) && o.If != (IfName{}) {
		return false
	}
	return r.covers(o) || o.covers(r)
}

// covers tells whether a socket of r takes what is sent to the listening address of o.
func (r *Rule) covers(o *Rule) bool {
	switch {
	case r.Flags&RuleDual != 0:
		return true
	case o.Flags&RuleDual != 0:
		return false
	case r.Addr == o.Addr:
		return true
	}
	return r.Addr.IsUnspecified() && r.Addr.Is4() == o.Addr.Is4()
}

// AddRule appends one rule to a table of one direction.
//
//	errors: the reason, then "Unable to add rule RULE": a conflict with both rules named, or a limit passed
func AddRule(table []Rule, r Rule) ([]Rule, error) {
	listeners := int(r.Last-r.First) + 1
	for i := range table {
		if r.Conflicts(&table[i]) {
			return table, unable("Forwarding conflict with "+table[i].String(), &r)
		}
		listeners += int(table[i].Last-table[i].First) + 1
	}
	if len(table) >= MaxRules {
		return table, unable("Too many rules, at most "+strconv.Itoa(MaxRules)+" per direction", &r)
	}
	if listeners > MaxListeners {
		return table, unable("Too many ports, at most "+strconv.Itoa(MaxListeners)+" per direction", &r)
	}
	return append(table, r), nil
}

func unable(reason string, r *Rule) error {
	return errors.New(reason + ": Unable to add rule " + r.String())
}
