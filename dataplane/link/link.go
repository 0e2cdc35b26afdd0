// SPDX-License-Identifier: Apache-2.0

package link

import (
	"passt/dataplane/wire"
	"passt/internal/sys"
)

// MaxFrames is the most frames in one Batch: more did not pay (measured), fewer did worse.
const MaxFrames = 64

// MaxFrame is the largest frame, bytes: a 65535-byte IP packet and its Ethernet header.
const MaxFrame = 65535 + wire.EthSize

// Features says what the other side of the link takes over.
type Features struct {
	Csum  bool // frames to the guest may leave the L4 checksum to it (NEEDS_CSUM)
	TSO   bool // frames to the guest may be TCP segments of up to 64 KiB (GSO)
	USO   bool // the same for UDP
	Multi bool // Reserve can give several segments for one receive call
}

// Frame is one frame from the guest; Data is valid until the next Recv.
type Frame struct {
	Data []byte // from the Ethernet header on
	Vnet wire.Vnet
}

// Batch is a set of frames from the guest.
type Batch struct {
	Frames [MaxFrames]Frame
	N      int
}

// Seg is one frame to the guest under construction.
//
//	Hdr: room for Ethernet to L4 header, exactly the length asked for
//	Buf: room for payload, directly behind Hdr where the link's memory allows (tap), else nil
//	Vec: the same room as vectors, for receiving straight into it
//	Len: payload bytes in use, set by the caller before Send
type Seg struct {
	Hdr  []byte
	Buf  []byte
	Vec  []sys.Iovec
	Len  int
	Vnet wire.Vnet
}

// Link is one guest link.
type Link interface {
	// FD is what to poll for PollIn (and PollOut after Send took less than all).
	FD() sys.FD
	Features() Features
	// Recv fills b with what is there; b.N frames. EAGAIN: nothing (more) there; other errors end the link.
	Recv(b *Batch) sys.Errno
	// Reserve gives up to n segments, each with hdrLen bytes of header and room for at most payload bytes.
	// It may give fewer, or none when the link is full. The slice is valid until the next Reserve or Send.
	Reserve(hdrLen, payload, n int) []Seg
	// Send sends reserved segments in order and tells how many the link took; the rest was not sent.
	Send(segs []Seg) (int, sys.Errno)
	// Flush ends one turn of the loop: whatever Send queued leaves now.
	Flush() sys.Errno
}
