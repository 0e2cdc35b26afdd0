// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"passt/seccomp"
)

// Golden is the text of a program that stands in testdata/: every way through it that allows a call, in the order of
// call numbers, then the instructions. The first part does not depend on how libseccomp arranges the tests.
func Golden(role seccomp.Role, arch string, prog []byte) (string, error) {
	p, err := decode(prog)
	if err != nil {
		return "", err
	}
	_, names := seccomp.Numbers(arch)
	var b strings.Builder
	fmt.Fprintf(&b, "# %s on %s: %d instructions\n\n# verdicts: everything else ends the process\n", role, arch, len(p))
	for _, l := range verdicts(p, names) {
		b.WriteString(l + "\n")
	}
	b.WriteString("\n# program\n")
	disassemble(&b, p, names)
	return b.String(), nil
}

// verdicts gives one line for each path that does not kill; its conditions are exact.
func verdicts(p []insn, names map[uint32]string) []string {
	type line struct {
		nr   uint32
		text string
	}
	var out []line
	walk(p, func(known []literal, verdict uint32) {
		if verdict == Kill {
			return
		}
		d := example(known)
		text := fmt.Sprintf("%s(%s)", cmp.Or(names[d.Nr], fmt.Sprint(d.Nr)), conditions(known))
		for _, off := range []uint32{offArch, offNr} {
			if _, ok := exactly(known, off); !ok {
				text += fmt.Sprintf(" and any other call: word %d is free", off)
			}
		}
		if verdict != Allow {
			text += fmt.Sprintf(" -> %#x", verdict)
		}
		out = append(out, line{d.Nr, text})
	})
	slices.SortFunc(out, func(a, b line) int { return cmp.Or(cmp.Compare(a.nr, b.nr), strings.Compare(a.text, b.text)) })
	text := make([]string, len(out))
	for i := range out {
		text[i] = out[i].text
	}
	return slices.Compact(text)
}

// exactly gives the only value that a path leaves to a word.
func exactly(known []literal, off uint32) (uint32, bool) {
	for _, l := range known {
		if l.off == off && l.op == opJEq && !l.not && l.mask == ^uint32(0) {
			return l.val, true
		}
	}
	return 0, false
}

// conditions prints what a path says about arguments.
func conditions(known []literal) string {
	var out []string
	for i := range uint32(6) {
		lo, hi := offArgs+8*i, offArgs+8*i+4
		l, okL := exactly(known, lo)
		h, okH := exactly(known, hi)
		if okL && okH {
			out = append(out, fmt.Sprintf("a%d == %#x", i, uint64(h)<<32|uint64(l)))
			continue
		}
		out = append(out, wordConditions(known, hi, fmt.Sprintf("a%d.high", i))...)
		out = append(out, wordConditions(known, lo, fmt.Sprintf("a%d.low", i))...)
	}
	return strings.Join(out, ", ")
}

func wordConditions(known []literal, off uint32, name string) []string {
	if v, ok := exactly(known, off); ok {
		return []string{fmt.Sprintf("%s == %#x", name, v)}
	}
	var out []string
	for _, l := range known {
		if l.off != off || l.mask == 0 {
			continue
		}
		word := name
		if l.mask != ^uint32(0) {
			word = fmt.Sprintf("%s & %#x", name, l.mask)
		}
		op := map[uint16][2]string{opJEq: {"==", "!="}, opJGt: {">", "<="}, opJGe: {">=", "<"}, opJSet: {"has", "lacks"}}[l.op]
		i := 0
		if l.not {
			i = 1
		}
		out = append(out, fmt.Sprintf("%s %s %#x", word, op[i], l.val))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// disassemble prints one instruction per line; jump targets are numbers of lines.
func disassemble(b *strings.Builder, p []insn, names map[uint32]string) {
	off := uint32(0)
	for i, n := range p {
		fmt.Fprintf(b, "%3d ", i)
		switch n.code {
		case opLoad:
			off = n.k
			fmt.Fprintf(b, "load %s", wordName(n.k))
		case opAnd:
			fmt.Fprintf(b, "and %#x", n.k)
		case opJA:
			fmt.Fprintf(b, "jump %d", i+1+int(n.k))
		case opRet:
			fmt.Fprintf(b, "return %s", map[uint32]string{Allow: "allow", Kill: "kill process"}[n.k])
			if n.k != Allow && n.k != Kill {
				fmt.Fprintf(b, "%#x", n.k)
			}
		default:
			op := map[uint16]string{opJEq: "==", opJGt: ">", opJGe: ">=", opJSet: "has"}[n.code]
			fmt.Fprintf(b, "if %s %#x then %d else %d", op, n.k, i+1+int(n.jt), i+1+int(n.jf))
			if name, ok := names[n.k]; ok && off == offNr {
				fmt.Fprintf(b, "  # %s", name)
			}
		}
		b.WriteByte('\n')
	}
}

func wordName(off uint32) string {
	switch {
	case off == offNr:
		return "nr"
	case off == offArch:
		return "arch"
	case off < offArgs:
		return "ip"
	}
	half := "low"
	if off&4 != 0 {
		half = "high"
	}
	return fmt.Sprintf("a%d.%s", (off-offArgs)/8, half)
}

// Text is a rule as a user reads it: name and conditions, without reasons.
func Text(r *seccomp.Rule) string {
	var args []string
	for _, c := range r.Args {
		var values []string
		for _, v := range c.Values {
			values = append(values, fmt.Sprintf("%#x", v))
		}
		word := fmt.Sprintf("a%d", c.Arg)
		if c.Mask != uint64(fullMask) {
			word = fmt.Sprintf("a%d without bits %#x", c.Arg, ^c.Mask)
		}
		args = append(args, word+" = "+strings.Join(values, " or "))
	}
	return r.Call + "(" + strings.Join(args, ", ") + ")"
}

// Explain is the policy of one role as text: each rule with its reason.
func Explain(role seccomp.Role, arch string) string {
	var b strings.Builder
	prog := seccomp.Program(role, arch)
	fmt.Fprintf(&b, "%s on %s: %d instructions. Any other call ends the process (SIGSYS).\n", role, arch, len(prog)/8)
	for _, r := range seccomp.Rules(role, arch) {
		fmt.Fprintf(&b, "\n%s\n    why:  %s\n    by:   %s\n", Text(&r), r.Why, r.By)
		if r.Cold != "" {
			fmt.Fprintf(&b, "    rare: %s\n", r.Cold)
		}
	}
	return b.String()
}

// Matching gives the numbers of the rules that allow a call; none: it is forbidden. byName is from seccomp.Numbers.
func Matching(rules []seccomp.Rule, byName map[string]uint32, d *Data) []int {
	var out []int
	for i := range rules {
		if nr, ok := byName[rules[i].Call]; ok && nr == d.Nr && ruleHolds(&rules[i], d) {
			out = append(out, i)
		}
	}
	return out
}
