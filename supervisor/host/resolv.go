// SPDX-License-Identifier: Apache-2.0

package host

import (
	"bytes"
	"io"
	"net/netip"
	"os"
	"strings"

	"passt/dataplane/wire"
)

const (
	// maxResolv bounds what is read of resolv.conf, bytes: hundreds of times what the resolver library uses.
	maxResolv = 64 << 10
	// maxServers and maxSearch bound the lists; users of them take 3 of a family and 6 (spec addressing 6.1).
	maxServers = 16
	maxSearch  = 16
	// maxDomain is the longest name (RFC 1035 s.2.3.4, without the root's dot).
	maxDomain = 253
)

// Resolv is what resolv.conf(5) says, in its order.
type Resolv struct {
	Servers4, Servers6 []wire.Addr // without scopes; at most 16 each
	Search             []string    // at most 16
}

// ReadResolv reads at most 64 KiB of a file; a line that does not fit is left out.
func ReadResolv(path string) (Resolv, error) {
	f, err := os.Open(path)
	if err != nil {
		return Resolv{}, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxResolv+1))
	if len(b) > maxResolv {
		b = b[:bytes.LastIndexByte(b[:maxResolv], '\n')+1]
	}
	return ParseResolv(b), err
}

// ParseResolv reads like the resolver library: keywords at the start of a line, blanks and tabs, comments, CRLF, no newline
// at the end, the last of search and domain counts. What cannot be read is left out.
func ParseResolv(b []byte) Resolv {
	var r Resolv
	for line := range bytes.Lines(b) {
		if i := bytes.IndexAny(line, "#;"); i >= 0 {
			line = line[:i]
		}
		if len(line) == 0 || line[0] <= ' ' {
			continue
		}
		f := strings.Fields(string(line))
		if len(f) < 2 {
			continue
		}
		switch f[0] {
		case "nameserver":
			r.server(f[1])
		case "search":
			r.Search = domains(f[1:])
		case "domain":
			r.Search = domains(f[1:2])
		}
	}
	return r
}

func (r *Resolv) server(text string) {
	host, _, _ := strings.Cut(text, "%")
	a, err := netip.ParseAddr(host)
	if err != nil {
		return
	}
	x, list := wire.FromNetip(a), &r.Servers6
	if x.Is4() {
		list = &r.Servers4
	}
	if len(*list) < maxServers {
		*list = append(*list, x)
	}
}

// domains keeps what can be a name: printable ASCII, not too long.
func domains(words []string) []string {
	var out []string
	for _, w := range words {
		ok := len(w) <= maxDomain && len(out) < maxSearch
		for i := 0; ok && i < len(w); i++ {
			ok = w[i] > ' ' && w[i] < 0x7f
		}
		if ok {
			out = append(out, w)
		}
	}
	return out
}
