// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"passt/seccomp"
)

func TestProgram_Text_IsTheGoldenOne(t *testing.T) {
	each(t, func(t *testing.T, role seccomp.Role, arch string) {
		got, err := Golden(role, arch, seccomp.Program(role, arch))
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile("testdata/" + role.String() + "." + arch + ".golden")
		if err != nil || got != string(want) {
			t.Errorf("differs from the golden text (%v): run make policy and read the diff", err)
		}
	})
}

func TestProgram_AllPaths_SayWhatTheRulesSay(t *testing.T) {
	each(t, func(t *testing.T, role seccomp.Role, arch string) {
		ends, err := Compare(seccomp.Program(role, arch), seccomp.Rules(role, arch), arch, Kill)
		if err != nil {
			t.Errorf("%v; run make policy", err)
		}
		if ends < len(seccomp.Rules(role, arch)) {
			t.Errorf("only %d ends", ends)
		}
		t.Logf("%d ends compared", ends)
	})
}

// The comparison itself has to notice: each constant of a program changed by one bit, and each rule left out.
func TestCompare_ProgramsAndRulesThatDiffer_AreNoticed(t *testing.T) {
	prog := seccomp.Program(seccomp.WorkerPasta, "amd64")
	rules := seccomp.Rules(seccomp.WorkerPasta, "amd64")
	p := mustDecode(t, seccomp.WorkerPasta, "amd64")
	missed := 0
	for i, n := range p {
		if n.code != opJEq && n.code != opAnd {
			continue
		}
		bad := slices.Clone(prog)
		binary.LittleEndian.PutUint32(bad[8*i+4:], n.k^0x80)
		if _, err := Compare(bad, rules, "amd64", Kill); err == nil {
			t.Logf("instruction %d with %#x instead of %#x makes no difference", i, n.k^0x80, n.k)
			missed++
		}
	}
	// The test for number -1 makes no difference: such a call is refused further down too.
	if missed > 1 {
		t.Errorf("%d changes were not noticed", missed)
	}
	for i := range rules {
		if _, err := Compare(prog, slices.Delete(slices.Clone(rules), i, i+1), "amd64", Kill); err == nil {
			t.Errorf("rule %s may as well be left out", Text(&rules[i]))
		}
	}
}

// Random calls near the policy: numbers that are listed, values that rules name, and bits beside them.
func TestProgram_RandomCalls_SayWhatTheRulesSay(t *testing.T) {
	each(t, func(t *testing.T, role seccomp.Role, arch string) {
		rng := rand.New(rand.NewPCG(2, uint64(role)))
		rules, p := seccomp.Rules(role, arch), mustDecode(t, role, arch)
		byName, _ := seccomp.Numbers(arch)
		values := []uint64{0, 1, 1<<64 - 1, 1 << 32}
		for _, r := range rules {
			for _, c := range r.Args {
				values = append(values, c.Values...)
			}
		}
		hits := 0
		for range 200_000 {
			d := Data{Nr: rng.Uint32N(480), Arch: ArchToken(arch), IP: rng.Uint64()}
			var named []seccomp.Cond
			if rng.IntN(4) > 0 {
				r := rules[rng.IntN(len(rules))]
				d.Nr, named = byName[r.Call], r.Args
			}
			for i := range d.Args {
				d.Args[i] = values[rng.IntN(len(values))]
			}
			for _, c := range named {
				d.Args[c.Arg] = c.Values[rng.IntN(len(c.Values))] | rng.Uint64()&^c.Mask
			}
			switch rng.IntN(8) {
			case 0:
				d.Args[rng.IntN(6)] ^= 1 << rng.IntN(64)
			case 1:
				d.Arch ^= 1 << rng.IntN(32)
			case 2:
				d.Nr |= 1 << 30
			}
			v, _ := run(p, &d)
			want := allowed(rules, byName, arch, &d)
			if want != (v == Allow) {
				t.Fatalf("%+v: program %#x, rules %v", d, v, want)
			}
			if want {
				hits++
			}
		}
		if hits < 50_000 {
			t.Errorf("only %d calls were allowed ones", hits)
		}
	})
}

func TestProgram_Size_StaysSmall(t *testing.T) {
	each(t, func(t *testing.T, role seccomp.Role, arch string) {
		if n := len(mustDecode(t, role, arch)); n > 256 {
			t.Errorf("%d instructions, more than 256", n)
		}
	})
}

func TestProgram_MostFrequentCalls_AreShortPaths(t *testing.T) {
	byName, _ := seccomp.Numbers("amd64")
	p := mustDecode(t, seccomp.WorkerPasta, "amd64")
	for _, name := range []string{"sendto", "read", "write", "writev", "recvmsg", "recvmmsg", "recvfrom", "epoll_pwait", "splice"} {
		if _, steps := run(p, &Data{Nr: byName[name], Arch: ArchToken("amd64")}); steps > 24 {
			t.Errorf("%s takes %d instructions", name, steps)
		}
	}
}

func TestProgram_ForeignCalls_Die(t *testing.T) {
	for _, role := range seccomp.Roles() {
		for _, d := range []Data{
			{Nr: 4, Arch: 0x40000003},                       // i386 by int 0x80: write there, stat here
			{Nr: 1<<30 | 1, Arch: ArchToken("amd64")},       // x32 write
			{Nr: 64, Arch: ArchToken("arm64")},              // arm64 write
			{Nr: 1<<32 - 1, Arch: ArchToken("amd64")},       // no call
			{Nr: 1, Arch: ArchToken("amd64") &^ 0x80000000}, // without the 64-bit mark
		} {
			if v, _, err := Run(seccomp.Program(role, "amd64"), &d); v != Kill || err != nil {
				t.Errorf("%s: %+v: %#x %v", role, d, v, err)
			}
		}
	}
}

func TestDecode_BrokenPrograms_AreRefused(t *testing.T) {
	good := seccomp.Program(seccomp.Supervisor, "amd64")
	for n := range len(good) {
		if _, err := decode(good[:n]); err == nil {
			t.Fatalf("cut at byte %d", n)
		}
	}
	for _, bad := range [][]byte{
		{0x06, 0, 0, 0, 0, 0, 0, 0, 0},                         // nine bytes
		{0x28, 0, 0, 0, 0, 0, 0, 0, 0x06, 0, 0, 0, 0, 0, 0, 0}, // half-word load
		{0x20, 0, 0, 0, 64, 0, 0, 0, 0x06, 0, 0, 0, 0, 0, 0, 0},
		{0x15, 0, 1, 0, 0, 0, 0, 0, 0x06, 0, 0, 0, 0, 0, 0, 0},
		{0x05, 0, 0, 0, 1, 0, 0, 0, 0x06, 0, 0, 0, 0, 0, 0, 0},
	} {
		if _, err := decode(bad); err == nil {
			t.Errorf("% x", bad)
		}
	}
}

func TestExplain_EveryRule_HasItsReason(t *testing.T) {
	text := Explain(seccomp.WorkerPasta, "amd64")
	for _, r := range seccomp.Rules(seccomp.WorkerPasta, "amd64") {
		if !strings.Contains(text, Text(&r)+"\n    why:  "+r.Why) {
			t.Errorf("%s is missing", Text(&r))
		}
	}
}
