// SPDX-License-Identifier: Apache-2.0

// Package splice carries pasta's loopback TCP connections from socket to socket, past the guest link.
//
//	accepted socket (side 0) ──lane 0──► connected socket (side 1)
//	                         ◄──lane 1──
//
// A lane reads only what its sink takes: the copy mover peeks, writes, and then discards what was written; the pipe
// mover fills an empty pipe and drains it. So a blocked reader holds back its writer through the kernel's own
// windows, and nothing is lost with the process's buffers. An end of file is passed on when its lane is empty, a reset at once.
//
// The package never makes or connects a socket (the brokers do), never looks at a byte, and does nothing
// periodically. Read splice.go first, then lane.go.
package splice
