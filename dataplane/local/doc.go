// SPDX-License-Identifier: Apache-2.0

// Package local answers what the guest asks of its network itself: ARP, neighbour discovery with router advertisements,
// DHCPv4 and DHCPv6. Answers come from the configuration alone; there is no lease and no state of a client. The one table is
// that of the host's neighbours, whose Ethernet addresses the guest sees.
//
//	guest ── ARP, NS, RS, DISCOVER, SOLICIT ──► parse (wire) ──► answer from Config ──► Link
//	host's neighbour table ── SetNeigh ──► neighbours ──► MACFor, announcements
//
// It never passes a frame on, never keeps what a guest sent, makes no system call but the link's and does not allocate while it
// answers, except for log lines, which are rationed. Read local.go first.
package local
