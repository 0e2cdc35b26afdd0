// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"fmt"

	"passt/seccomp"
)

// literal is one thing known about a call on a path through a program: word & mask OP value, or its contrary.
type literal struct {
	off  uint32 // of the 32-bit word in Data
	mask uint32
	op   uint16 // opJEq, opJGt, opJGe, opJSet
	val  uint32
	not  bool
}

func (l literal) holds(word uint32) bool { return holds(l.op, word&l.mask, l.val) != l.not }

// walk visits every path through a program that some call takes, with what is known of the call at its end.
func walk(p []insn, visit func(known []literal, verdict uint32)) {
	var step func(pc int, off, mask uint32, known []literal)
	step = func(pc int, off, mask uint32, known []literal) {
		for ; ; pc++ {
			n := p[pc]
			switch n.code {
			case opLoad:
				off, mask = n.k, ^uint32(0)
			case opAnd:
				mask &= n.k
			case opJA:
				pc += int(n.k)
			case opRet:
				visit(known, n.k)
				return
			default:
				yes := literal{off, mask, n.code, n.k, false}
				no := yes
				no.not = true
				for _, b := range []struct {
					l literal
					d uint8
				}{{yes, n.jt}, {no, n.jf}} {
					if next := with(known, b.l); feasible(next, off) {
						step(pc+1+int(b.d), off, mask, next)
					}
				}
				return
			}
		}
	}
	step(0, 0, ^uint32(0), nil)
}

func with(known []literal, l literal) []literal {
	return append(known[:len(known):len(known)], l)
}

// feasible tells whether some value of the word at off fulfils all literals about it. The answer is exact: it is yes
// with a value in hand, no with a proof, and a panic where it finds neither.
func feasible(known []literal, off uint32) bool {
	_, ok := solve(known, off)
	return ok
}

// solve looks for a value of the word at off. Bits fixed by equalities come first; the rest is tried with the
// neighbours of all constants that the literals name.
func solve(known []literal, off uint32) (value uint32, ok bool) {
	var fixed, bits uint32 // mask of fixed bits, their values
	var about []literal
	tries := []uint32{0, ^uint32(0), 0x5a5a5a5a, 0xa5a5a5a5}
	for _, l := range known {
		if l.off != off {
			continue
		}
		about = append(about, l)
		tries = append(tries, l.val, l.val+1, l.val-1, ^l.val, ^l.mask, l.val|^l.mask)
		if l.op != opJEq || l.not {
			continue
		}
		if l.val&^l.mask != 0 || (bits^l.val)&fixed&l.mask != 0 {
			return 0, false // two equalities contradict each other, or one is never true
		}
		fixed, bits = fixed|l.mask, bits|l.val
	}
	for _, t := range tries {
		v := t&^fixed | bits
		ok := true
		for _, l := range about {
			ok = ok && l.holds(v)
		}
		if ok {
			return v, true
		}
	}
	if !contradicts(about, fixed, bits) {
		panic(fmt.Sprintf("seccomp: cannot decide whether %v can all hold", about))
	}
	return 0, false
}

// contradicts proves that no value with the fixed bits fulfils all literals: one of them fails whatever the free
// bits are, or two bounds leave nothing between them.
func contradicts(about []literal, fixed, bits uint32) bool {
	low, high := uint64(0), uint64(1<<32-1)
	for _, l := range about {
		if l.mask&^fixed == 0 && !l.holds(bits) {
			return true
		}
		if l.mask != ^uint32(0) {
			continue
		}
		v := uint64(l.val)
		switch {
		case l.op == opJGt && !l.not:
			low = max(low, v+1)
		case l.op == opJGe && !l.not:
			low = max(low, v)
		case l.op == opJGt:
			high = min(high, v)
		case l.op == opJGe && v == 0:
			return true
		case l.op == opJGe:
			high = min(high, v-1)
		case l.op == opJEq && l.not && low == v:
			low++
		}
	}
	return low > high
}

