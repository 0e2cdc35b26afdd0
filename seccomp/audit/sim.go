// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"encoding/binary"
	"errors"
	"fmt"

	"passt/seccomp"
)

// Data is what a filter sees of a call (struct seccomp_data, seccomp(2)).
type Data struct {
	Nr   uint32
	Arch uint32 // AUDIT_ARCH_*
	IP   uint64
	Args [6]uint64
}

// Verdicts of a filter.
const (
	Allow = 0x7fff0000 // SECCOMP_RET_ALLOW
	Kill  = 0x80000000 // SECCOMP_RET_KILL_PROCESS
	// Notify is SECCOMP_RET_USER_NOTIF: the call stops until the listener's holder has decided.
	Notify = 0x7fc00000
)

// x32Bit marks calls of the x32 interface on amd64 (__X32_SYSCALL_BIT).
const x32Bit = 1 << 30

// ArchToken gives AUDIT_ARCH_X86_64 or AUDIT_ARCH_AARCH64.
func ArchToken(arch string) uint32 {
	if arch == "arm64" {
		return 0xc00000b7
	}
	return 0xc000003e
}

// Offsets in struct seccomp_data, little-endian halves of 64-bit values.
const (
	offNr   = 0
	offArch = 4
	offArgs = 16
	dataLen = 64
)

func (d *Data) word(off uint32) uint32 {
	switch {
	case off == offNr:
		return d.Nr
	case off == offArch:
		return d.Arch
	case off < offArgs:
		return uint32(d.IP >> (8 * (off & 4)))
	}
	return uint32(d.Args[(off-offArgs)/8] >> (8 * (off & 4)))
}

// insn is one instruction of classic BPF (struct sock_filter, linux/filter.h).
type insn struct {
	code   uint16
	jt, jf uint8
	k      uint32
}

// The codes that libseccomp uses.
const (
	opLoad = 0x20 // BPF_LD | BPF_W | BPF_ABS
	opAnd  = 0x54 // BPF_ALU | BPF_AND | BPF_K
	opJA   = 0x05
	opJEq  = 0x15
	opJGt  = 0x25
	opJGe  = 0x35
	opJSet = 0x45
	opRet  = 0x06
)

var errProgram = errors.New("seccomp: bad program")

// decode checks the form of a program: known codes, loads inside of Data, jumps inside of the program. Jumps go
// forward only, so every run ends.
func decode(prog []byte) ([]insn, error) {
	if len(prog) == 0 || len(prog)%8 != 0 {
		return nil, fmt.Errorf("%w: %d bytes", errProgram, len(prog))
	}
	out := make([]insn, len(prog)/8)
	for i := range out {
		b := prog[8*i:]
		n := insn{binary.LittleEndian.Uint16(b), b[2], b[3], binary.LittleEndian.Uint32(b[4:])}
		ok := true
		switch n.code {
		case opLoad:
			ok = n.k%4 == 0 && n.k < dataLen
		case opJEq, opJGt, opJGe, opJSet:
			ok = i+1+int(max(n.jt, n.jf)) < len(out)
		case opJA:
			ok = n.k < uint32(len(out)-i-1)
		case opAnd, opRet:
		default:
			ok = false
		}
		if !ok || i == len(out)-1 && n.code != opRet {
			return nil, fmt.Errorf("%w: instruction %d: %#x %d %d %#x", errProgram, i, n.code, n.jt, n.jf, n.k)
		}
		out[i] = n
	}
	return out, nil
}

func holds(code uint16, a, k uint32) bool {
	switch code {
	case opJEq:
		return a == k
	case opJGt:
		return a > k
	case opJGe:
		return a >= k
	}
	return a&k != 0
}

// Run evaluates a program for one call, as the kernel does.
//
//	out: the verdict, and how many instructions it took
func Run(prog []byte, d *Data) (verdict uint32, steps int, err error) {
	p, err := decode(prog)
	if err != nil {
		return 0, 0, err
	}
	verdict, steps = run(p, d)
	return verdict, steps, nil
}

func run(p []insn, d *Data) (verdict uint32, steps int) {
	var a uint32
	for pc := 0; ; pc++ {
		steps++
		n := &p[pc]
		switch n.code {
		case opLoad:
			a = d.word(n.k)
		case opAnd:
			a &= n.k
		case opJA:
			pc += int(n.k)
		case opRet:
			return n.k, steps
		default:
			if holds(n.code, a, n.k) {
				pc += int(n.jt)
			} else {
				pc += int(n.jf)
			}
		}
	}
}

// Allowed evaluates the rules as they are written, one by one: what the program has to agree with.
func Allowed(rules []seccomp.Rule, arch string, d *Data) bool {
	byName, _ := seccomp.Numbers(arch)
	return allowed(rules, byName, arch, d)
}

func allowed(rules []seccomp.Rule, byName map[string]uint32, arch string, d *Data) bool {
	if d.Arch != ArchToken(arch) {
		return false
	}
	for i := range rules {
		if nr, ok := byName[rules[i].Call]; ok && nr == d.Nr && ruleHolds(&rules[i], d) {
			return true
		}
	}
	return false
}

func ruleHolds(r *seccomp.Rule, d *Data) bool {
	for _, c := range r.Args {
		one := false
		for _, v := range c.Values {
			one = one || d.Args[c.Arg]&c.Mask == v
		}
		if !one {
			return false
		}
	}
	return true
}
