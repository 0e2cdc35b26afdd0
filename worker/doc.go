// SPDX-License-Identifier: Apache-2.0

// Package worker is the confined process: it gets a Boot message, makes its tables, locks itself down, says
// Ready, and only then gets the guest's link and the listeners. From then on one loop moves every byte.
//
// It must never open, create or connect anything: what it needs comes as a descriptor from the supervisor or the
// namespace agent. It imports neither net nor os, and no package of the supervisor.
//
// Read worker.go first, then loop.go.
package worker
