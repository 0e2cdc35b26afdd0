// SPDX-License-Identifier: Apache-2.0

// Package tcp is TCP on the guest link, one socket of the host behind each connection. Towards the guest nothing is
// kept: data is peeked from the socket and stays in its queue until the guest acknowledges it. From the guest, what
// the socket does not take goes to a bounded pending buffer, so that nothing that a window invited is dropped.
//
// It must never drop invited data, and never do work that grows with the number of connections.
//
// Read tcp.go first, then fromguest.go and toguest.go.
package tcp
