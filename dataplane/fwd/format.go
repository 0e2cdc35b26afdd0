// SPDX-License-Identifier: Apache-2.0

package fwd

import (
	"strconv"

	"passt/dataplane/wire"
)

// String gives the rule as the summary, the log and the control program show it:
//
//	TCP [*]%lo:1-32767  =>  1-32767  (best effort) (auto-scan)
//
// The blank behind the target ports is there without flags too (spec forwarding 7). A target address of IPv6 is
// bracketed, so that its end shows.
func (r *Rule) String() string {
	b := append([]byte(protoName(r.Proto)), " ["...)
	if r.Flags&RuleDual != 0 {
		b = append(b, '*')
	} else {
		b = append(b, addrText(&r.Addr)...)
	}
	b = append(b, ']')
	if r.If != (IfName{}) {
		b = append(append(b, '%'), r.If.String()...)
	}
	b = append(b, ':')
	b = append(b, rangeText(r.First, r.Last)...)
	b = append(b, "  =>  "...)
	if !r.Target.IsUnspecified() {
		if r.Target.Is4() {
			b = append(b, addrText(&r.Target)...)
		} else {
			b = append(append(append(b, '['), addrText(&r.Target)...), ']')
		}
		b = append(b, ':')
	}
	b = append(b, rangeText(r.To, r.Map(r.Last))...)
	b = append(b, ' ')
	if r.Flags&RuleBestEffort != 0 {
		b = append(b, " (best effort)"...)
	}
	if r.Flags&RuleScan != 0 {
		b = append(b, " (auto-scan)"...)
	}
	return string(b)
}

// addrText prints an address; the unset one is IPv6's unspecified address here.
func addrText(a *wire.Addr) string {
	if a.IsZero() {
		return "::"
	}
	return a.String()
}

// rangeText prints first-last, or one port without a dash.
func rangeText(first, last uint16) string {
	s := strconv.Itoa(int(first))
	if first != last {
		s += "-" + strconv.Itoa(int(last))
	}
	return s
}

func protoName(p uint8) string {
	switch p {
	case ProtoTCP:
		return "TCP"
	case ProtoUDP:
		return "UDP"
	}
	return "protocol " + strconv.Itoa(int(p))
}
