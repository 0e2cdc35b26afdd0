// SPDX-License-Identifier: Apache-2.0

// Package ipc is the language between the supervisor, the namespace agent and the
// worker: sequenced packets over a Unix socket pair, fixed sizes, known kinds.
//
//	supervisor ── Boot, Grant, Revoke, Reply ──►  worker
//	supervisor ◄── Ready, Connect, Pipe, Log ───  worker
//	agent      ── Grant, Revoke, Reply ────────►  worker
//	agent      ◄── Connect, Pipe ───────────────  worker
//
// Each packet is one header of 16 bytes and Count records of the kind's fixed size
// (Boot and Log: one body of bounded length). A packet that does not fit its kind exactly is an error
// that ends the peer. The package decides nothing and never blocks.
//
// Read message.go first.
package ipc
