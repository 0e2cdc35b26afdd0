// SPDX-License-Identifier: Apache-2.0

// Package broker makes and connects sockets for the worker, on the host side (in the supervisor) and in the
// namespace (in the agent). It treats the worker as an enemy: fixed sizes, known operations, phases, a rate, and a
// policy check on each address before the connect. It sees no byte of traffic.
//
// It must never hand over a socket that can still choose its peer: stream sockets are connecting, datagram sockets
// are connected, and those that only receive have sending shut down.
//
// Read broker.go first, then ops.go.
package broker
