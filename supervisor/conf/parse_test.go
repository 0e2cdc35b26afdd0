// SPDX-License-Identifier: Apache-2.0

package conf

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"passt/dataplane/fwd"
	"passt/dataplane/wire"
	"passt/ipc"
)

// parsed reads a line of blank-separated words behind the program's name.
func parsed(t *testing.T, line string) *Options {
	t.Helper()
	o, x := Parse(strings.Fields(line))
	if x != nil {
		t.Fatalf("%s: %s", line, x.Stderr)
	}
	return o
}

func TestParse_Diagnostics_WordedAsTheCLibraryDoes(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"passt --bogus", "passt: unrecognized option '--bogus'"},
		{"/usr/bin/pasta --map-guest-addrx=1", "/usr/bin/pasta: unrecognized option '--map-guest-addrx=1'"},
		{"pasta --vhost-user -I x", "pasta: unrecognized option '--vhost-user'"},
		{"pasta --bogus --version", "pasta: unrecognized option '--bogus'"},
		{"pasta -Z", "pasta: invalid option -- 'Z'"},
		{"pasta -s x", "pasta: invalid option -- 's'"},
		{"pasta -1", "pasta: invalid option -- '1'"},
		{"pasta -qZf", "pasta: invalid option -- 'Z'"},
		{"pasta -m", "pasta: option requires an argument -- 'm'"},
		{"pasta --mtu", "pasta: option '--mtu' requires an argument"},
		{"pasta --mt", "pasta: option '--mtu' requires an argument"},
		{"pasta --config-net=3", "pasta: option '--config-net' doesn't allow an argument"},
		{"pasta --config=3", "pasta: option '--config-net' doesn't allow an argument"},
		{"pasta --no-d", "pasta: option '--no-d' is ambiguous; possibilities: '--no-dhcp' '--no-dhcpv6'"},
		{"pasta --dhcp=1", "pasta: option '--dhcp=1' is ambiguous; possibilities: '--dhcp-dns' '--dhcp-search'"},
	} {
		o, x := Parse(strings.Fields(c.line))
		if o != nil || x == nil {
			t.Errorf("%s: accepted", c.line)
			continue
		}
		first, rest, _ := strings.Cut(x.Stderr, "\n")
		if first != c.want || !strings.HasPrefix(rest, "Usage: ") || x.Code != 1 || x.Stdout != "" {
			t.Errorf("%s: code %d, stdout %q, stderr %q, want %q and the usage", c.line, x.Code, x.Stdout, first, c.want)
		}
	}
}

func TestParse_HelpAndVersion_ActWhenReached(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"passt --version", "passt "}, {"pasta --version", "pasta "}, {"/opt/my-pasta-x --version", "pasta "}, {"passt.custom --vers", "passt "},
		{"pasta --version --bogus", "pasta "}, {"pasta --netns whatever --version", "pasta "}, {"pasta --host-lo-to-ns-lo --version", "pasta "},
		{"passt -dqf4 --version", "passt "}, {"passt --mtu=1500 --version", "passt "}, {"pasta -h", "Usage: pasta "}, {"passt --help", "Usage: passt "},
		{"pasta --netns x --version 123", "pasta "},
	} {
		o, x := Parse(strings.Fields(c.line))
		if o != nil || x == nil || x.Code != 0 || x.Stderr != "" || !strings.HasPrefix(x.Stdout, c.want) {
			t.Errorf("%s: %+v", c.line, x)
		}
	}
}

