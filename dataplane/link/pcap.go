// SPDX-License-Identifier: Apache-2.0

package link

import (
	"encoding/binary"

	"passt/dataplane/wire"
	"passt/internal/sys"
)

// CaptureHeader starts a capture file: classic pcap, native byte order, microseconds, version 2.4, snap length 65535, Ethernet.
var CaptureHeader = [24]byte{0: 0xd4, 0xc3, 0xb2, 0xa1, 4: 2, 6: 4, 16: 0xff, 0xff, 20: 1}

const snapLen = 65535

// Capture writes frames to a capture file as they cross the link, checksums completed. The first
// write that fails (disk full) ends the capture; Err keeps the reason, traffic goes on.
type Capture struct {
	fd  sys.FD
	buf []byte
	Err sys.Errno
	// WallNs is added to the monotonic clock to give the time of day, nanoseconds.
	WallNs int64
	Lost   uint64 // frames not written since Err
}

// NewCapture maps the buffer: before the lock-down. Open gives it its file.
func NewCapture() *Capture { return &Capture{fd: sys.NoFD, buf: sys.Alloc(16 + MaxFrame)} }

// Open writes to fd from now on, an open file with its header in place.
func (c *Capture) Open(fd sys.FD, wallNs int64) { c.fd, c.WallNs = fd, wallNs }

// Frame records one frame, given as head and tail (tail may be nil).
func (c *Capture) Frame(head, tail []byte, v *wire.Vnet) {
	if c.Err != 0 {
		c.Lost++
		return
	}
	if c.fd == sys.NoFD {
		return
	}
	full := len(head) + len(tail)
	n := min(full, MaxFrame)
	b := c.buf[16 : 16+n]
	copy(b[copy(b, head):], tail)
	if v.Flags&wire.VnetNeedsCsum != 0 {
		CompleteChecksum(b, v)
	}
	ns := sys.NowNs() + c.WallNs
	le := binary.LittleEndian
	le.PutUint32(c.buf[0:], uint32(ns/1e9))
	le.PutUint32(c.buf[4:], uint32(ns%1e9/1000))
	incl := min(n, snapLen)
	le.PutUint32(c.buf[8:], uint32(incl))
	le.PutUint32(c.buf[12:], uint32(full))
	w, e := sys.Write(c.fd, c.buf[:16+incl])
	if e == 0 && w < 16+incl {
		e = sys.ENOSPC
	}
	if e != 0 {
		c.Err = e
		c.Lost++
	}
}

// CompleteChecksum turns the partial checksum that v describes into a full one, in place. A description
// that does not fit the frame changes nothing.
func CompleteChecksum(b []byte, v *wire.Vnet) {
	start, at := int(v.CsumStart), int(v.CsumStart)+int(v.CsumOffset)
	if start >= len(b) || at+2 > len(b) {
		return
	}
	sum := ^wire.Fold(wire.Sum(b[start:], 0))
	if sum == 0 && v.CsumOffset == 6 {
		sum = 0xffff // UDP: zero means "none" (RFC 768)
	}
	binary.BigEndian.PutUint16(b[at:], sum)
}
