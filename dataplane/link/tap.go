// SPDX-License-Identifier: Apache-2.0

package link

import (
	"passt/dataplane/wire"
	"passt/internal/sys"
)

const (
	tapArena = 512 << 10 // bytes of frames read in one batch: stays in the second-level cache
	tapRoom  = wire.VnetSize + MaxFrame
	tapSegs  = 8
	tapSeg   = 66 << 10 // bytes of one outgoing buffer: header room and 64 KiB
	segHead  = 128      // most header bytes in front of a payload, virtio-net header included
)

// Tap is pasta's tap device with (or without) the virtio-net header. Not safe for concurrent use.
type Tap struct {
	fd      sys.FD
	feat    Features
	vnet    int // bytes of virtio-net header in front of each frame, 0 or wire.VnetSize
	arena   []byte
	out     []byte
	segs    [tapSegs]Seg
	vecs    [tapSegs]sys.Iovec
	Capture *Capture // nil: no capture
}

// TUN_F bits of Grant.Arg (linux/if_tun.h).
const (
	tunCsum = 0x01
	tunTSO4 = 0x02
	tunTSO6 = 0x04
	tunUSO4 = 0x20
	tunUSO6 = 0x40
)

// NewTap is PrepareTap and Attach in one.
func NewTap(fd sys.FD, offloads uint32, vnet bool) *Tap {
	t := PrepareTap()
	t.Attach(fd, offloads, vnet)
	return t
}

// PrepareTap maps the buffers: before the lock-down, after which nothing of the kind is allowed.
func PrepareTap() *Tap {
	return &Tap{fd: sys.NoFD, arena: sys.Alloc(tapArena + tapRoom), out: sys.Alloc(tapSegs * tapSeg)}
}

// Attach takes a configured, non-blocking tap descriptor into use.
//
//	in: offloads, the TUN_F bits in force; vnet, whether frames carry the 12-byte virtio-net header
func (t *Tap) Attach(fd sys.FD, offloads uint32, vnet bool) {
	t.fd, t.vnet, t.feat = fd, 0, Features{}
	if vnet {
		t.vnet = wire.VnetSize
		// What the namespace's stack accepts from us needs no negotiation: the kernel segments or
		// completes where a socket does not take it. The offload bits concern what comes from it.
		t.feat = Features{Csum: true, TSO: true, USO: offloads&(tunUSO4|tunUSO6) == tunUSO4|tunUSO6}
	}
}

func (t *Tap) FD() sys.FD         { return t.fd }
func (t *Tap) Features() Features { return t.feat }

// Recv reads frames until the arena is used up, the batch is full or the tap is empty.
func (t *Tap) Recv(b *Batch) sys.Errno {
	b.N = 0
	for at := 0; at < tapArena && b.N < MaxFrames; {
		buf := t.arena[at : at+tapRoom]
		n, e := sys.Read(t.fd, buf)
		if e != 0 {
			return e
		}
		if n == 0 {
			return sys.EBADF // end of file: no tap gives that while it exists
		}
		if n <= t.vnet {
			continue
		}
		f := &b.Frames[b.N]
		f.Vnet = wire.Vnet{}
		if t.vnet > 0 {
			f.Vnet = wire.ParseVnet(buf)
		}
		f.Data = buf[t.vnet:n:n]
		b.N++
		if t.Capture != nil {
			t.Capture.Frame(f.Data, nil, &f.Vnet)
		}
		at += (n + 63) &^ 63
	}
	return 0
}

// Reserve implements Link; hdrLen ≤ segHead - wire.VnetSize, payload is cut to 64 KiB.
func (t *Tap) Reserve(hdrLen, payload, n int) []Seg {
	n = min(n, tapSegs)
	payload = min(payload, tapSeg-segHead)
	for i := range n {
		b := t.out[i*tapSeg : (i+1)*tapSeg]
		s := &t.segs[i]
		s.Hdr = b[segHead-hdrLen : segHead : segHead]
		s.Buf = b[segHead : segHead+payload : segHead+payload]
		t.vecs[i].Set(s.Buf)
		s.Vec = t.vecs[i : i+1 : i+1]
		s.Len = 0
		s.Vnet = wire.Vnet{}
	}
	return t.segs[:n]
}

// Send writes each segment at once: a tap has no queue of its own that would make waiting worth while.
func (t *Tap) Send(segs []Seg) (int, sys.Errno) {
	for i := range segs {
		s := &segs[i]
		// The segment's header ends at segHead of its buffer, whatever its length.
		k := t.index(s)
		b := t.out[k*tapSeg : (k+1)*tapSeg]
		from, to := segHead-len(s.Hdr), segHead+s.Len
		if short := wire.MinFrame - (to - from); short > 0 {
			clear(b[to : to+short])
			to += short
		}
		if t.Capture != nil {
			t.Capture.Frame(b[from:to], nil, &s.Vnet)
		}
		if t.vnet > 0 {
			from -= t.vnet
			s.Vnet.Put(b[from:])
		}
		if _, e := sys.Write(t.fd, b[from:to]); e != 0 {
			return i, e
		}
	}
	return len(segs), 0
}

// index finds the buffer of a segment that Reserve gave.
func (t *Tap) index(s *Seg) int {
	for i := range t.segs {
		if s == &t.segs[i] {
			return i
		}
	}
	panic("link: segment was not reserved")
}

// Flush implements Link; nothing is queued.
func (t *Tap) Flush() sys.Errno { return 0 }
