// SPDX-License-Identifier: Apache-2.0

// Package arch holds the rules of the source tree as tests: who may import whom, where unsafe code may stand, how large the
// trusted base is. It reads the sources itself, so that nothing is answered from a cache.
package arch
