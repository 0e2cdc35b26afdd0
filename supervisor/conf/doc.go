// SPDX-License-Identifier: Apache-2.0

// Package conf turns the command line into a plan. Parse reads the words into Options (what was typed), Resolve joins
// them with what the host looks like into a Plan: the worker's boot message (numbers and addresses only), and what the
// supervisor and the namespace agent need besides.
//
//	argv ── Parse ──► Options ──┐
//	                            ├── Resolve ──► Plan{Boot, NS, Target, Messages, Summary, ...}
//	kernel, resolv.conf ► Host ─┘   (Load asks the kernel and calls Resolve)
//
// It must never open, create or change anything: it only reads, and only before the lock-down.
//
// Read table.go first: the one table of options.
package conf
