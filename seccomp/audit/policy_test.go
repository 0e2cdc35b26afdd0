// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"passt/seccomp"
)

// never lists calls that no role may make. A change here is a change of what the project promises.
var never = strings.Fields(`
	execve execveat ptrace process_vm_readv process_vm_writev kcmp process_madvise
	open openat openat2 creat name_to_handle_at open_by_handle_at memfd_create memfd_secret mknod mknodat link linkat
	symlink symlinkat rename renameat renameat2 unlink unlinkat truncate chmod fchmodat chown fchownat
	mount umount2 pivot_root chroot fsopen fsmount fsconfig fspick move_mount open_tree mount_setattr
	setns unshare fork vfork clone3 seccomp prctl arch_prctl personality modify_ldt
	bpf perf_event_open userfaultfd io_uring_setup io_uring_enter io_uring_register io_setup io_submit
	keyctl add_key request_key init_module finit_module delete_module kexec_load kexec_file_load reboot
	mprotect pkey_mprotect mremap remap_file_pages shmget shmat
	kill tkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_open pidfd_getfd
	socketpair sendmmsg vmsplice tee
	setuid setgid setresuid setresgid setgroups capset setrlimit prlimit64 iopl ioperm sethostname`)

// neverWorker adds what the process that meets the guest may not do.
var neverWorker = strings.Fields(`
	socket connect bind listen accept sendmsg clone tgkill rt_sigaction rt_sigprocmask sigaltstack
	pidfd_send_signal wait4 waitid dup dup2 dup3 fcntl pipe pipe2 epoll_create epoll_create1 poll ppoll
	getpid eventfd eventfd2 pread64 pwrite64 preadv pwritev lseek ftruncate fallocate sendfile copy_file_range`)

// each runs f for every role and architecture.
func each(t *testing.T, f func(t *testing.T, role seccomp.Role, arch string)) {
	t.Helper()
	for _, role := range seccomp.Roles() {
		for _, arch := range seccomp.Architectures() {
			t.Run(role.String()+"/"+arch, func(t *testing.T) { f(t, role, arch) })
		}
	}
}

func mustDecode(t testing.TB, role seccomp.Role, arch string) []insn {
	t.Helper()
	p, err := decode(seccomp.Program(role, arch))
	if err != nil {
		t.Fatalf("%v; run make policy", err)
	}
	return p
}

func TestProgram_CallsOfTheNeverList_AreNotAllowed(t *testing.T) {
	each(t, func(t *testing.T, role seccomp.Role, arch string) {
		byName, _ := seccomp.Numbers(arch)
		list := slices.Clone(never)
		switch role {
		case seccomp.WorkerPasta:
			list = append(list, neverWorker...)
		case seccomp.Agent:
			list = append(list, "wait4", "waitid", "pidfd_send_signal", "dup3")
		}
		forbidden, known := map[uint32]string{}, 0
		for _, name := range list {
			if nr, ok := byName[name]; ok {
				forbidden[nr] = name
				known++
			} else if arch == "amd64" && name != "memfd_secret" {
				t.Errorf("%s: no such call", name)
			}
		}
		if known < len(list)*3/4 {
			t.Errorf("only %d of %d names are known", known, len(list))
		}
		walk(mustDecode(t, role, arch), func(known []literal, verdict uint32) {
			nr, ok := exactly(known, offNr)
			if verdict == Allow && !ok {
				t.Errorf("a path allows more than one call: %v", known)
			}
			if verdict == Allow && forbidden[nr] != "" {
				t.Errorf("%s is allowed", forbidden[nr])
			}
			if verdict != Allow && verdict != Kill {
				t.Errorf("verdict %#x", verdict)
			}
		})
	})
}

