// SPDX-License-Identifier: Apache-2.0

// Package agent is the process on the namespace side of pasta. It starts inside the target's user and network
// namespace, makes and configures the tap, opens the namespace's listening sockets, locks itself down, and then
// serves the worker's requests for sockets on this side with the same broker as the supervisor.
//
// It must never see a byte of traffic, and never leave its namespaces.
//
// Read agent.go first; control.go is its language with the supervisor.
package agent
