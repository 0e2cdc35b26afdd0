// SPDX-License-Identifier: Apache-2.0

package ipc

import (
	"fmt"

	"passt/internal/sys"
)

// Conn is one end of a channel. Not safe for concurrent use.
type Conn struct {
	FD   sys.FD
	sent uint32
	got  uint32
	in   []byte
	out  []byte
	fds  [MaxBatch]sys.FD
}

// NewConn wraps a non-blocking sequenced-packet socket. Buffers lie outside the Go heap.
func NewConn(fd sys.FD) *Conn {
	return &Conn{FD: fd, in: sys.Alloc(HeaderSize + MaxBoot), out: sys.Alloc(HeaderSize + MaxBoot)}
}

// Message is one received packet; Body and FDs are valid until the next Recv. FDs belong to the receiver. They are
// fewer than Header.FDs when this process was out of descriptors: the first ones, in order.
type Message struct {
	Header
	Body []byte
	FDs  []sys.FD
}

// Record gives the i-th record of a message of fixed-size records.
func (m *Message) Record(i int) []byte {
	n := RecordSize(m.Kind)
	return m.Body[i*n : (i+1)*n]
}

// Gone is returned by Recv when the other side has closed.
var errGone = fmt.Errorf("channel closed by the other side")

// Gone tells whether err says that the other side has closed.
func Gone(err error) bool { return err == errGone }

// Recv takes one packet.
//
//	out:    false without an error: nothing there now
//	errors: Gone; ErrFormat (descriptors that came along are closed); a system error
func (c *Conn) Recv(m *Message) (bool, error) {
	n, k, e := sys.RecvFDs(c.FD, c.in, c.fds[:])
	announced := k
	switch {
	case e == sys.EMFILE && n >= HeaderSize && int(c.in[12]) > k && c.in[12] <= MaxBatch:
		announced = int(c.in[12]) // the sender's count is right, the kernel found no free descriptor here
	case e == sys.EMFILE || e == sys.EMSGSIZE:
		c.closeFDs(k)
		return false, fmt.Errorf("%w: a packet above %d bytes, or more than %d descriptors", ErrFormat, len(c.in), MaxBatch)
	case e == sys.EAGAIN:
		return false, nil
	case e == sys.ECONNRESET || e == sys.EPIPE || e == 0 && n == 0:
		return false, errGone
	case e != 0:
		return false, fmt.Errorf("receive: %w", e)
	}
	h, body, err := ParseHeader(c.in[:n], announced)
	if err == nil && h.Seq != c.got {
		err = fmt.Errorf("%w: kind %d: sequence %d, expected %d", ErrFormat, h.Kind, h.Seq, c.got)
	}
	if err != nil {
		c.closeFDs(k)
		return false, err
	}
	c.got++
	*m = Message{Header: h, Body: body, FDs: c.fds[:k]}
	return true, nil
}

func (c *Conn) closeFDs(k int) {
	for _, f := range c.fds[:k] {
		sys.Close(f)
	}
}

// Body gives room for n bytes of body of the next packet to send.
func (c *Conn) Body(n int) []byte { return c.out[HeaderSize : HeaderSize+n] }

// Send sends the first n bytes written to Body as one packet with descriptors (which stay open here).
// EAGAIN: nothing was sent, try later. Without descriptors it is a plain write(2): the worker has no sendmsg.
func (c *Conn) Send(k Kind, count, n int, fds []sys.FD) sys.Errno {
	PutHeader(c.out, Header{Kind: k, Count: uint16(count), Len: uint32(n), Seq: c.sent, FDs: uint8(len(fds))})
	b := c.out[:HeaderSize+n]
	var e sys.Errno
	if len(fds) > 0 {
		e = sys.SendFDs(c.FD, b, fds)
	} else {
		_, e = sys.Write(c.FD, b)
	}
	if e == 0 {
		c.sent++
	}
	return e
}

// PutBytes copies p into Body; for kinds with a body of bounded length.
func (c *Conn) PutBytes(p []byte) int { return copy(c.out[HeaderSize:], p) }
