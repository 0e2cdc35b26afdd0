// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// -a, -n, -g, -m, -I, --ns-mac-addr (addressing checks 12 to 16).
func TestOption_Addressing_Configured(t *testing.T) {
	bench(t, benchHost+runNow, "", `
has() { local want=$1; shift; run "$@" -- sh -c 'ip addr; ip route; ip -6 route' >$D/o || die "$*: start"; grep -q -e "$want" $D/o || die "$*: no $want"; }
hasnt() { grep -q -e "$1" $D/o && die "unwanted $1"; true; }
has "inet 10.5.5.5/24" -a 10.5.5.5/24 -g 10.5.5.1; grep -q "default via 10.5.5.1" $D/o || die "no default"; hasnt 192.0.2
has "inet 10.1.1.1/8" -a 10.1.1.1 -g 10.1.1.2
has "inet 10.1.1.1/16" -a 10.1.1.1 -n 16 -g 10.1.1.2; has "inet 10.1.1.1/16" -n 255.255.0.0 -a 10.1.1.1 -g 10.1.1.2
has "inet 10.2.2.2/8" -a 10.1.1.1/16 -a 10.2.2.2 -g 10.2.2.1
has "inet 192.0.2.1/16" -n 16
has "inet6 2001:db8:77::5/64" -a 2001:db8:77::5/48
has "default via 198.51.100.77" -g 198.51.100.77 -a 10.1.2.3
has "h0: .*mtu 1500" -m 0; has "mtu 1280" -m 0x500; has "mtu 65520"
has ": guest0: " -I guest0; has "link/ether 02:00:00:00:00:07" --ns-mac-addr 02:00:00:00:00:07`)
}

// What the two loopback options and --no-map-gw open and close (addressing checks 17, 19, 20).
func TestOption_HostLoopbackMaps_OnlyAsAsked(t *testing.T) {
	out := bench(t, benchHost, "", `
serve lo h echo 127.0.0.1:7001; serve lo6 h echo '[::1]:7001'; serve own h echo 192.0.2.1:7002; serve p p echo :7003
at() { local o=$1; shift; timeout 20 $PASTA -q --config-net $OPT $o -- env PASST_ROLE=connect "$PEERS" $1; }
ok() { r=$(at "$@"); [ "$r" = ok ] || die "$*: $r"; }
no() { r=$(at "$@"); [ "$r" = ok ] && die "$*: reached"; true; }
ok "" 192.0.2.2:7001; ok "" '[2001:db8::2]:7001'
no --no-map-gw 192.0.2.2:7001; no --no-map-gw '[2001:db8::2]:7001'; ok --no-map-gw 192.0.2.2:7003
no "--map-host-loopback none" 192.0.2.2:7001
no --no-map-gw 127.0.0.1:7001; no --no-map-gw '[::1]:7001'
ok "--map-host-loopback 169.254.1.9" 169.254.1.9:7001; no "--map-host-loopback 169.254.1.9" 192.0.2.2:7001
ok "--no-map-gw --map-host-loopback 169.254.1.9" 169.254.1.9:7001
ok "--map-host-loopback fd00::9" '[fd00::9]:7001'
ok "--map-guest-addr 169.254.1.2" 169.254.1.2:7002
ok "--no-map-gw --map-guest-addr 169.254.1.2 --map-host-loopback 169.254.1.2" 169.254.1.2:7001
cat $D/own`)
	wants(t, out, "peer 192.0.2.1:")
}

// -4, -6, --no-tcp, --no-udp, --no-icmp: what is off gets no answer, the rest works.
func TestOption_FamiliesAndProtocols_SwitchedOff(t *testing.T) {
	bench(t, benchHost+runNow, "", `
serve t p echo :7000; serve u p udp-echo :7000
tcp() { run $1 -- timeout 2 env PASST_ROLE=short "$PEERS" $2:7000 1 >/dev/null 2>&1; }
udp() { run $1 -- timeout 2 env PASST_ROLE=udp "$PEERS" $2:7000 10 1 >/dev/null 2>&1; }
png() { run $1 -- ping -n -c 1 -W 1 $2 >/dev/null 2>&1; }
A=192.0.2.2; B='[2001:db8::2]'; b=2001:db8::2
tcp -4 $A || die "-4"; tcp -4 $B && die "-4: IPv6"; tcp -6 $B || die "-6"; tcp -6 $A && die "-6: IPv4"
run -4 -- ip -6 addr show scope global >$D/o; grep -q 2001:db8 $D/o && die "-4: IPv6 address"
OPT="-u none -U none"; tcp --no-tcp $A && die "--no-tcp: TCP"; udp --no-tcp $A || die "--no-tcp: UDP"
OPT="-t none -T none"; udp --no-udp $A && die "--no-udp: UDP"; tcp --no-udp $A || die "--no-udp: TCP"
OPT="$NONE"; png --no-icmp $A && die "--no-icmp: ping"; tcp --no-icmp $A || die "--no-icmp: TCP"; png "" $A || die ping; png "" $b || die ping6
run --no-tcp -- true || die "--no-tcp with the default ports" `)
}

