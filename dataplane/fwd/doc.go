// SPDX-License-Identifier: Apache-2.0

// Package fwd is the address and port policy as plain values: which addresses stand for which, which ports lead
// where, and the grammar of port options. Worker and broker use the same values, so that what one
// translates and what the other connects to cannot differ.
//
// It makes no system call. Read config.go first, then translate.go and rule.go.
package fwd
