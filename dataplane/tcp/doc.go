// SPDX-License-Identifier: Apache-2.0

// Package tcp is TCP on the guest link, one socket of the host behind each connection. Towards the guest nothing is
// kept: data is peeked from the socket and stays in its queue until the guest acknowledges it. From the guest, what
// the socket does not take goes to a bounded pending buffer, so that nothing that a window invited is dropped.
//
//	guest ── FromGuest ─► one (checks) ─► best: newest ACK and window ─► applyAck ─► Discard
//	                          └─► vec: payload of the run ─► deliver ─► socket, else pool ─ drain on PollOut
//	socket ── Event ─► toGuest: peek into segments of the link ─► send;  EndTurn: the ACKs that no data carried
//	timer ── Timer ─► expired: SYN again, retransmission, probe; keep-alive; end after two hours
//
// It must never drop invited data, never move a promised right edge back, never do work that grows with the number of
// connections, and never allocate after New.
//
// Read conn.go first (what a connection is), then fromguest.go and toguest.go.
package tcp
