// SPDX-License-Identifier: Apache-2.0

// Package dataplane ties the protocols of one event loop together: frames come in as batches, are taken apart
// and go to the protocol that owns the flow; poll events, broker answers and timers go to the owner by the row's kind.
//
//	link.Recv ─► input ─► wire.Packet ─┬─► local (ARP, NDP, DHCP)
//	                                   ├─► tcp, udp, icmp ◄─► sockets
//	listeners ─► accept ───────────────┴─► splice ◄─► sockets
//
// It decides which protocol gets a packet, never what happens to it, and makes no system call besides accept and the loop's own.
//
// Read dataplane.go first, then input.go.
package dataplane
