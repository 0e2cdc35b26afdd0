// SPDX-License-Identifier: Apache-2.0

package icmp

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

const inNamespace = "PASST_TEST_IN_NAMESPACE"

// TestMain runs the tests in a user and network namespace of their own where ping sockets are not allowed here: the range of
// groups is a setting of each network namespace.
func TestMain(m *testing.M) {
	if os.Getenv(inNamespace) != "" {
		_ = os.WriteFile("/proc/sys/net/ipv4/ping_group_range", []byte("0 0"), 0)
		if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "loopback: %v: %s\n", err, out)
		}
		os.Exit(m.Run())
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM, syscall.IPPROTO_ICMP)
	if err == nil {
		_ = syscall.Close(fd)
		os.Exit(m.Run())
	}
	c := exec.Command("/proc/self/exe", os.Args[1:]...)
	c.Env = append(os.Environ(), inNamespace+"=1")
	c.Stdout, c.Stderr, c.Stdin = os.Stdout, os.Stderr, os.Stdin
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}}
	if err := c.Run(); c.ProcessState != nil {
		os.Exit(c.ProcessState.ExitCode())
	} else {
		fmt.Fprintf(os.Stderr, "no namespace for ping sockets (%v): tests that need them are skipped\n", err)
	}
	os.Exit(m.Run())
}