func TestParse_Refused_WithReason(t *testing.T) {
	long := strings.Repeat("x", 254)
	for _, c := range []struct{ line, want string }{
		{"foo --version", "call this program as"}, {"passt --host-lo-to-ns-lo --version", "--host-lo-to-ns-lo is not for passt"},
		{"passt -T 22", "--tcp-ns is not for passt"}, {"passt extra", "extra"}, {"pasta --netns x 123", "--netns and a PID"}, {"pasta --netns x true", "--netns and"},
		{"pasta 99999999999", "Invalid PID"}, {"pasta 2147483648", "Invalid PID"}, {"pasta 0", "Invalid PID"},
		{"pasta -m 65522", "65521"}, {"pasta -m abc", "Invalid MTU"}, {"pasta -m 1500x", "Invalid MTU"}, {"pasta -m -1", "Invalid MTU"}, {"pasta -m 1_5", "Invalid MTU"},
		{"pasta -m abc -m 1500", "Invalid MTU"}, {"pasta -m 09", "Invalid MTU"},
		{"pasta -a 10.0.0.1/24 -n 24", "twice"}, {"pasta -n 24 -a 10.0.0.1/24", "twice"}, {"pasta -a 2001:db8::1/64 -n 24", "twice"},
		{"pasta -a 10.0.0.1/33", "prefix length"}, {"pasta -a 10.0.0.1/", "prefix length"}, {"pasta -a 10.0.0.1/0x8", "prefix length"}, {"pasta -a 2001:db8::1/129", "prefix length"},
		{"pasta -a 127.0.0.1", "Invalid address"}, {"pasta -a ::1", "Invalid address"}, {"pasta -a 224.0.0.1", "Invalid address"}, {"pasta -a 0.0.0.0", "Invalid address"},
		{"pasta -a 255.255.255.255", "Invalid address"}, {"pasta -a ff02::1", "Invalid address"}, {"pasta -a ::", "Invalid address"}, {"pasta -a x", "Invalid address"},
		{"pasta -n 255.0.255.0", "netmask"}, {"pasta -n 33", "netmask"}, {"pasta -n x", "netmask"}, {"pasta -n 2001:db8::", "netmask"},
		{"pasta -g 0.0.0.0", "gateway"}, {"pasta -g 127.0.0.1", "gateway"}, {"pasta -g 255.255.255.255", "gateway"}, {"pasta -g 224.0.0.1", "gateway"}, {"pasta -g ::1", "gateway"},
		{"pasta -M 1:2", "MAC"}, {"pasta -M 01:00:00:00:00:00", "unicast"}, {"pasta -M 00:00:00:00:00:00", "zero"}, {"pasta -M 02-00-00-00-00-77", "MAC"}, {"pasta -M 02:00:00:00:00:7g", "MAC"},
		{"pasta -M 02:00:00:00:00:+7", "MAC"}, {"pasta --ns-mac-addr 01:00:00:00:00:01", "unicast"},
		{"pasta -o 0.0.0.0", "outbound"}, {"pasta -o ::1", "outbound"}, {"pasta -o ::ffff:192.0.2.1", "outbound"}, {"pasta -o ::192.0.2.1", "outbound"}, {"pasta -o ff02::1", "outbound"}, {"pasta -o 255.255.255.255", "outbound"},
		{"pasta --outbound-if4 1234567890123456", "interface name"}, {"pasta -I 1234567890123456", "interface name"}, {"pasta -i=", ""},
		{"pasta --dns-forward 127.0.0.1", "DNS forwarding"}, {"pasta --dns-forward ::", "DNS forwarding"}, {"pasta --dns-host 0.0.0.0", "DNS host"}, {"pasta -D bogus", "DNS address"},
		{"pasta -S a -S b -S c -S d -S e -S f -S g", "Too many"}, {"pasta -H " + long, "longer than 253"}, {"pasta --fqdn " + long, "longer than 253"},
		{"pasta --map-host-loopback 127.0.0.1", "host loopback"}, {"pasta --map-host-loopback ff02::1", "host loopback"}, {"pasta --map-guest-addr 0.0.0.0", "guest's address"},
		{"pasta --host-lo-to-ns-lo --no-splice", "exclude"}, {"pasta --splice-only --no-splice", "exclude"}, {"passt --splice-only", "not for passt"},
		{"pasta --userns /proc/1/ns/user true", "--userns needs"},
	} {
		o, x := Parse(strings.Fields(c.line))
		if c.want == "" {
			continue
		}
		if o != nil || x == nil {
			t.Errorf("%s: accepted", c.line)
		} else if x.Code != 1 || x.Stdout != "" || !strings.Contains(x.Stderr, c.want) || strings.Count(x.Stderr, "\n") != 1 {
			t.Errorf("%s: %+v, want %q in one line", c.line, x, c.want)
		}
	}
}

