// SPDX-License-Identifier: Apache-2.0

package splice

import "passt/internal/sys"

// copyBytes is the size of the one buffer that all flows of a loop share (docs/decisions/0004-splice-or-copy.md).
const copyBytes = 1 << 20

// firstBytes is what a lane asks for at first, minBytes the least. The size doubles while the sink takes everything and
// shrinks to what it took: what is peeked at and not taken was copied in vain.
const (
	firstBytes = 64 << 10
	minBytes   = 16 << 10
)

// copyMover copies through one buffer that stays warm. What is read is only peeked at; what the sink took is then
// discarded from the source. So nothing needs to be kept when the sink is full, for any number of flows.
type copyMover struct {
	buf  []byte
	used bool // pages of buf may be resident
}

func (m *copyMover) move(j *job) {
	m.used = true
	l := j.lane
	if l.want == 0 {
		l.want = firstBytes
	}
	for j.canRead && j.canWrite && j.budget > 0 {
		want := int(l.want)
		n, e := sys.Recv(j.from, m.buf[:want], sys.MsgPeek)
		if e != 0 || n == 0 {
			j.canRead = false
			if e == 0 {
				l.eof = true
			} else if e != sys.EAGAIN {
				j.err = e
			}
			return
		}
		w, e := sys.Write(j.to, m.buf[:n]) // not sendto: its filter rule looks at arguments, and costs
		if e != 0 {
			j.canWrite = false
			if e != sys.EAGAIN {
				j.err = e
			}
			return
		}
		j.moved += w
		j.budget -= w
		if j.err = discard(j.from, w); j.err != 0 {
			return
		}
		if w < n {
			j.canWrite = false // the short write made the kernel promise an event when there is room
			l.want = uint32(max(minBytes, min(2*w, copyBytes)))
		} else if n == want {
			l.want = uint32(min(2*want, copyBytes))
		} else if !j.hup {
			j.canRead = false // the queue was empty behind these bytes; what comes later makes a new event
		}
	}
}

// discard drops the n bytes that were peeked at. They are in the queue: less than n is an error of the connection.
func discard(fd sys.FD, n int) sys.Errno {
	for n > 0 {
		d, e := sys.Discard(fd, n)
		if e != 0 {
			return e
		}
		if d == 0 {
			return sys.ECONNRESET
		}
		n -= d
	}
	return 0
}
