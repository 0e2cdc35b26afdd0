// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"fmt"
	"os"

	"passt/isolation"
)

// Launch is the life of the process that becomes the command: user 0 and process 1 of new namespaces. It waits until
// the network is ready.
//
//	in:  args, the role word, the host name ("": default), the program, and the command's argv
//	out: the exit status where the command cannot be run
func Launch(args []string) int {
	if len(args) < 4 {
		return 1
	}
	for _, w := range isolation.LauncherSetup(args[1]) {
		fmt.Fprintln(os.Stderr, w)
	}
	status, err := isolation.LauncherExec(isolation.FirstFD, args[2], args[3:])
	fmt.Fprintf(os.Stderr, "pasta: %v\n", err)
	return status
}
