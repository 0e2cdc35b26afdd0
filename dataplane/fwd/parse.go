// SPDX-License-Identifier: Apache-2.0

package fwd

import (
	"errors"
	"net/netip"
	"strings"

	"passt/dataplane/wire"
)

// The grammar of a port specification (spec forwarding 1). This file only reads words; parse_rules.go says what they mean.
//
//	spec   = "none" / [ listen "/" ] ports
//	listen = [ addr / "*" ] [ "%" ifname ]
//	ports  = chunk *( "," chunk )
//	chunk  = "all" [ ":" addr ] / "auto" / "~" range / range [ ":" target ]
//	target = addr "/" range / addr / range

// portRange is first-last, both included.
type portRange struct{ first, last uint16 }

func (r portRange) size() int { return int(r.last) - int(r.first) + 1 }

// listenPart is what stands before the slash.
type listenPart struct {
	given bool // there was a slash, even behind nothing
	wild  bool // no address, or "*"
	addr  wire.Addr
	ifn   IfName
}

// include is one range of ports with where they go.
type include struct {
	from   portRange
	to     portRange
	target wire.Addr // zero: none
}

// portSpec is a specification as written.
type portSpec struct {
	none     bool
	listen   listenPart
	ports    string // text behind the listen part, for messages
	all      bool
	auto     bool
	target   wire.Addr // of "all:ADDR"
	excludes []portRange
	includes []include
}

var errTwoTargets = errors.New("'all' given with two different target addresses")

// readSpec reads the whole text.
//
//	errors: "Invalid port specifier 'PORTS'" with the text behind the listen part
func readSpec(text string) (*portSpec, error) {
	s := &portSpec{ports: text, none: text == "none"}
	if s.none {
		return s, nil
	}
	s.listen.wild = true
	if before, after, ok := strings.Cut(text, "/"); ok && !looksLikePort(before) {
		if l, ok := readListen(before); ok {
			s.listen, s.ports = l, after
		}
	}
	for chunk := range strings.SplitSeq(s.ports, ",") {
		switch ok, err := s.readChunk(chunk); {
		case err != nil:
			return nil, err
		case !ok:
			return nil, errors.New("Invalid port specifier '" + s.ports + "'")
		}
	}
	return s, nil
}

// looksLikePort decides between the two readings of "22:fd00::9/80": it is a port with a target where the whole is an
// address that no interface can have (outside of the assigned unicast and multicast blocks, RFC 4291, IANA's registry)
// and the rest behind the port is one that it can have.
func looksLikePort(text string) bool {
	port, rest, ok := strings.Cut(text, ":")
	if _, isPort := readPort(port); !ok || !isPort {
		return false
	}
	whole, ok := readAddr(text)
	if !ok || whole[0]&0xe0 == 0x20 || whole[0] >= 0xfc {
		return false
	}
	target, ok := readAddr(rest)
	return ok && !target.IsMulticast()
}

func readListen(text string) (l listenPart, ok bool) {
	addr, ifn, hasIf := strings.Cut(text, "%")
	if hasIf {
		if l.ifn, ok = readIfName(ifn); !ok {
			return l, false
		}
	}
	l.given = true
	if l.wild = addr == "" || addr == "*"; l.wild {
		return l, true
	}
	l.addr, ok = readAddr(addr)
	return l, ok
}

// readIfName takes 1 to 15 bytes without "/" and white space, as the kernel does (dev_valid_name).
func readIfName(s string) (IfName, bool) {
	if s == "" || s == "." || s == ".." || strings.ContainsAny(s, "/ \t\n\v\f\r\x00") {
		return IfName{}, false
	}
	return MakeIfName(s)
}

// readAddr reads an IPv4 or IPv6 address, bracketed or not; ::ffff:a.b.c.d is IPv4.
func readAddr(s string) (wire.Addr, bool) {
	if n := len(s); n > 1 && s[0] == '[' && s[n-1] == ']' {
		s = s[1 : n-1]
	}
	a, err := netip.ParseAddr(s)
	if err != nil || a.Zone() != "" {
		return wire.Addr{}, false
	}
	return wire.FromNetip(a), true
}

func (s *portSpec) readChunk(text string) (ok bool, err error) {
	switch {
	case text == "auto":
		s.auto = true
		return true, nil
	case text == "all", strings.HasPrefix(text, "all:"):
		var target wire.Addr
		if addr, has := strings.CutPrefix(text, "all:"); has {
			if target, ok = readAddr(addr); !ok {
				return false, nil
			}
		}
		if s.all && target != s.target {
			return false, errTwoTargets
		}
		s.all, s.target = true, target
		return true, nil
	case strings.HasPrefix(text, "~"):
		r, ok := readRange(text[1:])
		s.excludes = append(s.excludes, r)
		return ok, nil
	}
	i, ok, err := readInclude(text)
	s.includes = append(s.includes, i)
	return ok, err
}

// readInclude reads range [ ":" target ]; an address is tried before a bare range.
func readInclude(text string) (i include, ok bool, err error) {
	from, target, hasTarget := strings.Cut(text, ":")
	if i.from, ok = readRange(from); !ok {
		return i, false, nil
	}
	i.to = i.from
	if hasTarget {
		addr, ports, hasPorts := strings.Cut(target, "/")
		if i.target, ok = readAddr(addr); ok && !hasPorts {
			return i, true, i.check(text)
		}
		if hasPorts && !ok {
			return i, false, nil
		}
		if !hasPorts {
			ports = target
		}
		if i.to, ok = readRange(ports); !ok {
			return i, false, nil
		}
	}
	return i, true, i.check(text)
}

// check refuses what reads well and cannot work.
func (i *include) check(text string) error {
	switch {
	case i.from.size() != i.to.size():
		return errors.New("'" + text + "' maps " + rangeText(i.from.first, i.from.last) + " to a range of another length, " +
			rangeText(i.to.first, i.to.last))
	case i.from.first == 0 || i.to.first == 0:
		return errors.New("'" + text + "' maps from/to port 0")
	}
	return nil
}

// readRange reads port [ "-" port ].
func readRange(text string) (r portRange, ok bool) {
	first, last, two := strings.Cut(text, "-")
	if r.first, ok = readPort(first); !ok {
		return r, false
	}
	r.last = r.first
	if two {
		r.last, ok = readPort(last)
	}
	return r, ok && r.first <= r.last
}

// readPort reads a decimal number up to 65535; leading blanks and one plus sign are taken, as strtoul(3) takes them.
func readPort(text string) (uint16, bool) {
	text = strings.TrimPrefix(strings.TrimLeft(text, " \t\n\v\f\r"), "+")
	if text == "" {
		return 0, false
	}
	n := uint32(0)
	for _, c := range []byte(text) {
		if c < '0' || c > '9' {
			return 0, false
		}
		if n = n*10 + uint32(c-'0'); n > 65535 {
			return 0, false
		}
	}
	return uint16(n), true
}
