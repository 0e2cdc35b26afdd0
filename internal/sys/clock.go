// SPDX-License-Identifier: Apache-2.0

package sys

import _ "unsafe" // for go:linkname

//go:linkname nanotime runtime.nanotime
func nanotime() int64

// NowNs reads CLOCK_MONOTONIC, nanoseconds (through the vDSO: no system call where the machine has one).
// policy: worker, supervisor, agent
func NowNs() int64 { return nanotime() }