func TestParse_EmptyValues_RefusedWhereTheyMeanNothing(t *testing.T) {
	for opt, ok := range map[string]bool{"-D": false, "-S": false, "--userns": false, "--netns": false, "-I": false, "-i": false, "-P": false, "-p": false, "-a": false,
		"-H": true, "--fqdn": true, "-m": false, "-n": false, "--runas": false, "-t": true} {
		_, x := Parse([]string{"pasta", opt, ""})
		if (x == nil) != ok {
			t.Errorf("%s '': %v, want accepted %v", opt, x, ok)
		}
	}
	if _, x := Parse(nil); x == nil || x.Code != 1 {
		t.Errorf("no argv[0]: %v", x)
	}
}

func TestParse_LastOneWins_UnlessSaidOtherwise(t *testing.T) {
	ip := func(s string) wire.Addr { a, _ := address(s); return a }
	for _, c := range []struct {
		line string
		got  func(o *Options) any
		want any
	}{
		{"pasta -m 65521", func(o *Options) any { return o.MTU }, 65521},
		{"pasta -m 0x500", func(o *Options) any { return o.MTU }, 1280},
		{"pasta -m1500 -m 0", func(o *Options) any { return o.MTU }, 0},
		{"pasta", func(o *Options) any { return o.MTU }, -1},
		{"pasta -n 030", func(o *Options) any { return o.Netmask }, 24},
		{"pasta -n 255.255.255.255", func(o *Options) any { return o.Netmask }, 32},
		{"pasta -n 32", func(o *Options) any { return o.Netmask }, 32},
		{"pasta -n [255.255.0.0]", func(o *Options) any { return o.Netmask }, 16},
		{"pasta -a 10.1.1.1/0 -n 24", func(o *Options) any { return o.Netmask }, 24},
		{"pasta -a 10.1.1.1/16 -a 10.2.2.2", func(o *Options) any { return o.AddrLen4 }, 0},
		{"pasta -a [2001:db8:77::5]/48", func(o *Options) any { return o.Addr }, Pair{V6: ip("2001:db8:77::5")}},
		{"pasta -a ::ffff:192.0.2.1 -a 2001:db8::1", func(o *Options) any { return o.Addr }, Pair{ip("192.0.2.1"), ip("2001:db8::1")}},
		{"pasta -4 -6", func(o *Options) any { return o.Only }, uint8(6)},
		{"pasta -q -d", func(o *Options) any { return o.LogLevel() }, LevelDebug},
		{"pasta -d -q", func(o *Options) any { return o.LogLevel() }, LevelWarn},
		{"pasta --trace", func(o *Options) any { return o.LogLevel() }, LevelTrace},
		{"pasta --trace -q -d", func(o *Options) any { return o.LogLevel() }, LevelDebug},
		{"pasta -o 127.0.0.1", func(o *Options) any { return o.Outbound.V4 }, ip("127.0.0.1")},
		{"pasta --dns-host 127.0.0.1", func(o *Options) any { return o.DNSHost.V4 }, ip("127.0.0.1")},
		{"pasta -D 127.0.0.1", func(o *Options) any { return len(o.DNS4) }, 1},
		{"pasta -D 192.0.2.1 -D 192.0.2.2 -D 192.0.2.3 -D 192.0.2.4", func(o *Options) any { return fmt.Sprint(o.DNS4) }, "[192.0.2.1 192.0.2.2 192.0.2.3]"},
		{"pasta --dns-forward 192.0.2.9 -D 192.0.2.1 -D none", func(o *Options) any { return fmt.Sprint(len(o.DNS4), o.NoDNS, o.DNSForward == Pair{}) }, "0 true true"},
		{"pasta -D none -D 192.0.2.1", func(o *Options) any { return fmt.Sprint(len(o.DNS4), o.NoDNS) }, "1 false"},
		{"pasta -S a -S none -S b", func(o *Options) any { return fmt.Sprint(o.Search, o.NoSearch) }, "[b] false"},
		{"pasta --map-host-loopback 192.0.2.1 --map-host-loopback none", func(o *Options) any { return fmt.Sprint(o.MapLoop == Pair{}, o.NoMapGW) }, "true true"},
		{"pasta --map-host-loopback none --map-host-loopback 255.255.255.255", func(o *Options) any { return o.MapLoop.V4 }, ip("255.255.255.255")},
		{"pasta --netns x", func(o *Options) any { return o.NetNS }, "/run/netns/x"},
		{"pasta --netns ./x", func(o *Options) any { return o.NetNS }, "./x"},
		{"pasta --netns-only --userns /u 12", func(o *Options) any { return fmt.Sprint(o.NetnsOnly, " ", o.UserNS) }, "false /u"},
		{"pasta --userns /u --netns-only 12", func(o *Options) any { return fmt.Sprint(o.NetnsOnly, " ", o.UserNS) }, "true "},
		{"pasta -tauto --tcp-ports=~25 -u 5 -T none", func(o *Options) any { return fmt.Sprint(o.Ports) }, "[{116 auto} {116 ~25} {117 5} {84 none}]"},
		{"pasta -M 02:00:00:00:00:77", func(o *Options) any { return wire.MAC(o.MAC).String() }, "02:00:00:00:00:77"},
		{"pasta --ns-mac-addr 00:00:00:00:00:00", func(o *Options) any { return o.NsMAC.IsZero() }, true},
		{"pasta -e", func(o *Options) any { return len(o.Warnings) }, 1},
		{"pasta -q grep -F root /etc/passwd", func(o *Options) any { return strings.Join(o.Args, " ") }, "grep -F root /etc/passwd"},
		{"pasta echo --vhost-user", func(o *Options) any { return strings.Join(o.Args, " ") }, "echo --vhost-user"},
		{"pasta -- -f", func(o *Options) any { return strings.Join(o.Args, " ") }, "-f"},
		{"pasta -P/run/F1 - x", func(o *Options) any { return o.PidFile + " " + strings.Join(o.Args, " ") }, "/run/F1 - x"},
		{"pasta -f 12", func(o *Options) any { return fmt.Sprint(o.Background(), o.spawns()) }, "false false"},
		{"pasta +12", func(o *Options) any { return fmt.Sprint(o.Background(), o.spawns()) }, "true false"},
		{"pasta --netns x", func(o *Options) any { return o.Background() }, true},
		{"pasta 12 13", func(o *Options) any { return fmt.Sprint(o.Background(), o.spawns()) }, "false true"},
		{"passt", func(o *Options) any { return fmt.Sprint(o.Mode == ModePasst, o.Background()) }, "true true"},
	} {
		if got := c.got(parsed(t, c.line)); got != c.want {
			t.Errorf("%s: %v, want %v", c.line, got, c.want)
		}
	}
}