func TestProgram_Mappings_AreNeverExecutableOrShared(t *testing.T) {
	each(t, func(t *testing.T, role seccomp.Role, arch string) {
		byName, _ := seccomp.Numbers(arch)
		seen := 0
		walk(mustDecode(t, role, arch), func(known []literal, verdict uint32) {
			if nr, _ := exactly(known, offNr); verdict != Allow || nr != byName["mmap"] {
				return
			}
			seen++
			const prot, flags = offArgs + 8*2, offArgs + 8*3
			if feasible(with(known, literal{prot, unix.PROT_EXEC, opJEq, unix.PROT_EXEC, false}), prot) {
				t.Error("a mapping may be executable")
			}
			for _, bit := range []uint32{unix.MAP_SHARED, unix.MAP_HUGETLB, unix.MAP_GROWSDOWN, unix.MAP_LOCKED} {
				if feasible(with(known, literal{flags, bit, opJEq, bit, false}), flags) {
					t.Errorf("a mapping may have flag %#x", bit)
				}
			}
			if feasible(with(known, literal{flags, unix.MAP_ANONYMOUS, opJEq, 0, false}), flags) {
				t.Error("a mapping may be of a file")
			}
		})
		if seen == 0 {
			t.Error("no mmap at all: the heap could not grow")
		}
	})
}

// fixed lists calls that do many things, and the arguments that every rule for them has to fix.
var fixed = map[string][]int{
	"ioctl": {1}, "fcntl": {1}, "getsockopt": {1, 2}, "setsockopt": {1, 2}, "socket": {0, 1, 2}, "clone": {0},
	"madvise": {2}, "mmap": {2, 3}, "futex": {1}, "tgkill": {2}, "epoll_ctl": {1}, "accept4": {3}, "dup3": {1, 2},
	"pipe2": {1}, "eventfd2": {0, 1}, "epoll_create1": {0},
}

func TestRules_EveryRule_IsWellFormed(t *testing.T) {
	each(t, func(t *testing.T, role seccomp.Role, arch string) {
		byName, _ := seccomp.Numbers(arch)
		texts := map[string]bool{}
		for _, r := range seccomp.Rules(role, arch) {
			if _, ok := byName[r.Call]; !ok {
				t.Errorf("%s: no such call", r.Call)
			}
			if r.Why == "" || r.By == "" {
				t.Errorf("%s: Why and By are needed", Text(&r))
			}
			if texts[Text(&r)] {
				t.Errorf("%s: twice", Text(&r))
			}
			texts[Text(&r)] = true
			conds := map[int]bool{}
			for _, c := range r.Args {
				if conds[c.Arg] || c.Arg < 0 || c.Arg > 5 || len(c.Values) == 0 {
					t.Errorf("%s: argument %d", Text(&r), c.Arg)
				}
				conds[c.Arg] = true
				for _, v := range c.Values {
					if v&^c.Mask != 0 { // libseccomp would mask the value too and allow more than is written
						t.Errorf("%s: value %#x has bits outside of its mask", Text(&r), v)
					}
				}
			}
			for _, arg := range fixed[r.Call] {
				if !conds[arg] {
					t.Errorf("%s: argument %d is free", Text(&r), arg)
				}
			}
		}
	})
}

func TestRules_Clone_IsAThreadAndNothingElse(t *testing.T) {
	each(t, func(t *testing.T, role seccomp.Role, arch string) {
		for _, r := range seccomp.Rules(role, arch) {
			if r.Call != "clone" {
				continue
			}
			want := map[string]uint64{"amd64": 0xd0f00, "arm64": 0x50f00}[arch]
			if len(r.Args) != 1 || r.Args[0].Mask != fullMask || !slices.Equal(r.Args[0].Values, []uint64{want}) {
				t.Errorf("%s", Text(&r))
			}
		}
	})
}

func TestRules_SendTo_HasNoAddressInTheWorker(t *testing.T) {
	byName, _ := seccomp.Numbers("amd64")
	rules := seccomp.Rules(seccomp.WorkerPasta, "amd64")
	d := Data{Nr: byName["sendto"], Arch: ArchToken("amd64")}
	if !allowed(rules, byName, "amd64", &d) {
		t.Error("no sendto at all")
	}
	for _, a := range []uint64{1, 1 << 32, 0x7fff_0000_0000, 1 << 63} {
		for _, arg := range []int{4, 5} {
			d := d
			d.Args[arg] = a
			if v, _, _ := Run(seccomp.Program(seccomp.WorkerPasta, "amd64"), &d); v != Kill {
				t.Errorf("argument %d = %#x: %#x", arg, a, v)
			}
		}
	}
}

