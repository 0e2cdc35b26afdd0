// SPDX-License-Identifier: Apache-2.0

package fwd

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"passt/dataplane/wire"
)

// both is a host-side TCP specification of pasta with both families and the kernel's default ephemeral ports.
func both() *SpecParams {
	return &SpecParams{Proto: ProtoTCP, V4: true, V6: true, ScanOK: true, EphemeralLo: 32768, EphemeralHi: 60999}
}

func only4() *SpecParams { p := both(); p.V6 = false; return p }
func only6() *SpecParams { p := both(); p.V4 = false; return p }

func inNs() *SpecParams { p := both(); p.Ns = true; return p }

func lines(rs []Rule) string {
	var out []string
	for i := range rs {
		out = append(out, rs[i].String())
	}
	return strings.Join(out, "\n")
}

func TestParseSpec_Accepted_GivesTheseRules(t *testing.T) {
	for _, c := range []struct {
		p    *SpecParams
		spec string
		want string
	}{
		{both(), "none", ""},
		{both(), "2000", "TCP [*]:2000  =>  2000 "},
		{only4(), "2000", "TCP [0.0.0.0]:2000  =>  2000 "},
		{only6(), "2000", "TCP [::]:2000  =>  2000 "},
		{both(), "+2000", "TCP [*]:2000  =>  2000 "},
		{both(), "0.0.0.0/2000", "TCP [0.0.0.0]:2000  =>  2000 "},
		{both(), "::/2000", "TCP [::]:2000  =>  2000 "},
		{both(), "*/2000", "TCP [*]:2000  =>  2000 "},
		{both(), "/2000", "TCP [*]:2000  =>  2000 "},
		{both(), "%lo/2000", "TCP [*]%lo:2000  =>  2000 "},
		{both(), "*%lo/2000", "TCP [*]%lo:2000  =>  2000 "},
		{both(), "[127.0.0.1]/2000", "TCP [127.0.0.1]:2000  =>  2000 "},
		{both(), "::1/2000", "TCP [::1]:2000  =>  2000 "},
		{both(), "[::1]/2000", "TCP [::1]:2000  =>  2000 "},
		{both(), "::ffff:127.0.0.1/2000", "TCP [127.0.0.1]:2000  =>  2000 "},
		{both(), "192.0.2.1%eth0/22", "TCP [192.0.2.1]%eth0:22  =>  22 "},
		{both(), "%123456789012345/22", "TCP [*]%123456789012345:22  =>  22 "},
		{both(), "22:23", "TCP [*]:22  =>  23 "},
		{both(), "22-80:32-90", "TCP [*]:22-80  =>  32-90 "},
		{both(), "5-25,~10-20", "TCP [*]:5-9  =>  5-9 \nTCP [*]:21-25  =>  21-25 "},
		{both(), "~10-20,5-25", "TCP [*]:5-9  =>  5-9 \nTCP [*]:21-25  =>  21-25 "},
		{both(), "2000-2010:3000-3010,~2005", "TCP [*]:2000-2004  =>  3000-3004 \nTCP [*]:2006-2010  =>  3006-3010 "},
		{both(), "2000-2010,~2000-2010", ""},
		{both(), "65535,1", "TCP [*]:65535  =>  65535 \nTCP [*]:1  =>  1 "},
		{both(), "40000", "TCP [*]:40000  =>  40000 "},
		{both(), "all", "TCP [*]:1-32767  =>  1-32767  (best effort)\nTCP [*]:61000-65535  =>  61000-65535  (best effort)"},
		{both(), "all,all", "TCP [*]:1-32767  =>  1-32767  (best effort)\nTCP [*]:61000-65535  =>  61000-65535  (best effort)"},
		{both(), "auto", "TCP [*]:1-32767  =>  1-32767  (best effort) (auto-scan)\nTCP [*]:61000-65535  =>  61000-65535  (best effort) (auto-scan)"},
		{both(), "~20000-20010", "TCP [*]:1-19999  =>  1-19999  (best effort)\nTCP [*]:20011-32767  =>  20011-32767  (best effort)\nTCP [*]:61000-65535  =>  61000-65535  (best effort)"},
		{both(), "80-82,auto", "TCP [*]:80-82  =>  80-82  (auto-scan)"},
		{both(), "3000:4000,auto", "TCP [*]:3000  =>  4000  (auto-scan)"},
		{both(), "0.0.0.0/2000-2001:192.0.2.5/6000-6001", "TCP [0.0.0.0]:2000-2001  =>  192.0.2.5:6000-6001 "},
		{both(), "::/2000:2001:db8::5/6000", "TCP [::]:2000  =>  [2001:db8::5]:6000 "},
		{both(), "::/2000:[2001:db8::5]/6000", "TCP [::]:2000  =>  [2001:db8::5]:6000 "},
		{both(), "127.0.0.6/all:192.0.2.6", "TCP [127.0.0.6]:1-32767  =>  192.0.2.6:1-32767  (best effort)\nTCP [127.0.0.6]:61000-65535  =>  192.0.2.6:61000-65535  (best effort)"},
		{only4(), "2000:192.0.2.5/6000", "TCP [0.0.0.0]:2000  =>  192.0.2.5:6000 "},
		{only4(), "22:192.0.2.5,23", "TCP [0.0.0.0]:22  =>  192.0.2.5:22 \nTCP [0.0.0.0]:23  =>  23 "},
		{only6(), "22:fd00::9/80", "TCP [::]:22  =>  [fd00::9]:80 "},
		{only6(), "8080:[fd00::9]/80", "TCP [::]:8080  =>  [fd00::9]:80 "},
		{both(), "fd00::9/80", "TCP [fd00::9]:80  =>  80 "},
		{both(), "2001:db8::9/80", "TCP [2001:db8::9]:80  =>  80 "},
		{both(), "2000:0.0.0.0/3000", "TCP [*]:2000  =>  3000 "},
		{both(), "2000:::/3000", "TCP [*]:2000  =>  3000 "},
		{both(), "::1/all", "TCP [::1]:1-32767  =>  1-32767  (best effort)\nTCP [::1]:61000-65535  =>  61000-65535  (best effort)"},
		{both(), "224.0.0.251/5353", "TCP [224.0.0.251]:5353  =>  5353 "},
		{inNs(), "7010:7011", "TCP [*]%lo:7010  =>  7011 "},
	} {
		rs, err := ParseSpec(c.p, c.spec)
		if err != nil {
			t.Errorf("%q: %v", c.spec, err)
		} else if got := lines(rs); got != c.want {
			t.Errorf("%q:\n%s\nwant\n%s", c.spec, got, c.want)
		}
	}
}

