// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"fmt"
	"strings"

	"passt/seccomp"
)

const documentHead = `<!-- Written by make policy from seccomp/policy*.go: change the lists, not this file. -->
# What each process may ask of the kernel

Each process puts a seccomp filter on all its threads when it has opened what it needs. The filter is a list of what is
allowed; any other call, a call with other arguments, a call of a foreign architecture and an x32 call end the whole
process with SIGSYS. The lists are data (seccomp/policy*.go), each rule with the file that makes the call and the
reason. libseccomp compiles them when the project is changed (decisions/0001-libseccomp-at-build-time.md), the
programs are embedded, and nothing of it runs in the shipped binary but one seccomp(2).

The worker's filter is loaded in a form (seccomp/notify.go) in which a call that is not allowed stops instead and never
runs; the supervisor learns which call it was, says so and ends the worker. Kernels before 5.7 end it at once.

- a0..a5 are the call's arguments, compared in all 64 bits.
- "rare" says why a short run may not show the call.
- Exact verdicts and instructions: seccomp/audit/testdata/ROLE.ARCH.golden. Tests prove for every path through each program
  that it says what the rules say, and let victim processes die by calls that are not allowed.

To allow one more call: one line in a list, ` + "`make policy`" + `, read the diff of this file and of the golden text, and say in
the commit what an attacker gains by it.
`

// about says what a role's list means for somebody who took the process over.
func about(role seccomp.Role) string {
	switch role {
	case seccomp.WorkerPasta:
		return `The data path; it reads what the guest sends. No socket, connect, bind or listen; no open of any kind; no
process, no thread, no exec; no sendmsg or sendmmsg and no sendto with an address, so a datagram goes only where the
broker connected its socket to, and no descriptor leaves the process; no executable memory; no ioctl; no socket option but the listed ones.`
	case seccomp.Supervisor:
		return `The host side after its lock-down. It reads fixed-size requests of the worker, never a guest's byte. It makes
TCP, UDP and echo sockets, nothing else; opens no file; signals only processes whose descriptor it holds, apart from
SIGHUP, SIGINT and SIGURG, which the Go runtime sends to itself; starts threads, never a process.`
	case seccomp.Agent:
		return `The namespace side of pasta after its lock-down: the same requests as the supervisor, in the target's network
namespace. No netlink, no ioctl: the tap and its addresses are set up before. No children.`
	}
	return ""
}

// Document is docs/policy.md.
func Document() string {
	var b strings.Builder
	b.WriteString(documentHead)
	for _, role := range seccomp.Roles() {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| call | why | by | rare |\n|---|---|---|---|\n", role, about(role))
		for _, arch := range seccomp.Architectures() {
			for _, r := range seccomp.Rules(role, arch) {
				if arch != "amd64" && r.Only == "" {
					continue
				}
				text := Text(&r)
				if r.Only != "" {
					text += " on " + r.Only
				}
				fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", text, r.Why, r.By, r.Cold)
			}
		}
	}
	return b.String()
}
