// SPDX-License-Identifier: Apache-2.0

package local

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"passt/dataplane/fwd"
	"passt/dataplane/link"
	"passt/dataplane/wire"
	"passt/internal/sys"
	"passt/internal/sys/priv"
)

const inNamespace = "PASST_TEST_LOCAL_NAMESPACE"

// script stands for the clients' own: it prints what they were told.
const script = `#!/bin/sh
OUT=%s
{ echo "event=$1$reason"; env; } | grep -E "^(event|ip|mask|subnet|router|dns|search|mtu|lease|staticroutes|hostname|new_[a-z0-9_]*|reason)=" >>$OUT
case "$1$reason" in bound|BOUND|BOUND6) echo done >>$OUT;; esac
exit 0
`

// TestClients_RealKernelAndDHCP_Configured runs the services behind a tap of a namespace of their own and lets the kernel and
// the installed clients configure themselves.
func TestClients_RealKernelAndDHCP_Configured(t *testing.T) {
	if os.Getenv(inNamespace) == "" {
		again(t)
		return
	}
	for _, p := range []string{"ip", "udhcpc", "dhclient"} {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("%s is not installed", p)
		}
	}
	fd, vnet, offload, e := priv.OpenTap("tap0")
	if e != 0 {
		t.Skipf("no tap device: %v", e)
	}
	stop := make(chan struct{})
	defer close(stop)
	go serve(t, link.NewTap(fd, offload, vnet), stop)
	run(t, "ip", "link", "set", "lo", "up")
	run(t, "ip", "link", "set", "tap0", "address", guestMAC.String(), "up")

	// Router advertisement: its search list encodes to 32 bytes, the length that once voided the message.
	until(t, "address from the advertised prefix", func() bool {
		return strings.Contains(run(t, "ip", "-6", "addr", "show", "dev", "tap0", "scope", "global"), "inet6 2001:db8:9:0:5054:ff:fe12:3456/64")
	})
	if s := run(t, "ip", "-6", "route", "show", "default"); !strings.Contains(s, "via fe80::1 dev tap0 proto ra") || !strings.Contains(s, "expires 655") {
		t.Errorf("default route %q", s)
	}
	until(t, "no tentative address", func() bool { return !strings.Contains(run(t, "ip", "-6", "addr"), "tentative") })

	dir := t.TempDir()
	sh := filepath.Join(dir, "script")
	if err := os.WriteFile(sh, []byte(fmt.Sprintf(script, filepath.Join(dir, "out"))), 0o755); err != nil {
		t.Fatal(err)
	}
	client(t, dir, []string{"udhcpc", "-f", "-q", "-n", "-i", "tap0", "-s", sh, "-O", "search", "-O", "mtu", "-O", "staticroutes"},
		"ip=198.51.100.10", "subnet=255.255.255.0", "router=198.51.100.1", "dns=198.51.100.53", "mtu=65520", "lease=4294967295", "search=example.com corp.example.net")
	conf := filepath.Join(dir, "conf")
	if err := os.WriteFile(conf, []byte("timeout 5; request subnet-mask, routers, domain-name-servers, domain-search, interface-mtu, dhcp6.name-servers, dhcp6.domain-search;"), 0o600); err != nil {
		t.Fatal(err)
	}
	dhclient := func(more ...string) []string {
		return append([]string{"dhclient", "-d", "-1", "-cf", conf, "-lf", filepath.Join(dir, "lease"+more[0]), "-pf", "/dev/null", "-sf", sh}, more...)
	}
	client(t, dir, dhclient("-4", "tap0"), "new_ip_address=198.51.100.10", "new_subnet_mask=255.255.255.0", "new_routers=198.51.100.1", "new_interface_mtu=65520")
	client(t, dir, dhclient("-6", "tap0"), "new_ip6_address=2001:db8:9::10", "new_dhcp6_name_servers=2001:db8:9::53", "new_dhcp6_domain_search=example.com. corp.example.net.")

	run(t, "ip", "addr", "add", "198.51.100.10/24", "dev", "tap0")
	_ = exec.Command("ping", "-c1", "-W1", "198.51.100.1").Run() // for the ARP alone
	until(t, "ARP entry", func() bool {
		return strings.Contains(run(t, "ip", "neigh", "show", "198.51.100.1"), "lladdr "+ourMAC.String())
	})
	until(t, "neighbour entry of the router", func() bool {
		return strings.Contains(run(t, "ip", "-6", "neigh", "show", "fe80::1"), "lladdr "+ourMAC.String()+" router")
	})
}

// again runs the test in user, network and mount namespaces of its own.
func again(t *testing.T) {
	c := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	c.Env = append(os.Environ(), inNamespace+"=1")
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}}
	out, err := c.CombinedOutput()
	switch {
	case c.ProcessState == nil:
		t.Skipf("no namespaces here: %v", err)
	case err != nil:
		t.Errorf("%s", out)
	case strings.Contains(string(out), "--- SKIP"):
		t.Logf("%s", out)
	}
}

// serve hands frames from the tap to the services, as the data path does.
func serve(t *testing.T, tap *link.Tap, stop chan struct{}) {
	r := newRig(t, func(c *Config, f *fwd.Config) { c.Pasta, c.Search = true, []string{"example.com", "corp.example.net."} })
	r.env.Link = tap
	b := new(link.Batch)
	var p wire.Packet
	for {
		select {
		case <-stop:
			return
		default:
		}
		sys.WaitReadable(tap.FD(), tap.FD(), 50)
		r.env.NowMs = sys.NowNs() / 1e6
		_ = tap.Recv(b)
		for i := range b.N {
			if p.Parse(b.Frames[i].Data, &b.Frames[i].Vnet) != wire.DropNone {
				continue
			}
			r.env.Guest.MAC = p.SrcMAC()
			switch {
			case p.EtherType == wire.EtherARP:
				r.s.ARP(&p)
			case p.Proto == wire.ProtoICMPv6:
				r.s.NDP(&p)
			case p.DstPort == 67:
				r.s.DHCP4(&p)
			case p.DstPort == 547:
				r.s.DHCP6(&p)
			}
		}
		r.s.Tick()
	}
}

// client runs a DHCP client until its script saw a lease, and looks for lines in what it was told.
func client(t *testing.T, dir string, args []string, want ...string) {
	t.Helper()
	out := filepath.Join(dir, "out")
	_ = os.Remove(out)
	c := exec.Command(args[0], args[1:]...)
	var log strings.Builder
	c.Stdout, c.Stderr = &log, &log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var got []byte
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if got, _ = os.ReadFile(out); strings.Contains(string(got), "done\n") {
			break
		}
	}
	_ = c.Process.Kill()
	_ = c.Wait()
	for _, w := range want {
		if !strings.Contains(string(got), w+"\n") {
			t.Errorf("%s was not told %s but %s; it said %s", args[0], w, got, log.String())
		}
	}
}

func run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v: %s", args, err, out)
	}
	return string(out)
}

// until waits for a condition, at most 10 s.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			out, _ := exec.Command("sh", "-c", "ip addr; ip -6 route; ip neigh").CombinedOutput()
			t.Fatal(fmt.Sprintf("%s: not within 10 s\n%s", what, out))
		}
	}
}