// example makes one call that takes the path.
func example(known []literal) Data {
	get := func(off uint32) uint64 {
		v, _ := solve(known, off)
		return uint64(v)
	}
	d := Data{Nr: uint32(get(offNr)), Arch: uint32(get(offArch)), IP: get(8) | get(12)<<32}
	for i := range uint32(6) {
		d.Args[i] = get(offArgs+8*i) | get(offArgs+8*i+4)<<32
	}
	return d
}

// conjunction turns one way of fulfilling a rule into literals.
func conjunction(arch string, nr uint32, m []Match) []literal {
	full := ^uint32(0)
	out := []literal{{offArch, full, opJEq, ArchToken(arch), false}, {offNr, full, opJEq, nr, false}}
	for _, c := range m {
		off := uint32(offArgs + 8*c.Arg)
		out = append(out,
			literal{off, uint32(c.Mask), opJEq, uint32(c.Value), false},
			literal{off + 4, uint32(c.Mask >> 32), opJEq, uint32(c.Value >> 32), false})
	}
	return out
}

// Compare proves that a program and a list of rules say the same about every call: it walks all paths of the program
// and, at the end of each, all ways through the rules that are still open.
//
//	in:     otherwise, the verdict on calls outside of the list: Kill or Notify. Foreign and x32 calls must get Kill
//	out:    how many ends were compared; the first call on which they differ, as an error
//	panics: where a path can neither be shown possible nor impossible (never on a program of libseccomp's so far)
func Compare(prog []byte, rules []seccomp.Rule, arch string, otherwise uint32) (ends int, err error) {
	p, err := decode(prog)
	if err != nil {
		return 0, err
	}
	byName, _ := seccomp.Numbers(arch)
	var all [][]literal
	ofCall := map[uint32][][]literal{}
	for i := range rules {
		nr, ok := byName[rules[i].Call]
		if !ok {
			return 0, fmt.Errorf("seccomp: %s has no number on %s", rules[i].Call, arch)
		}
		for _, m := range Expand(&rules[i]) {
			c := conjunction(arch, nr, m)
			all, ofCall[nr] = append(all, c), append(ofCall[nr], c)
		}
	}
	walk(p, func(known []literal, verdict uint32) {
		rest := all
		if nr, ok := exactly(known, offNr); ok {
			rest = ofCall[nr] // the rules of other calls cannot hold
		}
		split(known, rest, func(known []literal, rulesAllow bool) {
			ends++
			if (rulesAllow != (verdict == Allow) || !rulesAllow && verdict != refusal(known, arch, otherwise)) && err == nil {
				err = fmt.Errorf("seccomp: program says %#x, rules say %v: %+v", verdict, rulesAllow, example(known))
			}
		})
	})
	return ends, err
}

// refusal is the verdict that a call outside of the list has to get: Kill wherever it may be one of a foreign
// architecture or, on amd64, of x32.
func refusal(known []literal, arch string, otherwise uint32) uint32 {
	full := ^uint32(0)
	if feasible(with(known, literal{offArch, full, opJEq, ArchToken(arch), true}), offArch) {
		return Kill
	}
	x32 := with(with(known, literal{offNr, full, opJGe, x32Bit, false}), literal{offNr, full, opJEq, full, true}) // -1 is no call of any kind
	if arch == "amd64" && feasible(x32, offNr) {
		return Kill
	}
	return otherwise
}

// split follows the rules from what is known, forking where it leaves both answers open.
func split(known []literal, rest [][]literal, visit func(known []literal, allow bool)) {
	for i, rule := range rest {
		at, open := known, true
		for _, l := range rule {
			no := l
			no.not = true
			if next := with(at, no); feasible(next, l.off) {
				// Only here some calls may pass the rule and some not: those that do not go on to the next one.
				if !feasible(with(at, l), l.off) {
					open, known = false, at // what left `at` before was followed already
					break
				}
				split(next, rest[i+1:], visit)
			}
			at = with(at, l)
		}
		if open {
			visit(at, true)
			return
		}
	}
	visit(known, false)
}
