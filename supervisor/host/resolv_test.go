// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func (r Resolv) text() string { return fmt.Sprint(r.Servers4, r.Servers6, r.Search) }

func TestParseResolv_LikeTheLibrary(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"empty":             {"", "[] [] []"},
		"plain":             {"nameserver 192.0.2.1\nnameserver 2001:db8::1\n", "[192.0.2.1] [2001:db8::1] []"},
		"tab, no newline":   {"nameserver\t192.0.2.1", "[192.0.2.1] [] []"},
		"blanks behind":     {"nameserver  192.0.2.1 \t \n", "[192.0.2.1] [] []"},
		"CRLF":              {"nameserver 192.0.2.1\r\nsearch a.example b.example\r\n", "[192.0.2.1] [] [a.example b.example]"},
		"comments":          {"# nameserver 192.0.2.9\n; x\nnameserver 192.0.2.1 # one\nnameserver 192.0.2.2;two\n", "[192.0.2.1 192.0.2.2] [] []"},
		"comment at once":   {"#nameserver 192.0.2.9\nnameserver#192.0.2.1\n", "[] [] []"},
		"scope":             {"nameserver fe80::1%eth0\n", "[] [fe80::1] []"},
		"indented":          {" nameserver 192.0.2.1\n\tnameserver 192.0.2.2\n", "[] [] []"},
		"glued":             {"nameserver192.0.2.1\nnameservers 192.0.2.2\n", "[] [] []"},
		"mapped":            {"nameserver ::ffff:192.0.2.1\n", "[192.0.2.1] [] []"},
		"no address":        {"nameserver dns.example\nnameserver 192.0.2\nnameserver\nnameserver 192.0.2.1\n", "[192.0.2.1] [] []"},
		"last search":       {"search a.example\nsearch b.example c.example\n", "[] [] [b.example c.example]"},
		"domain":            {"domain a.example b.example\n", "[] [] [a.example]"},
		"search and domain": {"search a.example\ndomain b.example\n", "[] [] [b.example]"},
		"domain and search": {"domain b.example\nsearch\ta.example\n", "[] [] [a.example]"},
		"strange names":     {"search a\x01b ok.example caf\xc3\xa9.example " + strings.Repeat("x", 254) + "\n", "[] [] [ok.example]"},
		"options":           {"options ndots:5 edns0\nsortlist 192.0.2.0\nnameserver 192.0.2.1\n", "[192.0.2.1] [] []"},
	} {
		if got := ParseResolv([]byte(c.in)).text(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestReadResolv_Bounded is field bug B088.
func TestReadResolv_Bounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "resolv.conf")
	for _, n := range []int{0, 1, 3, 16, 200, 20000} {
		text := strings.Repeat("nameserver 192.0.2.1\n", n) + "search " + strings.Repeat("a.example ", 400) + "\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := ReadResolv(path)
		if err != nil || len(r.Servers4) != min(n, maxServers) || n < 20000 && len(r.Search) != maxSearch {
			t.Errorf("%d lines: %d servers, %d names, %v", n, len(r.Servers4), len(r.Search), err)
		}
	}
	if _, err := ReadResolv(path + ".not"); err == nil {
		t.Error("missing file: no error")
	}
	// The limit cuts inside of a line: 192.0.2.10 must not become 192.0.2.1.
	text := strings.Repeat("#", maxResolv-len("nameserver 192.0.2.1")-1) + "\nnameserver 192.0.2.10\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := ReadResolv(path); err != nil || len(r.Servers4) != 0 {
		t.Errorf("cut line: %v %v", r, err)
	}
}

func TestParseRange_Defaults(t *testing.T) {
	for in, want := range map[string][2]uint16{"32768\t60999\n": {32768, 60999}, "": {49152, 65535}, "9 8": {49152, 65535}, "0 1": {49152, 65535}, "1 70000": {49152, 65535}, "1 2 3": {49152, 65535}} {
		if lo, hi := parseRange(in); lo != want[0] || hi != want[1] {
			t.Errorf("%q: %d %d", in, lo, hi)
		}
	}
	if v, ok := Sysctl("net/ipv4/tcp_syn_retries"); !ok || v < 1 {
		t.Errorf("tcp_syn_retries %d %v", v, ok)
	}
	if _, ok := Sysctl("net/ipv4/no_such_thing"); ok {
		t.Error("a setting that does not exist was read")
	}
}

func FuzzResolv(f *testing.F) {
	f.Add([]byte("nameserver\t192.0.2.1 # x\r\nnameserver fe80::1%eth0\nsearch a.example b.example\ndomain c.example"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := ParseResolv(b)
		if len(r.Servers4) > maxServers || len(r.Servers6) > maxServers || len(r.Search) > maxSearch {
			t.Fatalf("too many: %v", r)
		}
		var again strings.Builder
		for _, s := range r.Servers4 {
			if !s.Is4() {
				t.Fatalf("%s is not IPv4", s)
			}
			fmt.Fprintf(&again, "nameserver %s\n", s)
		}
		for _, s := range r.Servers6 {
			if s.Is4() {
				t.Fatalf("%s is not IPv6", s)
			}
			fmt.Fprintf(&again, "nameserver %s\n", netip.AddrFrom16(s))
		}
		for _, s := range r.Search {
			if s == "" || len(s) > maxDomain || strings.ContainsAny(s, " \t\r\n\x00#;") {
				t.Fatalf("name %q", s)
			}
		}
		if len(r.Search) > 0 {
			fmt.Fprintf(&again, "search %s", strings.Join(r.Search, " "))
		}
		if got := ParseResolv([]byte(again.String())); got.text() != r.text() {
			t.Fatalf("%s written and read again is %s", r.text(), got.text())
		}
	})
}
