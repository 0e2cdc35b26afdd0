// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"bufio"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// graph says which of our packages each one may import, and nothing else of ours. A change here is a change of the architecture.
const graph = `
internal/sys:
internal/sys/priv: internal/sys
internal/logx: internal/sys
seccomp: internal/sys
seccomp/audit: seccomp internal/sys
dataplane/wire:
dataplane/fwd: dataplane/wire
ipc: internal/sys dataplane/fwd dataplane/wire
dataplane/link: dataplane/wire internal/sys
dataplane/flow: dataplane/wire dataplane/fwd dataplane/link internal/sys
dataplane/local: dataplane/flow dataplane/fwd dataplane/wire dataplane/link internal/sys
dataplane/tcp: dataplane/flow dataplane/fwd dataplane/link dataplane/wire internal/sys
dataplane/udp: dataplane/flow dataplane/fwd dataplane/link dataplane/wire internal/sys
dataplane/icmp: dataplane/flow dataplane/fwd dataplane/link dataplane/wire dataplane/udp internal/sys
dataplane/splice: dataplane/flow dataplane/fwd dataplane/wire internal/sys
dataplane: dataplane/flow dataplane/fwd dataplane/icmp dataplane/link dataplane/local dataplane/splice dataplane/tcp dataplane/udp dataplane/wire internal/sys
worker: dataplane dataplane/flow dataplane/fwd dataplane/link dataplane/local dataplane/wire internal/sys ipc
isolation: internal/sys internal/sys/priv
supervisor/broker: dataplane/fwd dataplane/wire internal/sys ipc
supervisor/host: dataplane/wire internal/sys internal/sys/priv
supervisor/conf: dataplane/fwd dataplane/wire ipc supervisor/host
supervisor/agent: dataplane/fwd dataplane/wire internal/logx internal/sys internal/sys/priv ipc supervisor/broker supervisor/host
supervisor: dataplane/fwd dataplane/link internal/logx internal/sys internal/sys/priv ipc isolation supervisor/agent supervisor/broker supervisor/conf
cmd/passt: internal/sys isolation seccomp supervisor supervisor/agent supervisor/conf worker
`

// forbidden lists standard packages that may not appear in the worker's own code.
var forbidden = []string{"net", "os", "os/exec", "time", "net/http", "reflect"}

const root = "../.."

type file struct {
	path, pkg string
	imports   []string
	test      bool
}

// sources parses every Go file of ours outside of test/ and nested modules.
func sources(t *testing.T) []file {
	t.Helper()
	var out []file
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, p)
		if d.IsDir() {
			if rel == "test" || rel == "docs" || strings.HasPrefix(rel, ".git") || rel == "seccomp/gen" || d.Name() == "testdata" {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(p, ".go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		x := file{path: rel, pkg: filepath.Dir(rel), test: strings.HasSuffix(p, "_test.go")}
		for _, i := range f.Imports {
			s, _ := strconv.Unquote(i.Path.Value)
			x.imports = append(x.imports, s)
		}
		out = append(out, x)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 50 {
		t.Fatalf("only %d files found", len(out))
	}
	return out
}

func TestImports_EveryPackage_KeepsToTheGraph(t *testing.T) {
	allowed := map[string][]string{}
	for _, l := range strings.Split(strings.TrimSpace(graph), "\n") {
		pkg, deps, _ := strings.Cut(l, ":")
		allowed[pkg] = strings.Fields(deps)
	}
	for _, f := range sources(t) {
		deps, ok := allowed[f.pkg]
		if !ok {
			t.Errorf("%s: package %s is not in the graph", f.path, f.pkg)
			continue
		}
		if f.test {
			continue
		}
		for _, i := range f.imports {
			if ours, is := strings.CutPrefix(i, "passt/"); is && !slices.Contains(deps, ours) {
				t.Errorf("%s imports %s: not in the graph", f.path, i)
			}
		}
	}
}

func TestImports_WorkerCode_StaysSmall(t *testing.T) {
	for _, f := range sources(t) {
		if f.test || f.pkg != "worker" && !strings.HasPrefix(f.pkg, "dataplane") {
			continue
		}
		for _, i := range f.imports {
			if slices.Contains(forbidden, i) || strings.Contains(i, ".") {
				t.Errorf("%s imports %s", f.path, i)
			}
		}
	}
}

func TestUnsafe_OnlyInSys(t *testing.T) {
	for _, f := range sources(t) {
		if f.test || strings.HasPrefix(f.pkg, "internal/sys") {
			continue
		}
		for _, i := range f.imports {
			if i == "unsafe" || (i == "syscall" || strings.HasPrefix(i, "golang.org/x/sys")) && f.pkg != "seccomp" {
				t.Errorf("%s imports %s", f.path, i)
			}
		}
	}
}

func TestFiles_LicenceFirstAndNotTooLong(t *testing.T) {
	for _, f := range sources(t) {
		b, err := os.ReadFile(filepath.Join(root, f.path))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(b), "// SPDX-License-Identifier: Apache-2.0\n") {
			t.Errorf("%s: no licence line first", f.path)
		}
		if n := strings.Count(string(b), "\n"); n > 400 && !f.test {
			t.Errorf("%s: %d lines, at most 400", f.path, n)
		}
	}
}

// trustedTarget is the size of what must be trusted after the lock-down, in lines of code without comments and blanks.
const trustedTarget = 2250

// What runs before the lock-down (conf, host) is counted apart.
func TestTrustedBase_Size_IsPrinted(t *testing.T) {
	sum := map[string]int{}
	total, before := 0, 0
	for _, f := range sources(t) {
		if f.test {
			continue
		}
		top, _, _ := strings.Cut(f.pkg, "/")
		switch {
		case f.pkg == "seccomp/audit": // tests, the generator and text for auditors: not in the program
		case f.pkg == "supervisor/conf" || f.pkg == "supervisor/host":
			before += codeLines(t, f.path)
		case top == "supervisor" || top == "isolation" || top == "ipc" || top == "seccomp":
			n := codeLines(t, f.path)
			sum[f.pkg] += n
			total += n
		}
	}
	t.Logf("trusted base: %d lines of code, target %d: %v; before the lock-down besides: %d", total, trustedTarget, sum, before)
	if total > 2*trustedTarget {
		t.Errorf("trusted base has %d lines, twice the target of %d", total, trustedTarget)
	}
}

func codeLines(t *testing.T, path string) int {
	t.Helper()
	f, err := os.Open(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n := 0
	for s := bufio.NewScanner(f); s.Scan(); {
		if l := strings.TrimSpace(s.Text()); l != "" && !strings.HasPrefix(l, "//") {
			n++
		}
	}
	return n
}