func TestParseSpec_NamespaceWithoutDeviceBinding_TwoLoopbackRules(t *testing.T) {
	p := inNs()
	p.NoBindDevice = true
	rs, err := ParseSpec(p, "7010:7011")
	if want := "TCP [127.0.0.1]:7010  =>  7011 \nTCP [::1]:7010  =>  7011 "; err != nil || lines(rs) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, lines(rs), want)
	}
	p.V4 = false
	if rs, _ := ParseSpec(p, "7010"); lines(rs) != "TCP [::1]:7010  =>  7010 " {
		t.Errorf("IPv6 only: %s", lines(rs))
	}
}

func TestParseSpec_Refused_NamesTheReason(t *testing.T) {
	passt := both()
	passt.ScanOK = false
	noDev := both()
	noDev.NoBindDevice = true
	invalid := "Invalid port specifier '"
	for _, c := range []struct {
		p    *SpecParams
		spec string
		want string // part of the message
	}{
		{both(), "", invalid + "'"}, {both(), "foo", invalid + "foo'"}, {both(), "22a", invalid + "22a'"},
		{both(), "2000,", invalid + "2000,'"}, {both(), ",2000", invalid}, {both(), "2000,,2001", invalid},
		{both(), "1-0", invalid}, {both(), "80000", invalid}, {both(), "4294967318", invalid}, {both(), "0", "port 0"}, {both(), "2000:0", "port 0"},
		{both(), "0-5:1-6", "port 0"}, {both(), "2000-2001:3000", "another length"}, {both(), "2000:3000-3001", "another length"},
		{both(), "2000-2001:65535", "another length"}, {both(), "2000-2001:65535-65536", invalid}, {both(), "2000:2000:2000", invalid},
		{both(), "-2000", invalid}, {both(), "2000,none", invalid}, {both(), "none,2000", invalid}, {both(), "allx", invalid}, {both(), "All", invalid},
		{both(), "127.0.0.1/", invalid + "'"}, {both(), "127.0.0.1/22a", invalid + "22a'"}, {both(), "127.0.0.1/none", invalid + "none'"},
		{both(), "%./2000", invalid}, {both(), "%../2000", invalid}, {both(), "%/2000", invalid}, {both(), "%a b/2000", invalid},
		{both(), "%1234567890123456/2000", invalid}, {both(), "nohost/22", invalid}, {both(), "[::1/22", invalid}, {both(), "~", invalid}, {both(), "~5-", invalid},
		{both(), "0.0.0.0/2000:224.0.0.1/2000", "not unicast"}, {both(), "0.0.0.0/2000:255.255.255.255/80", "not unicast"}, {both(), "::/80:ff02::1/80", "not unicast"},
		{both(), "0.0.0.0/2000:[::1]/2000", "not of the family"}, {both(), "2000:192.0.2.5/6000", "put 0.0.0.0/ before"}, {both(), "2000:[fd00::9]/6000", "put [::]/ before"},
		{both(), "all:fd00::9,all", "two different"}, {both(), "all:x", invalid}, {both(), "all,2000", "'all' together"}, {both(), "2000,all:192.0.2.1", "'all' together"},
		{only4(), "::1/2000", "family that is off"}, {only6(), "127.0.0.1/2000", "family that is off"}, {only4(), "2000:[::1]/80", "not of the family"},
		{passt, "auto", "pasta only"}, {passt, "80,auto", "pasta only"}, {noDev, "%lo/2000", "cannot bind to interface lo"},
		{inNs(), "127.0.0.1/2000", "no listening address"}, {inNs(), "/2000", "no listening address"}, {inNs(), "%lo/2000", "no listening address"},
		{inNs(), "2000:10.0.0.1/80", "not possible"}, {both(), "2000 ", invalid}, {both(), "%lo/2000:fe80::1%eth0/80", invalid},
	} {
		rs, err := ParseSpec(c.p, c.spec)
		if err == nil {
			t.Errorf("%q: accepted: %s", c.spec, lines(rs))
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %q lacks %q", c.spec, err, c.want)
		}
	}
}

