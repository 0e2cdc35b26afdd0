// SPDX-License-Identifier: Apache-2.0

package seccomp

import (
	"runtime"
	"strconv"
	"strings"
)

// Numbers gives the numbers of all calls of an architecture by name, and with names[nr] back.
func Numbers(arch string) (byName map[string]uint32, names map[uint32]string) {
	byName, names = map[string]uint32{}, map[uint32]string{}
	b, err := programs.ReadFile("programs/syscalls.txt")
	if err != nil {
		return
	}
	column := 1
	if arch == "arm64" {
		column = 2
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) != 3 {
			continue
		}
		if nr, err := strconv.ParseUint(f[column], 10, 32); err == nil { // "-1": not there
			byName[f[0]], names[uint32(nr)] = uint32(nr), f[0]
		}
	}
	return
}

// CallName names a system call of this machine; "unknown" for a number that has none.
func CallName(nr int) string {
	_, names := Numbers(runtime.GOARCH)
	if n := names[uint32(nr)]; n != "" {
		return n
	}
	return "unknown"
}
