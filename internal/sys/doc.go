// SPDX-License-Identifier: Apache-2.0

// Package sys is every system call of the running worker, supervisor and agent: one wrapper, one
// call, and a line "policy:" that says which role's seccomp list must hold it. Calls
// that cannot block go past the Go scheduler (raw); EINTR is retried inside, EAGAIN is returned.
//
// It must never decide anything. Start-up calls that need rights live in sys/priv.
// Read fd.go first.
package sys