// wrapper is one function of internal/sys with the calls it makes and the roles that its "policy:" line names.
type wrapper struct {
	name, file string
	calls      []string
	policy     string
}

func wrappers(t *testing.T) (out []wrapper, byFile map[string][]string) {
	t.Helper()
	byFile = map[string][]string{}
	for _, dir := range []string{"internal/sys", "internal/sys/priv"} {
		files, err := filepath.Glob(filepath.Join("../..", dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatal(dir, err)
		}
		for _, f := range files {
			rel := filepath.ToSlash(strings.TrimPrefix(f, "../../"))
			parsed, err := parser.ParseFile(token.NewFileSet(), f, nil, parser.ParseComments)
			if err != nil {
				t.Skipf("%s does not parse: %v", rel, err)
			}
			for _, d := range parsed.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok {
					continue
				}
				w := wrapper{name: fn.Name.Name, file: rel, calls: calls(fn)}
				byFile[rel] = append(byFile[rel], w.calls...)
				for l := range strings.Lines(fn.Doc.Text()) {
					if p, ok := strings.CutPrefix(strings.TrimSpace(l), "policy: "); ok {
						w.policy, _, _ = strings.Cut(p, "(")
					}
				}
				out = append(out, w)
			}
		}
	}
	return out, byFile
}

// wrapped names functions of other packages that make a call without its number standing in our source.
var wrapped = map[string]string{"Madvise": "madvise", "Write": "write", "Getpid": "getpid", "Dup3": "dup3", "Mmap": "mmap"}

func calls(fn *ast.FuncDecl) (out []string) {
	ast.Inspect(fn, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			x, ok := s.X.(*ast.Ident)
			if !ok || x.Name != "unix" && x.Name != "syscall" {
				return true
			}
			if nr, ok := strings.CutPrefix(s.Sel.Name, "SYS_"); ok {
				out = append(out, strings.ToLower(nr))
			} else if c, ok := wrapped[s.Sel.Name]; ok {
				out = append(out, c)
			}
		}
		return true
	})
	return out
}

func TestRules_Wrappers_MatchBothWays(t *testing.T) {
	all, byFile := wrappers(t)
	for _, role := range seccomp.Roles() {
		word, _, _ := strings.Cut(role.String(), "-")
		has := map[string]bool{}
		for _, r := range seccomp.Rules(role, "amd64") {
			has[r.Call] = true
			if r.By != "go runtime" && !slices.Contains(byFile[r.By], r.Call) {
				t.Errorf("%s: %s is not called in %s", role, r.Call, r.By)
			}
		}
		for _, w := range all {
			if !slices.Contains(strings.FieldsFunc(w.policy, func(r rune) bool { return r == ',' || r == ' ' }), word) {
				continue
			}
			for _, c := range w.calls {
				if !has[c] {
					t.Errorf("%s: %s in %s calls %s, which is not in the list", role, w.name, w.file, c)
				}
			}
		}
	}
}

func TestMatching_EachRule_IsFoundByItsCall(t *testing.T) {
	each(t, func(t *testing.T, role seccomp.Role, arch string) {
		rules := seccomp.Rules(role, arch)
		byName, _ := seccomp.Numbers(arch)
		calls, of := samples(role, arch)
		for i := range calls {
			found := false
			for _, n := range Matching(rules, byName, &calls[i]) {
				found = found || Text(&rules[n]) == Text(&of[i])
			}
			if !found {
				t.Errorf("%s is not found by %+v", Text(&of[i]), calls[i])
			}
		}
		if m := Matching(rules, byName, &Data{Nr: byName["execve"]}); len(m) != 0 {
			t.Errorf("execve matches %v", m)
		}
	})
}

func TestDocument_File_IsUpToDate(t *testing.T) {
	b, err := os.ReadFile("../../docs/policy.md")
	if err != nil || string(b) != Document() {
		t.Errorf("docs/policy.md differs from the lists (%v): run make policy", err)
	}
}
