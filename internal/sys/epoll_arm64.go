// SPDX-License-Identifier: Apache-2.0

package sys

// PollEvent is struct epoll_event, with natural alignment on this architecture.
type PollEvent struct {
	Events uint32
	_      uint32
	Tag    [2]uint32
}

// Data gives the tag that was registered.
func (e *PollEvent) Data() uint64 { return uint64(e.Tag[0]) | uint64(e.Tag[1])<<32 }
