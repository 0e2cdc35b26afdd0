// SPDX-License-Identifier: Apache-2.0

// Package wire reads and writes packet headers. A header is a typed byte slice; the only way to get
// one is a Parse function, which checks every length once, so getters need no check. Encoders write into a
// given slice. The package never decides what an address means, never allocates and makes no system call.
//
// Read packet.go first: it takes a frame apart in one pass.
package wire
