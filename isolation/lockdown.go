// SPDX-License-Identifier: Apache-2.0

package isolation

import (
	"fmt"
	"os/signal"

	"passt/internal/sys/priv"
)

// LockdownSupervisor takes capabilities, file access and abstract Unix sockets from all threads. Everything with a
// name must be open before, and every child started.
//
//	stays: dumpable (a caller may watch our /proc/PID/ns/user); signals to children; TCP bind and connect: its work
//	out:   Landlock's ABI, 0 where the kernel has none
//	cost:  0.3 ms; with CAP_SETPCAP (root, or root in a user namespace) 1..13 ms, since each of 41 capabilities leaves
//	       the bounding set by its own stop of all threads
func LockdownSupervisor() (abi int, err error) { return lockdown(0, landlockDeny{}) }

// LockdownAgent takes everything but the named capabilities from the agent; it has no children, so signals go too.
func LockdownAgent(keep ...Cap) (abi int, err error) {
	leaveSignals()
	if abi, err = lockdown(capMask(keep), landlockDeny{signals: true}); err != nil {
		return abi, err
	}
	if e := priv.Dumpable(false); e != 0 {
		return abi, fmt.Errorf("not dumpable: %w", e)
	}
	return abi, dieWithParent()
}

// leaveSignals makes agent and worker ignore the signals that end a service or a terminal's job: service managers and the terminal
// send them to every process at once, and the supervisor says how it ends. Dying of one in the Go way also takes calls that the
// filters forbid, and would look like an attack. The end of the supervisor ends both in any case.
func leaveSignals() {
	signal.Ignore(priv.SIGTERM, priv.SIGQUIT, priv.SIGINT, priv.SIGHUP, priv.SIGPIPE)
}

func lockdown(keep uint64, deny landlockDeny) (abi int, err error) {
	if err := keepCaps(priv.AllThreads, keep); err != nil {
		return 0, err
	}
	if e := priv.NoNewPrivs(priv.AllThreads); e != 0 {
		return 0, fmt.Errorf("no_new_privs: %w", e)
	}
	return landlockAll(deny)
}
