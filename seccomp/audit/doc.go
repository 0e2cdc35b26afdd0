// SPDX-License-Identifier: Apache-2.0

// Package audit checks and prints what package seccomp loads: it evaluates filter programs and rules as the kernel
// does, proves that both say the same on every path, and writes docs/policy.md and the golden texts.
//
// Never: be part of the shipped program. The generator (seccomp/gen) and tests use it, nothing else.
//
// Read first: sim.go (one call through a program and through the rules), then walk.go (all of them).
package audit
