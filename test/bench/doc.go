// SPDX-License-Identifier: Apache-2.0

// Command bench measures one pasta against another in alternating pairs, as an ordinary user, with plain loopback of the
// same machine beside them. It prints medians with their ranges and the ratio; a ratio whose ranges overlap is marked.
//
//	go run ./test/bench [-ours bin/pasta] [-ref /usr/bin/pasta] [-pairs 5] [-seconds 2] [-cc cubic,bbr] [-only REGEXP] [-json FILE]
//
// Read main.go first; cases.go lists what is measured.
package main
