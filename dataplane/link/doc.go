// SPDX-License-Identifier: Apache-2.0

// Package link is the guest's layer 2: frames in batches, whatever the transport (tap here, QEMU's stream socket and
// vhost-user behind the same interface). A link knows frames, never flows. It never drops a frame that a caller
// gave it without saying so in the returned count.
//
//	Recv:    kernel or guest memory → Batch → dataplane.Input
//	Reserve: buffers with header room → payload received straight into them → Send
//
// Read link.go first.
package link