func TestParse_SearchWithBlanks_IsSplit(t *testing.T) {
	o, x := Parse([]string{"pasta", "-S", "a.example.com b.example.com"})
	if x != nil || !slices.Equal(o.Search, []string{"a.example.com", "b.example.com"}) {
		t.Errorf("%v %v", o, x)
	}
}

// The callers' own lines must be taken as they are (spec podman 1.2, 2.2).
func TestParse_CallersLines_Accepted(t *testing.T) {
	for _, l := range []string{
		"pasta --config-net -t 127.0.0.1/8080-8080:80-80 --dns-forward 169.254.1.1 -u none -T none -U none --no-map-gw --quiet --netns /run/user/1000/netns/x --map-guest-addr 169.254.1.2 --map-host-loopback 169.254.1.2",
		"pasta --stderr --ns-ifname=tap0 --mtu=65520 --config-net --address=10.0.2.100 --netmask=24 --gateway=10.0.2.2 --dns-forward=10.0.2.3 --no-map-gw --ipv4-only --tcp-ports=auto --udp-ports=auto --host-lo-to-ns-lo 4711",
		"pasta --userns=/proc/4711/ns/user --netns=/run/x/netns",
	} {
		parsed(t, l)
	}
}

func TestTable_NamesAndLetters_AreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, o := range table() {
		for _, n := range []string{o.long, string(rune(o.short))} {
			if n != "\x00" && seen[n] {
				t.Errorf("%s twice", n)
			}
			seen[n] = true
		}
		if o.help == "" || o.modes == 0 || o.set == nil {
			t.Errorf("--%s lacks help, mode or setter", o.long)
		}
	}
}

