// SPDX-License-Identifier: Apache-2.0

package fwd

import (
	"errors"

	"passt/dataplane/wire"
)

// SpecParams is what a port specification is read against.
type SpecParams struct {
	Proto        uint8 // ProtoTCP or ProtoUDP
	Ns           bool  // -T, -U: listeners in the namespace
	V4, V6       bool  // families in use
	ScanOK       bool  // "auto" is possible: pasta
	NoBindDevice bool  // no SO_BINDTODEVICE without privilege (kernel before 5.7)
	// EphemeralLo..Hi are left out where a specification names no port (net.ipv4.ip_local_port_range); both 0: nothing is.
	EphemeralLo, EphemeralHi uint16
}

// AddSpec reads a specification and appends its rules to the table of its direction.
//
//	errors: as ParseSpec and AddRule; "none" behind rules of the same protocol. The table is then as far as it came.
//	source: spec forwarding 1.6
func AddSpec(table []Rule, p *SpecParams, spec string) ([]Rule, error) {
	if spec == "none" {
		for i := range table {
			if table[i].Proto == p.Proto {
				return table, errors.New("Port specifier 'none' conflicts with an earlier one: " + table[i].String())
			}
		}
		return table, nil
	}
	rules, err := ParseSpec(p, spec)
	if err != nil {
		return table, err
	}
	for i := range rules {
		if table, err = AddRule(table, rules[i]); err != nil {
			return table, err
		}
	}
	return table, nil
}

// ParseSpec gives the rules of one port specification, in ascending order of its ranges.
//
//	out:    no rule for "none" and where everything is excluded
//	errors: bad grammar, and what spec forwarding 1 and 2 call fatal
func ParseSpec(p *SpecParams, spec string) ([]Rule, error) {
	s, err := readSpec(spec)
	if err != nil || s.none {
		return nil, err
	}
	switch {
	case s.auto && !p.ScanOK:
		return nil, errors.New("Port specifier 'auto' is for pasta only")
	case s.all && len(s.includes) > 0:
		return nil, errors.New("Port specifier '" + s.ports + "' has 'all' together with ports: leave one out")
	}
	bases, err := p.bases(s)
	if err != nil {
		return nil, err
	}
	var skip [65536]bool
	for _, r := range s.excludes {
		mark(&skip, r)
	}
	if len(s.includes) == 0 {
		mark(&skip, portRange{p.EphemeralLo, p.EphemeralHi})
		every := portRange{1, 65535}
		s.includes = []include{{from: every, to: every, target: s.target}}
		for i := range bases {
			bases[i].Flags |= RuleBestEffort
		}
	}
	var out []Rule
	for i := range s.includes {
		inc := &s.includes[i]
		for _, b := range bases {
			if err := p.aim(&b, inc.target); err != nil {
				return nil, err
			}
			out = inc.runs(out, b, &skip)
		}
	}
	return out, nil
}

// bases gives the listening side of the rules: one, or two loopback addresses where the device cannot be bound.
func (p *SpecParams) bases(s *portSpec) ([]Rule, error) {
	b := Rule{Proto: p.Proto, If: s.listen.ifn}
	if s.auto {
		b.Flags |= RuleScan
	}
	switch {
	case p.Ns && s.listen.given:
		return nil, errors.New("Ports of the namespace take no listening address or interface: '" + s.ports + "'")
	case p.Ns && p.NoBindDevice:
		var out []Rule
		if p.V4 {
			b.Addr = loop4
			out = append(out, b)
		}
		if p.V6 {
			b.Addr = loop6
			out = append(out, b)
		}
		return out, nil
	case p.Ns:
		b.If, _ = MakeIfName("lo") // fits
	case b.If != IfName{} && p.NoBindDevice:
		return nil, errors.New("This kernel cannot bind to interface " + b.If.String() + " without privilege")
	}
	switch {
	case !s.listen.wild:
		b.Addr = s.listen.addr
		if b.Addr.Is4() && !p.V4 || !b.Addr.Is4() && !p.V6 {
			return nil, errors.New("Listening address " + addrText(&b.Addr) + " belongs to a family that is off")
		}
	case p.V4 && p.V6:
		b.Flags |= RuleDual
	case p.V4:
		b.Addr = wire.Addr4(0, 0, 0, 0)
	}
	return []Rule{b}, nil
}

// aim sets the target address of a rule (spec forwarding 2.7).
func (p *SpecParams) aim(r *Rule, target wire.Addr) error {
	if target.IsUnspecified() {
		return nil
	}
	name := "Target address " + addrText(&target)
	switch {
	case p.Ns:
		return errors.New(name + " is not possible for ports of the namespace")
	case target.IsMulticast() || target.IsBroadcast():
		return errors.New(name + " is not unicast")
	case r.Flags&RuleDual != 0:
		hint := "[::]/"
		if target.Is4() {
			hint = "0.0.0.0/"
		}
		return errors.New(name + " needs listening addresses of its own family, put " + hint + " before the ports")
	case target.Is4() != r.Addr.Is4():
		return errors.New(name + " is not of the family of listening address " + addrText(&r.Addr))
	}
	r.Target = target
	return nil
}

// runs appends one rule for each run of ports that are not skipped.
func (i *include) runs(out []Rule, b Rule, skip *[65536]bool) []Rule {
	for at := int(i.from.first); at <= int(i.from.last); at++ {
		if skip[at] {
			continue
		}
		first := at
		for at < int(i.from.last) && !skip[at+1] {
			at++
		}
		b.First, b.Last = uint16(first), uint16(at)
		b.To = i.to.first + uint16(first) - i.from.first
		out = append(out, b)
	}
	return out
}

func mark(skip *[65536]bool, r portRange) {
	for i := int(r.first); i <= int(r.last); i++ {
		skip[i] = true
	}
}
