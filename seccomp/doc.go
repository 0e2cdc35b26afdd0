// SPDX-License-Identifier: Apache-2.0

// Package seccomp holds what each of our processes may ask of the kernel once it is confined: one list of rules per
// role, as data, and the loader of the filter programs compiled from it.
//
// Never: build a filter at run time, allow a call "just in case", or know anything but numbers and names of calls.
//
// Read first: policy_worker.go (the list that meets the guest), then rule.go (what a rule says).
//
//	policy*.go ──► gen/ (libseccomp, build time) ──► programs/ROLE.ARCH.bpf ──go:embed──► Load(role)
//	    │                                                   │
//	    └──► audit.Allowed (rules as written) ◄── equal? ──► audit.Run (the program), audit.Compare (all its paths)
//
// To allow one more call: add one line to a list, run `make policy`, and read the diff of audit/testdata/ and
// docs/policy.md. Everything that is not in the list ends the whole process with SIGSYS (the worker's list: stops, notify.go); so do calls of a foreign
// architecture and, on amd64, x32 calls.
package seccomp