// -q, -d, -P and the summary (cli checks 21, 22, spec cli 6.1).
func TestOption_Output_QuietSummaryDebug(t *testing.T) {
	bench(t, benchHost, "", `
newG; $PASTA --config-net -P $D/pid $OPT $G >$D/out 2>$D/err || die start
[ -s $D/out ] && die "output on stdout"; for w in "Template interface: h0" "Namespace interface: h0" "MAC:" "host: 9a:55:9a:55:9a:55" "assign"; do grep -q "$w" $D/err || die "summary lacks $w"; done
newG; $PASTA -q --config-net $OPT $G 2>$D/err || die start; grep -v -i nameserver $D/err && die "-q says something"
newG; $PASTA -q -d --config-net $OPT $G 2>$D/err || die start; grep -q '^[0-9]*\.[0-9]*: ' $D/err || die "-q -d: no debug output"
newG; $PASTA -d -q --config-net $OPT $G 2>$D/err || die start; grep -v -i nameserver $D/err && die "-d -q: output"
$PASTA --config-net $OPT -- echo hello >$D/out 2>$D/err; [ "$(cat $D/out)" = hello ] || die "stdout of the command"; true`)
}

// -f: signals with their usual meaning (cli check 21).
func TestOption_Foreground_SignalsAsDocumented(t *testing.T) {
	for sig, want := range map[syscall.Signal]int{syscall.SIGTERM: 0, syscall.SIGQUIT: 0, syscall.SIGHUP: 1, syscall.SIGINT: 2} {
		pid := target(t)
		pf := filepath.Join(workDir, fmt.Sprintf("fg-%d", pid))
		p := start(t, nil, append(append([]string{pastaBin, "-f", "--config-net", "-P", pf}, noPorts...), fmt.Sprint(pid))...)
		wait(t, 5*time.Second, "PID file", func() bool { b, _ := os.ReadFile(pf); return len(b) > 0 })
		_ = p.cmd.Process.Signal(sig)
		st := p.status(t, 3*time.Second)
		ws := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
		if want == 0 && st != 0 || want != 0 && (!ws.Signaled() || int(ws.Signal()) != want) {
			t.Errorf("%v: %v, want %d", sig, p.cmd.ProcessState, want)
		}
	}
}

// --netns by name and by path, --userns, --netns-only, PID.
func TestOption_NamespaceTargets_Joined(t *testing.T) {
	bench(t, benchHost, "", `
mount -t tmpfs x /run || die tmpfs; mkdir /run/netns; touch /run/netns/one
unshare -n sh -c "mount --bind /proc/self/ns/net /run/netns/one" || die bind
configured() { nsenter --net=$1 ip addr | grep -q 192.0.2.1 || die "$2: not configured"; }
$PASTA -q --config-net $OPT -P $D/p --netns one || die "name"; configured /run/netns/one name; kill $(cat $D/p)
gone() { ! kill -0 $(cat $D/p) 2>/dev/null; }; until_ok 3 gone || die "TERM"
$PASTA -q --config-net $OPT -I again --netns /run/netns/one || die "path"; configured /run/netns/one path
newG; $PASTA -q --config-net $OPT --userns /proc/$G/ns/user --netns /proc/$G/ns/net || die "--userns"; g ip addr | grep -q 192.0.2.1 || die "--userns: not configured"
unshare -n sleep 60 & N=$!; until_ok 5 named $N; $PASTA -q --config-net $OPT --netns-only $N || die "--netns-only PID"; configured /proc/$N/ns/net "--netns-only"
bad() { timeout 5 $PASTA -q "$@" >$D/e 2>&1; [ $? = 1 ] && [ -s $D/e ] || die "$* accepted"; }
bad --netns one 123; bad --netns nosuch; bad --netns /proc/self/status; bad 99999999999; bad --userns "" true; bad --netns one true; bad 4194303`)
}