// spec writes one rule back in the grammar; best effort cannot be said for named ports.
func (r *Rule) spec() string {
	listen := "*"
	if r.Flags&RuleDual == 0 {
		listen = "[" + addrText(&r.Addr) + "]"
	}
	if r.If != (IfName{}) {
		listen += "%" + r.If.String()
	}
	target := rangeText(r.To, r.Map(r.Last))
	if !r.Target.IsZero() {
		target = "[" + addrText(&r.Target) + "]/" + target
	}
	s := listen + "/" + rangeText(r.First, r.Last) + ":" + target
	if r.Flags&RuleScan != 0 {
		s += ",auto"
	}
	return s
}

// FuzzParseSpec: no panic; rules are in order of the grammar's limits; each one written back reads as itself, and its
// display format says the same.
func FuzzParseSpec(f *testing.F) {
	for _, s := range []string{"none", "auto", "all", "~25", "22:23", "22-80:32-90", "5-25,~10-20", "192.0.2.1%eth0/22", "%eth0/22", "::1/all",
		"22:10.0.0.1,23", "80-82,auto", "::/2000:2001:db8::5/6000", "[::1]/2000", "22:fd00::9/80", "0.0.0.0/2000:[::1]/2000", "*%lo/+1-65535,~0", "all:192.0.2.6,auto"} {
		f.Add(s, uint8(3))
	}
	f.Fuzz(func(t *testing.T, spec string, bits uint8) {
		p := both()
		p.V4, p.V6, p.Ns, p.NoBindDevice, p.ScanOK = bits&1 != 0, bits&2 != 0, bits&4 != 0, bits&8 != 0, bits&16 == 0
		if !p.V4 && !p.V6 {
			return
		}
		rs, err := ParseSpec(p, spec)
		if err != nil {
			if rs != nil || err.Error() == "" {
				t.Fatalf("%q: rules beside an error, or no text: %v", spec, err)
			}
			return
		}
		for i := range rs {
			r := &rs[i]
			if r.First == 0 || r.Last < r.First || r.To == 0 || int(r.To)+int(r.Last-r.First) > 65535 {
				t.Fatalf("%q: ports out of range: %s", spec, r)
			}
			if r.Flags&RuleDual != 0 && (!p.V4 || !p.V6 || !r.Addr.IsZero()) || r.Target.IsMulticast() {
				t.Fatalf("%q: impossible rule %s", spec, r)
			}
			if p.Ns && r.If.String() != "lo" && !r.Addr.IsLoopback() {
				t.Fatalf("%q: namespace listener off the loopback: %s", spec, r)
			}
			if !p.Ns {
				back, err := ParseSpec(p, r.spec())
				want := *r
				want.Flags &^= RuleBestEffort
				if err != nil || len(back) != 1 || back[0] != want {
					t.Fatalf("%q: rule %s written as %q reads as %s (%v)", spec, r, r.spec(), lines(back), err)
				}
			}
			if s := r.String(); !strings.HasPrefix(s, "TCP [") || !strings.Contains(s, ":"+rangeText(r.First, r.Last)+"  =>  ") {
				t.Fatalf("%q: display %q", spec, s)
			}
			if !r.Conflicts(r) {
				t.Fatalf("%q: %s does not conflict with itself", spec, r)
			}
		}
	})
}

