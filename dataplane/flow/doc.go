// SPDX-License-Identifier: Apache-2.0

// Package flow keeps what TCP, UDP, ping and the loopback path share: the table of flows, its hash, the timer
// wheel, and Env, everything that hangs off one event loop. Rows hold no pointer. A flow that ends keeps its row and its
// descriptors until the turn is over, with a new generation, so that a stale event of the same turn finds nothing.
//
// The package makes no decision about a packet. Read env.go first, then table.go.
package flow
