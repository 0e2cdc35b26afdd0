// SPDX-License-Identifier: Apache-2.0

// Package supervisor is the trusted process on the host side. It reads the options and the host's configuration, opens
// everything that has a name, starts the namespace agent and the worker, confines itself, and then serves: sockets on
// request, ports to follow, log lines to write, children to reap.
//
// It must never read a byte that a guest or a peer sent.
//
// Read supervisor.go first: Run is the start as a list of named steps.
package supervisor
