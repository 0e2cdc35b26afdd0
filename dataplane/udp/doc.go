// SPDX-License-Identifier: Apache-2.0

// Package udp forwards datagrams between the guest link and sockets, and between two sockets (loopback path of
// pasta). Each datagram belongs to a flow: two sides, one timer, at most two sockets. Sockets are made and
// connected by a broker; this package only asks for them, and sends without ever naming a destination:
//
//	guest ──FromGuest──► flow ──send──► connected socket      (missing: wait.go keeps the datagrams, opened.go sends them)
//	guest ◄──frames───── flow ◄─receive─ connected socket
//	                      ▲
//	              ListenEvent: first datagrams of a peer; a socket for the answers is asked for
//
// It never binds or connects, never sends with an address, never lets a datagram of one flow overtake another.
// Read udp.go first, then fromguest.go and fromhost.go.
package udp
