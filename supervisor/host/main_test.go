// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"passt/dataplane/wire"
)

// inNamespaces marks the test binary that runs as root of a new user namespace.
const inNamespaces = "PASST_TEST_HOST_NS"

// namespaced runs the calling test again in new user and network namespaces; true there, false here once it is done.
func namespaced(t testing.TB) bool {
	t.Helper()
	if os.Getenv(inNamespaces) != "" {
		return true
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("ip (iproute2) is not installed")
	}
	args := []string{"-test.run=^" + t.Name() + "$", "-test.v"}
	if strings.HasPrefix(t.Name(), "Benchmark") {
		args = []string{"-test.run=^$", "-test.bench=^" + t.Name() + "$", "-test.benchmem"}
	}
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), inNamespaces+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if _, exited := err.(*exec.ExitError); err != nil && !exited {
		t.Skipf("no user namespaces: %v", err)
	}
	if err != nil || testing.Verbose() || strings.HasPrefix(t.Name(), "Benchmark") {
		fmt.Printf("%s", out)
	}
	if err != nil {
		t.Errorf("in namespaces: %v", err)
	}
	if b, ok := t.(*testing.B); ok {
		b.Skip("measured above, in namespaces")
	}
	return false
}

// fresh runs f on a thread with a network namespace of its own; processes that f starts are in it too.
func fresh(t testing.TB, f func()) {
	t.Helper()
	done := make(chan error)
	go func() {
		err := fmt.Errorf("the test ended in the namespace")
		defer func() { done <- err }()
		runtime.LockOSThread() // and never back: the thread ends with the goroutine
		if err = syscall.Unshare(syscall.CLONE_NEWNET); err != nil {
			return
		}
		err = fmt.Errorf("the test ended in the namespace")
		f()
		err = nil
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// sh runs shell lines and gives what they print.
func sh(t testing.TB, script string) string {
	t.Helper()
	out, err := exec.Command("sh", "-ec", script).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s\n%s", err, out, script)
	}
	return string(out)
}

// veth is a shell function: veth NAME makes an interface that is up and has a carrier.
const veth = `veth() { ip link add $1 type veth peer name p$1; ip link set p$1 up; ip link set $1 up; }
ip link set lo up
`

func mustAddr(s string) wire.Addr {
	r := ParseResolv([]byte("nameserver " + s))
	if list := append(r.Servers4, r.Servers6...); len(list) == 1 {
		return list[0]
	}
	panic("no address: " + s)
}

// copyConfig is what supervisor/conf makes of templates without options.
func copyConfig(v4, v6 *Template) NSConfig {
	c := NSConfig{MTU: 65520}
	for _, f := range []struct {
		t  *Template
		to *FamilyConfig
	}{{v4, &c.V4}, {v6, &c.V6}} {
		f.to.On = true
		if f.t != nil && !f.t.Addr.IsZero() {
			f.to.Addrs, f.to.CopyRoutes, f.to.SrcIfIndex, f.to.Gateway = f.t.Addresses, f.t.Routes, f.t.IfIndex, f.t.Gateway
		}
	}
	if v4 == nil || v4.Addr.IsZero() {
		c.V4 = FamilyConfig{On: true, Addrs: []Address{{Addr: mustAddr("169.254.2.1"), Prefix: 16}}, Gateway: mustAddr("169.254.2.2"), DefaultRoute: true}
	}
	return c
}

// shown is what ip says in the configured namespace.
type shown struct {
	link, addr4, addr6, route4, route6 string
	ll                                 wire.Addr
	notes                              []string
}

// configured makes a tap in a namespace of its own and configures it, through the pipe's form.
func configured(t testing.TB, c NSConfig) (s shown) {
	t.Helper()
	fresh(t, func() {
		tap, err := OpenTap(TapOptions{Name: "guest0"})
		if err != nil {
			t.Skipf("no tap: %v", err)
		}
		defer syscall.Close(tap.FD)
		b, err := c.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		sent, err := UnmarshalNSConfig(b)
		if err != nil {
			t.Fatal(err)
		}
		sent.IfIndex = tap.IfIndex
		if s.notes, s.ll, err = Configure(sent); err != nil {
			t.Fatalf("Configure: %v", err)
		}
		s.addr6 = sh(t, "ip -6 addr show dev guest0") // first: nothing may be tentative even for a moment
		s.addr4 = sh(t, "ip -4 addr show dev guest0")
		s.link = sh(t, "ip link show dev guest0")
		s.route4, s.route6 = sh(t, "ip -4 route"), sh(t, "ip -6 route")
	})
	return s
}
