// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"passt/dataplane/link"
	"passt/dataplane/wire"
	"passt/internal/sys"
)

// fakeLink is a link in memory; room as the tap's.
type fakeLink struct {
	feat   link.Features
	mem    []byte
	segs   [8]link.Seg
	vecs   [16]sys.Iovec
	split  bool // room in two vectors, as a ring of guest descriptors gives
	full   bool // nothing to reserve
	stuck  bool // room to reserve, but Send takes nothing
	atMost int  // most frames of one Send, 0: all
	mute   bool // count only
	frames int
	got    func(b []byte, v wire.Vnet)
}

func (l *fakeLink) FD() sys.FD                 { return sys.NoFD }
func (l *fakeLink) Features() link.Features    { return l.feat }
func (l *fakeLink) Recv(*link.Batch) sys.Errno { return sys.EAGAIN }
func (l *fakeLink) Flush() sys.Errno           { return 0 }

func (l *fakeLink) Reserve(h, p, n int) []link.Seg {
	if l.full {
		return nil
	}
	n = min(n, len(l.segs))
	for k := range n {
		b := l.mem[k*70000 : (k+1)*70000]
		clear(b[200-h : 200])
		s := &l.segs[k]
		*s = link.Seg{Hdr: b[200-h : 200 : 200], Buf: b[200 : 200+p : 200+p]}
		l.vecs[2*k].Set(s.Buf)
		s.Vec = l.vecs[2*k : 2*k+1]
		if l.split && p > 7 {
			l.vecs[2*k].Set(s.Buf[:7]) // an odd length, for the checksum
			l.vecs[2*k+1].Set(s.Buf[7:])
			s.Vec = l.vecs[2*k : 2*k+2]
		}
		if l.split {
			s.Buf = nil
		}
	}
	return l.segs[:n]
}

func (l *fakeLink) Send(segs []link.Seg) (int, sys.Errno) {
	if l.full || l.stuck {
		return 0, sys.EAGAIN
	}
	if l.atMost > 0 && len(segs) > l.atMost {
		n, _ := l.Send(segs[:l.atMost])
		return n, sys.EAGAIN
	}
	l.frames += len(segs)
	for k := 0; k < len(segs) && !l.mute; k++ {
		b := l.mem[k*70000 : (k+1)*70000]
		l.got(append([]byte(nil), b[200-len(segs[k].Hdr):200+segs[k].Len]...), segs[k].Vnet)
	}
	return len(segs), 0
}
