// SPDX-License-Identifier: Apache-2.0

// Command gen compiles the lists of package seccomp with libseccomp. It writes, relative to its own folder,
// ../programs (filter programs and the table of call numbers), ../audit/testdata (their text) and ../../docs/policy.md.
// It is a module of its own, so that neither cgo nor libseccomp touches the program that is shipped.
package main

import (
	"bytes"
	"fmt"
	"log"
	"os"
	"path/filepath"

	lib "github.com/seccomp/libseccomp-golang"

	"passt/seccomp"
	"passt/seccomp/audit"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("seccomp/gen: ")
	must(write("../programs/syscalls.txt", numbers()))
	names := map[string]int{}
	for _, role := range seccomp.Roles() {
		for _, arch := range seccomp.Architectures() {
			prog, err := compile(role, arch, lib.ActKillProcess)
			must(err)
			base := role.String() + "." + arch
			must(write("../programs/"+base+".bpf", prog))
			text, err := audit.Golden(role, arch, prog)
			must(err)
			must(write("../audit/testdata/"+base+".golden", []byte(text)))
			names[base] = len(prog) / 8
			if role != seccomp.WorkerPasta {
				continue
			}
			prog, err = compile(role, arch, lib.ActNotify)
			must(err)
			must(write("../programs/"+role.String()+"-notify."+arch+".bpf", prog))
		}
		fmt.Printf("%-14s %d rules, %d instructions amd64, %d arm64\n", role, len(seccomp.Rules(role, "amd64")), names[role.String()+".amd64"], names[role.String()+".arm64"])
	}
	must(write("../../docs/policy.md", []byte(audit.Document())))
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// write replaces a file in one step, and only when it changes: a reader never sees half of it.
func write(path string, b []byte) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, b) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", b, 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func scmpArch(arch string) lib.ScmpArch {
	if arch == "arm64" {
		return lib.ArchARM64
	}
	return lib.ArchAMD64
}

// numbers is the table that explain and the tests read: name, number on amd64, number on arm64; -1: none there.
func numbers() []byte {
	const most = 600 // beyond the newest call that libseccomp 2.5 to 2.6 knows
	var b bytes.Buffer
	b.WriteString("# name amd64 arm64; from libseccomp, by make policy\n")
	row := func(name string, a, c int32) { fmt.Fprintf(&b, "%s %d %d\n", name, max(a, -1), max(c, -1)) }
	seen := map[string]bool{}
	for i, arch := range []lib.ScmpArch{lib.ArchAMD64, lib.ArchARM64} {
		for nr := lib.ScmpSyscall(0); nr < most; nr++ {
			name, err := nr.GetNameByArch(arch)
			if err != nil || seen[name] {
				continue
			}
			seen[name] = true
			if i == 1 {
				row(name, -1, int32(nr))
				continue
			}
			other, err := lib.GetSyscallFromNameByArch(name, lib.ArchARM64)
			if err != nil {
				other = -1
			}
			row(name, int32(nr), int32(other))
		}
	}
	return b.Bytes()
}

// compile makes the program of one role for one architecture. otherwise is the answer to a call outside of the list;
// a call of a foreign architecture always kills.
func compile(role seccomp.Role, arch string, otherwise lib.ScmpAction) ([]byte, error) {
	f, err := lib.NewFilter(otherwise)
	if err != nil {
		return nil, err
	}
	defer f.Release()
	native, err := lib.GetNativeArch()
	if err != nil {
		return nil, err
	}
	want := scmpArch(arch)
	if native != want {
		if err := f.AddArch(want); err != nil {
			return nil, fmt.Errorf("add %s: %w", arch, err)
		}
		if err := f.RemoveArch(native); err != nil {
			return nil, fmt.Errorf("remove %v: %w", native, err)
		}
	}
	if err := f.SetBadArchAction(lib.ActKillProcess); err != nil {
		return nil, err
	}
	first := 255
	done := map[lib.ScmpSyscall]bool{}
	for _, r := range seccomp.Rules(role, arch) {
		// Rules take the native number; libseccomp translates it. The number of the other architecture would
		// silently allow another call.
		nr, err := lib.GetSyscallFromName(r.Call)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", role, r.Call, err)
		}
		if err := add(f, nr, &r); err != nil {
			return nil, fmt.Errorf("%s %s: %s: %w", role, arch, r.Call, err)
		}
		if !done[nr] { // the first one in the list is asked for first
			done[nr] = true
			if err := f.SetSyscallPriority(nr, uint8(first)); err != nil {
				return nil, fmt.Errorf("%s: %s: %w", role, r.Call, err)
			}
			first = max(first-1, 1)
		}
	}
	return export(f)
}

// export goes through a file: the form that writes to memory needs libseccomp 2.6.
func export(f *lib.ScmpFilter) ([]byte, error) {
	tmp, err := os.CreateTemp("", "bpf")
	if err != nil {
		return nil, err
	}
	defer os.Remove(tmp.Name())
	defer tmp.Close()
	if err := f.ExportBPF(tmp); err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	return os.ReadFile(tmp.Name())
}

func add(f *lib.ScmpFilter, nr lib.ScmpSyscall, r *seccomp.Rule) error {
	for _, m := range audit.Expand(r) {
		if len(m) == 0 {
			return f.AddRuleExact(nr, lib.ActAllow)
		}
		var conds []lib.ScmpCondition
		for _, c := range m {
			if c.Value&^c.Mask != 0 {
				return fmt.Errorf("argument %d: value %#x outside of mask %#x", c.Arg, c.Value, c.Mask)
			}
			op, values := lib.CompareMaskedEqual, []uint64{c.Mask, c.Value}
			if c.Mask == ^uint64(0) {
				op, values = lib.CompareEqual, values[1:]
			}
			cond, err := lib.MakeCondition(uint(c.Arg), op, values...)
			if err != nil {
				return err
			}
			conds = append(conds, cond)
		}
		if err := f.AddRuleConditionalExact(nr, lib.ActAllow, conds); err != nil {
			return err
		}
	}
	return nil
}