// B105, cli check 28: inside a user namespace without a new one.
func TestField_B105_NetnsOnlyInUserNamespace_Silent(t *testing.T) {
	r := runFor(t, 10*time.Second, nil, "unshare", "-r", pastaBin, "-q", "--netns-only", "--", "echo", "TEST")
	if r.status != 0 || r.out != "TEST\n" {
		t.Errorf("status %d, stdout %q, stderr %q", r.status, r.out, r.err)
	}
	for l := range strings.Lines(r.err) {
		if !strings.Contains(l, "nameserver") && !strings.Contains(l, "ping_group_range") {
			t.Errorf("says %q", l)
		}
	}
}

// B103: words behind the command are the command's own, whatever they look like (cli 2.6).
func TestField_B103_OptionsOfTheCommand_LeftAlone(t *testing.T) {
	for _, c := range []struct {
		argv []string
		want string
	}{
		{[]string{"echo", "-t", "5000", "--vhost-user", "--fd", "9"}, "-t 5000 --vhost-user --fd 9\n"},
		{[]string{"grep", "-F", "root:", "/etc/passwd"}, "root:"},
		{[]string{"--", "echo", "-q", "--mtu"}, "-q --mtu\n"},
	} {
		argv := append(append([]string{pastaBin, "-q", "--config-net"}, noPorts...), c.argv...)
		r := runFor(t, 10*time.Second, nil, argv...)
		if r.status != 0 || !strings.HasPrefix(r.out, c.want) {
			t.Errorf("%v: status %d, %q %s", c.argv, r.status, r.out, r.err)
		}
	}
}

// What is not built is refused as unknown, with the words that callers look for; nothing goes to stdout.
func TestOption_UnknownAndInvalid_Status1WithReason(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--stats 1", "unrecognized option '--stats'"}, {"--bogus", "unrecognized option '--bogus'"}, {"--vhost-user", "unrecognized option '--vhost-user'"},
		{"--fd 3", "unrecognized option '--fd'"}, {"--log-file x", "unrecognized option '--log-file'"}, {"--conf-path x", "unrecognized option '--conf-path'"},
		{"--one-off", "unrecognized option '--one-off'"}, {"--bogus --version", "unrecognized option '--bogus'"},
		{"-Z", "invalid option -- 'Z'"}, {"--mtu", "option '--mtu' requires an argument"}, {"--quiet=1", "option '--quiet' doesn't allow an argument"},
		{"--map", "option '--map' is ambiguous"}, {"-m 65522", "65521"}, {"-m abc", "abc"}, {"-a 10.0.0.1/33", "10.0.0.1/33"},
		{"-a 127.0.0.1", "127.0.0.1"}, {"-n 33", "33"}, {"-n 255.0.255.0", "255.0.255.0"}, {"-a 10.0.0.1/24 -n 24", ""}, {"-D bogus", "bogus"},
		{"--dns-forward 127.0.0.1", "127.0.0.1"}, {"-M 01:00:00:00:00:01", "01:00"}, {"-i nosuch0", "nosuch0"}, {"--outbound-if4 nosuch0", "nosuch0"},
		{"--host-lo-to-ns-lo --no-splice", ""}, {"--splice-only --no-splice", ""}, {"--runas nosuchuser", "nosuchuser"},
		{"-P /nosuch/dir/pid", "/nosuch/dir/pid"}, {"-p /nosuch/dir/pcap", "/nosuch/dir/pcap"},
	} {
		argv := append([]string{pastaBin}, strings.Fields(c.args)...)
		if c.args != "--mtu" { // the argument that is missing would be the command
			argv = append(argv, "true")
		}
		r := runFor(t, 10*time.Second, nil, argv...)
		if r.status != 1 || !strings.Contains(r.err, c.want) || r.err == "" || r.out != "" {
			t.Errorf("%s: status %d, stdout %q, stderr without %q: %.200q", c.args, r.status, r.out, c.want, r.err)
		}
	}
}

// cli checks 1, 2, 6.
func TestOption_VersionAndHelp_Stdout(t *testing.T) {
	for args, want := range map[string]string{"--version": "pasta ", "--vers": "pasta ", "--host-lo-to-ns-lo --version": "pasta ", "--netns whatever --version": "pasta ",
		"-dqf4 --version": "pasta ", "--mtu=1500 --version": "pasta ", "--version --bogus": "pasta ", "--help": "Usage", "-h": "Usage"} {
		r := runFor(t, 10*time.Second, nil, append([]string{pastaBin}, strings.Fields(args)...)...)
		if r.status != 0 || !strings.HasPrefix(r.out, want) || r.err != "" {
			t.Errorf("%s: status %d, %.60q, %q", args, r.status, r.out, r.err)
		}
	}
}

