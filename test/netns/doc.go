// SPDX-License-Identifier: Apache-2.0

// Package netns tests pasta on the running kernel: the real binary, an ordinary user, real sockets. The test binary is
// its own set of peers: PASST_ROLE names the small server or client that it runs as, on the host or inside the namespace.
//
// Read harness_test.go first, then roles_test.go.
package netns