func TestAddSpec_SpecsInOrder_ConflictOrNot(t *testing.T) {
	for _, c := range []struct {
		specs string // "t" TCP or "u" UDP in front of each
		want  string // part of the message, empty: accepted
		rules int
	}{
		{"t2000 tnone", "'none' conflicts", 0}, {"tnone t2000", "", 1}, {"u2000 tnone", "", 1}, {"tnone tnone", "", 0},
		{"t2000 t2000", "conflict", 0}, {"t2000 t127.0.0.1/2000", "conflict", 0}, {"tauto t3000", "conflict", 0}, {"tauto,~3000 t3000", "", 4},
		{"t0.0.0.0/2000 t127.0.0.1/2000", "conflict", 0}, {"t::/2000 t::1/2000", "conflict", 0}, {"t127.0.0.1/2000 t0.0.0.0/2000", "conflict", 0},
		{"t127.0.0.1/2000 t::1/2000 u2000", "", 3}, {"t127.0.0.1%lo/2000 t127.0.0.1%eth0/2000", "", 2}, {"t127.0.0.1%lo/2000 t127.0.0.1/2000", "conflict", 0},
		{"t%lo/2000 t%eth0/2000", "", 2}, {"t0.0.0.0/2000 t::/2000", "", 2}, {"t::/2000 t2000", "conflict", 0}, {"t2000,2000", "conflict", 0},
		{"t2000-2010,2005", "conflict", 0}, {"t2000 t2001", "", 2},
	} {
		var table []Rule
		var err error
		for _, s := range strings.Fields(c.specs) {
			p := both()
			if s[0] == 'u' {
				p.Proto = ProtoUDP
			}
			if table, err = AddSpec(table, p, s[1:]); err != nil {
				break
			}
		}
		switch {
		case c.want == "" && (err != nil || len(table) != c.rules):
			t.Errorf("%s: %v, %d rules: %s", c.specs, err, len(table), lines(table))
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", c.specs, err, c.want)
		}
	}
}

func TestAddRule_Conflict_NamesBothRules(t *testing.T) {
	table, err := AddSpec(nil, both(), "2000-2010")
	if err != nil {
		t.Fatal(err)
	}
	_, err = AddSpec(table, both(), "127.0.0.1/2005:22")
	want := "Forwarding conflict with TCP [*]:2000-2010  =>  2000-2010 : Unable to add rule TCP [127.0.0.1]:2005  =>  22 "
	if err == nil || err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
}

func TestAddRule_LimitsPassed_Refused(t *testing.T) {
	var table []Rule
	var err error
	for i := range MaxRules {
		if table, err = AddSpec(table, both(), strconv.Itoa(i+1)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err = AddSpec(table, both(), "300"); err == nil || !strings.Contains(err.Error(), "Too many rules") {
		t.Errorf("rule 256: %v", err)
	}
	table = nil
	for i := range 6 {
		r := Rule{Addr: wire.Addr4(127, 0, 0, byte(i)), First: 1, Last: 65535, To: 1, Proto: ProtoTCP}
		if table, err = AddRule(table, r); err != nil && i < 5 {
			t.Fatal(err)
		}
	}
	if err == nil || !strings.Contains(err.Error(), "Too many ports") {
		t.Errorf("sixth full range: %v", err)
	}
}

func TestConflicts_AnyPair_IsSymmetric(t *testing.T) {
	var all []Rule
	for _, s := range []string{"2000", "0.0.0.0/2000", "::/2000", "127.0.0.1/2000", "::1/2000", "127.0.0.1%lo/1999-2001", "%lo/2000", "[::1]%eth0/2000", "2001"} {
		rs, err := ParseSpec(both(), s)
		if err != nil {
			t.Fatal(err)
		}
		all = slices.Concat(all, rs)
	}
	for i := range all {
		for j := range all {
			if all[i].Conflicts(&all[j]) != all[j].Conflicts(&all[i]) {
				t.Errorf("%s and %s: depends on the order", &all[i], &all[j])
			}
		}
	}
}