// A caller such as muvm looks at the user namespace of its direct child (podman check 15).
func TestOption_DirectChild_UserNamespaceReadable(t *testing.T) {
	pid := target(t)
	p := start(t, nil, append(append([]string{pastaBin, "-f", "--config-net"}, noPorts...), fmt.Sprint(pid))...)
	// Read as the user who started it, for a second and longer.
	r := runFor(t, 10*time.Second, nil, "sh", "-c", fmt.Sprintf("for i in $(seq 24); do sleep .05; readlink /proc/%d/ns/user || exit 1; done", p.cmd.Process.Pid))
	if r.status != 0 {
		t.Errorf("status %d after %q: %s", r.status, r.out, r.err)
	}
}

// isolation.md check 6: as root it becomes nobody and says so, --runas other ids; no groups stay.
func TestOption_RunAs_IDsWithoutGroups(t *testing.T) {
	needRoot(t)
	for _, c := range []struct {
		opts []string
		id   string
		warn bool
	}{{nil, "65534", true}, {[]string{"--runas", "1234:1235"}, "1234", false}, {[]string{"--runas", "1234"}, "1234", false}} {
		// The target belongs to that user: joining it needs no more rights than its owner has.
		uid, _ := strconv.ParseUint(c.id, 10, 32)
		owner := asUser(t, uint32(uid), "unshare", "-Urn", "sh", "-c", "echo ready; exec sleep 60")
		owner.waitFor(t, "ready")
		p := asUser(t, 0, append(append(append([]string{pastaBin, "-f", "--config-net"}, c.opts...), noPorts...), fmt.Sprint(owner.cmd.Process.Pid))...)
		wait(t, 5*time.Second, "three processes", func() bool {
			select {
			case <-p.done:
				t.Fatalf("%v: %s", c.opts, p.out)
			default:
			}
			return len(children(p.cmd.Process.Pid)) >= 2
		})
		if strings.Contains(p.out.String(), "nobody") != c.warn {
			t.Errorf("%v: %s", c.opts, p.out)
		}
		for _, pid := range append(children(p.cmd.Process.Pid), p.cmd.Process.Pid) {
			st, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
			for l := range strings.Lines(string(st)) {
				f := strings.Fields(l)
				if f[0] == "Uid:" && (f[1] != c.id || f[2] != c.id || f[3] != c.id) || f[0] == "Groups:" && len(f) > 1 {
					t.Errorf("%v: %s has %q", c.opts, argv0(pid), l)
				}
			}
		}
	}
}

// isolation.md check 7: no user namespaces: one clear error that names the sysctl.
func TestIsolation_NoUserNamespaces_OneErrorNamesSysctl(t *testing.T) {
	for _, to := range []string{"-- true", "$G"} {
		r := runFor(t, 20*time.Second, []string{"PASTA=" + pastaBin}, "unshare", "-rUnmpf", "--kill-child", "--mount-proc", "sh", "-c",
			"sleep 30 & G=$!; echo 0 > /proc/sys/user/max_user_namespaces || exit 77; $PASTA -q --config-net -t none -u none -T none -U none --netns-only "+to)
		if r.status == 77 {
			t.Skip("user.max_user_namespaces cannot be changed here")
		}
		if r.status != 1 || strings.Count(strings.TrimSpace(r.err), "\n") > 3 || !strings.Contains(r.err, "max_user_namespaces") {
			t.Errorf("%s: status %d: %s", to, r.status, r.err)
		}
		t.Logf("%s", r.err)
	}
}

// asUser starts a command as that user and no groups; user 0 has a supplementary group, which pasta must give up.
func asUser(t *testing.T, uid uint32, argv ...string) *process {
	t.Helper()
	cred := &syscall.Credential{Uid: uid, Gid: uid}
	if uid == 0 {
		cred.Groups = []uint32{4321}
	}
	p := &process{cmd: exec.Command(argv[0], argv[1:]...), out: new(lineBuffer), done: make(chan struct{})}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: cred, Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Dir = p.out, p.out, workDir
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		<-p.done
	})
	return p
}
