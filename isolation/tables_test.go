// SPDX-License-Identifier: Apache-2.0

package isolation

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"passt/internal/sys"
	"passt/internal/sys/priv"
)

func TestLookupUser_EachForm_IdsOrError(t *testing.T) {
	for _, c := range []struct {
		spec     string
		uid, gid int
		ok       bool
	}{
		{"1000", 1000, 1000, true}, {"0", 0, 0, true}, {"1000:1001", 1000, 1001, true}, {"0x3e8:01750", 1000, 1000, true},
		{"root", 0, 0, true}, {"root:0x10", 0, 16, true}, {"7:root", 7, 0, true},
		{"", 0, 0, false}, {":", 0, 0, false}, {"1000:", 0, 0, false}, {":5", 0, 0, false}, {"nosuch-user", 0, 0, false},
		{"4294967295", 0, 0, false}, {"4294967296", 0, 0, false}, {"-1", 0, 0, false}, {"1_0", 0, 0, false},
		{"08", 0, 0, false}, {"1:2:3", 0, 0, false}, {"root:nosuch-group", 0, 0, false},
	} {
		uid, gid, err := LookupUser(c.spec)
		if (err == nil) != c.ok || c.ok && (uid != c.uid || gid != c.gid) {
			t.Errorf("%q: %d %d %v", c.spec, uid, gid, err)
		}
	}
}

func TestFindLine_ShortOrForeignLines_Skipped(t *testing.T) {
	const text = "alice\nalicex:x:1:1\n#c\nalice:x:5\nalice:x:6:7:::\n"
	if f, err := findLine(text, "alice", 4); err != nil || f[2] != "6" || f[3] != "7" {
		t.Errorf("%q %v", f, err)
	}
	for _, name := range []string{"", "bob", "alicex:x"} {
		if f, err := findLine(text, name, 1); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%q found as %q", name, f)
		}
	}
}

func FuzzParseID(f *testing.F) {
	for _, s := range []string{"0", "1000", "0x10", "010", "0b1", "0o7", "4294967295", "-1", "+1", "1_000", " 1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := parseID(s)
		if err == nil {
			if n < 0 || n >= 1<<32-1 || strings.Trim(s, "0123456789abcdefABCDEFxXoO") != "" {
				t.Errorf("%q gives %d", s, n)
			}
			if again, err := parseID(strconv.Itoa(n)); err != nil || again != n {
				t.Errorf("%d reads as %d, %v", n, again, err)
			}
		}
	})
}

func TestUserNSError_OtherNumbers_Unchanged(t *testing.T) {
	if err := userNSError(sys.EAGAIN); err != error(sys.Errno(sys.EAGAIN)) {
		t.Errorf("%v", err)
	}
	for _, e := range []sys.Errno{sys.ENOSPC, sys.EPERM, sys.EINVAL} {
		if err := userNSError(e); !errors.Is(err, ErrNoUserNS) || !errors.Is(err, e) {
			t.Errorf("%v", err)
		}
	}
}

func TestLandlockAttr_EachABI_OnlyKnownRights(t *testing.T) {
	all := landlockDeny{tcp: true, signals: true}
	for _, c := range []struct {
		abi    int
		errata uint
		want   priv.LandlockAttr
		size   uintptr
	}{
		{1, 0, priv.LandlockAttr{AccessFS: 0x1fff}, 8},
		{2, 0, priv.LandlockAttr{AccessFS: 0x3fff}, 8},
		{3, 0, priv.LandlockAttr{AccessFS: 0x7fff}, 8},
		{4, 0, priv.LandlockAttr{AccessFS: 0x7fff, AccessNet: 3}, 16},
		{5, 0, priv.LandlockAttr{AccessFS: 0xffff, AccessNet: 3}, 16},
		{6, 0, priv.LandlockAttr{AccessFS: 0xffff, AccessNet: 3, Scoped: 1}, 24},
		{7, 2, priv.LandlockAttr{AccessFS: 0xffff, AccessNet: 3, Scoped: 3}, 24},
		{99, 7, priv.LandlockAttr{AccessFS: 0xffff, AccessNet: 3, Scoped: 3}, 24},
	} {
		if got, size := landlockAttr(c.abi, c.errata, all); got != c.want || size != c.size {
			t.Errorf("ABI %d: %+v in %d bytes", c.abi, got, size)
		}
	}
	if got, _ := landlockAttr(7, 2, landlockDeny{}); got.AccessNet != 0 || got.Scoped != 1 {
		t.Errorf("supervisor: %+v", got)
	}
}

func TestCandidates_EachForm_InOrder(t *testing.T) {
	for _, c := range []struct {
		file, path string
		want       []string
	}{
		{"", "/bin", nil}, {"a/b", "/bin", []string{"a/b"}}, {"/a", "", []string{"/a"}},
		{"a", "/x:/y", []string{"/x/a", "/y/a"}}, {"a", ":/y:", []string{"./a", "/y/a", "./a"}},
		{"a", "", []string{"/bin/a", "/usr/bin/a"}},
	} {
		if got := candidates(c.file, c.path); !slices.Equal(got, c.want) {
			t.Errorf("%q in %q: %q", c.file, c.path, got)
		}
	}
}

func TestRaiseNOFILE_Always_SoftIsHard(t *testing.T) {
	soft := RaiseNOFILE()
	got, hard, e := priv.Getrlimit(priv.LimitNofile)
	if e != 0 || soft != hard || got != hard {
		t.Errorf("returned %d, soft %d, hard %d, %v", soft, got, hard, e)
	}
}