func TestUsage_EveryMode_ListsItsOptionsWithin80Columns(t *testing.T) {
	for _, m := range []Mode{ModePasta, ModePasst} {
		text := usage(m)
		for _, o := range table() {
			if has := strings.Contains(text, "  "+o.head()); has != (o.modes&m != 0) {
				t.Errorf("mode %d: --%s listed: %v", m, o.long, has)
			}
		}
		for _, l := range strings.Split(text, "\n") {
			if len(l) > 80 {
				t.Errorf("%d columns: %s", len(l), l)
			}
		}
	}
}

func TestManual_Options_AreThoseOfTheTable(t *testing.T) {
	b, err := os.ReadFile("../../docs/man/passt.1")
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	plain := strings.NewReplacer(`\fB`, "", `\fI`, "", `\fR`, "", `\-`, "-")
	for l := range strings.Lines(string(b)) {
		if l = plain.Replace(strings.TrimSuffix(l, "\n")); strings.HasPrefix(l, "-") {
			got = append(got, l)
		}
	}
	for _, o := range table() {
		want = append(want, o.head())
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the manual has\n%s\nthe table\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// FuzzParse: an Exit or Options, never both; what is refused says why and has status 1; accepted values are in range.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"pasta\x00--config-net\x00-t\x0022\x00--\x00sh", "passt\x00-dqf4\x00--vers", "pasta\x00-a10.0.0.1/24\x00-n\x00030", "pasta\x00-S\x00a b\x00-Dnone",
		"pasta\x00--map-host-loopback=none\x00--ns-mac=02:00:00:00:00:01\x00+12", "pasta\x00-m\x000x500\x00-o::1\x00--no", "my-pasta\x00-M\x0002:00:00:00:00:77\x00-g\x00fe80::1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		o, x := Parse(strings.Split(line, "\x00"))
		if (o == nil) == (x == nil) {
			t.Fatalf("%q: options %v, exit %v", line, o, x)
		}
		if x != nil {
			if (x.Code == 1) != (x.Stderr != "") || (x.Code == 0) != (x.Stdout != "") {
				t.Fatalf("%q: %+v", line, x)
			}
			return
		}
		if o.MTU < -1 || o.MTU > MaxMTU || o.Netmask > 32 || o.AddrLen4 > 32 || o.AddrLen6 > 128 || len(o.DNS4) > maxDNS || len(o.DNS6) > maxDNS || len(o.Search) > maxSearch {
			t.Fatalf("%q: out of range: %+v", line, o)
		}
		if o.Gateway.V4.IsLoopback() || o.MapLoop.V6.IsLoopback() || o.DNSForward.V4.IsLoopback() || o.Addr.V4.IsMulticast() || len(o.Hostname) > maxName {
			t.Fatalf("%q: impossible value: %+v", line, o)
		}
		p, err := Resolve(o, usual())
		if (p == nil) == (err == nil) {
			t.Fatalf("%q: plan %v, error %v", line, p, err)
		}
		if err != nil {
			return
		}
		if _, err := ipc.EncodeBoot(&p.Boot); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if (p.Target.Command == nil) == (p.Target.NetNS == "") {
			t.Fatalf("%q: target %+v", line, p.Target)
		}
		for _, f := range []*fwd.Family{&p.Boot.Fwd.V4, &p.Boot.Fwd.V6} {
			if f.MapLoop.IsLoopback() || f.DNSMatch.IsLoopback() || !f.DNSHost.IsZero() && f.DNSHost.IsUnspecified() || f.On && f.Prefix == 0 {
				t.Fatalf("%q: impossible address: %+v", line, f)
			}
		}
	})
}
