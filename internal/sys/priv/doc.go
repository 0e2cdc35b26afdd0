// SPDX-License-Identifier: Apache-2.0

// Package priv is the system calls of start-up: those that need a right, make a process, or give a right up. No role
// makes them after its lock-down, and no seccomp list of a role holds them ("policy: boot"). One wrapper, one call;
// the errno comes back bare, and the caller names the object.
//
// It must never decide anything, and the worker's packages must never import it.
// Read clone_join_unsafe.go first: the child of a raw fork is the only code here that is not a plain wrapper.
package priv
