// SPDX-License-Identifier: Apache-2.0

package priv

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"passt/internal/sys"
)

// Netlink is a route netlink socket of the calling process's network namespace (rtnetlink(7)).
type Netlink struct {
	fd  int
	seq uint32
	buf []byte // one datagram
}

// NlMessage is one request or one part of an answer: the message after its struct nlmsghdr.
type NlMessage struct {
	Kind  uint16 // RTM_*
	Flags uint16 // NLM_F_*; REQUEST, DUMP and ACK are added here
	Body  []byte // fixed part and attributes
}

const (
	// nlDatagram holds what the kernel puts into one datagram of an answer: up to 32 KiB (netlink_dump).
	nlDatagram = 64 << 10
	// nlBatch and nlBatchBytes bound one sendmsg. Answers wait in our receive buffer, 208 KiB by default and about
	// 1 KiB charged for each refusal: 128 fit even if all are refused.
	nlBatch      = 128
	nlBatchBytes = 32 << 10
	// nlRestarts is how often a dump that the kernel calls inconsistent is taken again; then it is used as it is.
	nlRestarts = 5
	// nlWait ends a wait for an answer that never comes, seconds. The kernel answers before send returns.
	nlWait = 10
)

var errNlTruncated = errors.New("netlink: an answer is larger than the buffer")

// DialRoute opens one.
// policy: boot
func DialRoute() (*Netlink, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("netlink socket: %w", err)
	}
	// Each of these only makes answers shorter or waits bounded: a kernel without it still answers.
	_ = unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_GET_STRICT_CHK, 1) // Linux 4.20: dumps of one table and device
	_ = unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_CAP_ACK, 1)        // a refusal does not repeat the request
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: nlWait})
	return &Netlink{fd: fd, buf: make([]byte, nlDatagram)}, nil
}

// Close closes the socket.
// policy: boot
func (n *Netlink) Close() { sys.Close(sys.FD(n.fd)) }

var ne = binary.NativeEndian

func (n *Netlink) appendMessage(b []byte, m *NlMessage, flags uint16) []byte {
	n.seq++
	b = ne.AppendUint32(b, uint32(unix.NLMSG_HDRLEN+len(m.Body)))
	b = ne.AppendUint16(b, m.Kind)
	b = ne.AppendUint16(b, m.Flags|flags|unix.NLM_F_REQUEST)
	b = ne.AppendUint32(b, n.seq)
	b = ne.AppendUint32(b, 0)
	b = append(b, m.Body...)
	for len(b)%unix.NLMSG_ALIGNTO != 0 {
		b = append(b, 0)
	}
	return b
}

// Do sends one request and waits for its acknowledgement.
//
//	errors: sys.Errno of the kernel's refusal, or the socket failed
//
// policy: boot
func (n *Netlink) Do(kind, flags uint16, body []byte) error {
	res, err := n.Exec([]NlMessage{{kind, flags, body}})
	if err == nil && res[0] != 0 {
		err = res[0]
	}
	return err
}

// Exec sends many requests, about a hundred with each system call, in order.
//
//	out:    the kernel's answer to each; a refusal stops no later request
//	errors: the socket failed, the answers are not known
//
// policy: boot
func (n *Netlink) Exec(reqs []NlMessage) ([]sys.Errno, error) {
	res := make([]sys.Errno, len(reqs))
	var b []byte
	for done := 0; done < len(reqs); {
		b = b[:0]
		first, k := n.seq+1, 0
		for k < nlBatch && done+k < len(reqs) && len(b) < nlBatchBytes {
			k++
			last := k == nlBatch || done+k == len(reqs)
			start := len(b)
			b = n.appendMessage(b, &reqs[done+k-1], 0)
			if last || len(b) >= nlBatchBytes {
				// One acknowledgement for the batch: the kernel works in order and reports refusals in any case.
				ne.PutUint16(b[start+6:], ne.Uint16(b[start+6:])|unix.NLM_F_ACK)
			}
		}
		if err := n.send(b); err != nil {
			return nil, err
		}
		if err := n.answers(first, res[done:done+k]); err != nil {
			return nil, err
		}
		done += k
	}
	return res, nil
}

func (n *Netlink) answers(first uint32, res []sys.Errno) error {
	for {
		d, err := n.recv()
		if err != nil {
			return err
		}
		for len(d) > 0 {
			var h nlHeader
			if h, d, err = nextMessage(d); err != nil {
				return err
			}
			i := h.seq - first
			if h.kind != unix.NLMSG_ERROR || int64(i) >= int64(len(res)) {
				continue
			}
			if res[i], err = nlErrno(h.body); err != nil {
				return err
			}
			if int(i) == len(res)-1 {
				return nil
			}
		}
	}
}

// Get sends one request that has one answer.
// policy: boot
func (n *Netlink) Get(kind uint16, body []byte) (NlMessage, error) {
	out, _, err := n.ask(&NlMessage{Kind: kind, Body: body}, 0)
	if err == nil && len(out) == 0 {
		err = errors.New("netlink: no answer")
	}
	if err != nil {
		return NlMessage{}, err
	}
	return out[0], nil
}

// Dump sends one request and gives all messages of the answer, however many they are. Bodies are memory of their own. A
// table that does not exist yet is empty.
// policy: boot
func (n *Netlink) Dump(kind uint16, body []byte) ([]NlMessage, error) {
	for i := 0; ; i++ {
		out, torn, err := n.ask(&NlMessage{Kind: kind, Body: body}, unix.NLM_F_DUMP)
		switch {
		case errors.Is(err, unix.ENOENT):
			return nil, nil
		case errors.Is(err, errNlTruncated) && i < nlRestarts:
			n.buf = make([]byte, 2*len(n.buf))
		case err != nil:
			return nil, err
		case !torn || i >= nlRestarts:
			return out, nil
		}
	}
}

// ask collects one answer; torn when the table changed under a dump.
func (n *Netlink) ask(m *NlMessage, flags uint16) (out []NlMessage, torn bool, err error) {
	if err := n.send(n.appendMessage(nil, m, flags)); err != nil {
		return nil, false, err
	}
	short := false
	for {
		d, err := n.recv()
		switch {
		case errors.Is(err, errNlTruncated) && flags != 0:
			short = true // the rest must be read, else it would be the next answer
			continue
		case err != nil:
			return nil, false, err
		}
		for d = append([]byte(nil), d...); len(d) > 0; {
			var h nlHeader
			if h, d, err = nextMessage(d); err != nil {
				return nil, false, err
			}
			if h.seq != n.seq {
				continue
			}
			torn = torn || h.flags&unix.NLM_F_DUMP_INTR != 0
			switch h.kind {
			case unix.NLMSG_DONE, unix.NLMSG_ERROR:
				// The end of a dump may be in the datagram of its last part (Linux 5.x), and carries its errno (4.20).
				e, err := nlErrno(h.body)
				switch {
				case err != nil:
					return nil, false, err
				case e != 0:
					return nil, false, e
				case short:
					return nil, false, errNlTruncated
				}
				return out, torn, nil
			default:
				if out = append(out, NlMessage{h.kind, h.flags, h.body}); flags == 0 {
					return out, false, nil
				}
			}
		}
	}
}

func (n *Netlink) send(b []byte) error {
	for {
		err := unix.Sendto(n.fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
		if err == nil || err != unix.EINTR {
			return wrapNl("send", err)
		}
	}
}

// recv gives one datagram of the kernel, valid until the next call.
func (n *Netlink) recv() ([]byte, error) {
	for {
		k, from, err := unix.Recvfrom(n.fd, n.buf, unix.MSG_TRUNC)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, wrapNl("receive", err)
		}
		if a, ok := from.(*unix.SockaddrNetlink); !ok || a.Pid != 0 {
			continue // not from the kernel
		}
		if k > len(n.buf) {
			return nil, errNlTruncated
		}
		return n.buf[:k], nil
	}
}

func wrapNl(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("netlink: %s: %w", what, err)
}

type nlHeader struct {
	kind, flags uint16
	seq         uint32
	body        []byte
}

// nextMessage takes one message off a datagram (netlink(7)).
func nextMessage(b []byte) (h nlHeader, rest []byte, err error) {
	if len(b) < unix.NLMSG_HDRLEN {
		return h, nil, fmt.Errorf("netlink: %d bytes left over", len(b))
	}
	l := int(ne.Uint32(b))
	if l < unix.NLMSG_HDRLEN || l > len(b) {
		return h, nil, fmt.Errorf("netlink: message of %d bytes in %d", l, len(b))
	}
	h = nlHeader{ne.Uint16(b[4:]), ne.Uint16(b[6:]), ne.Uint32(b[8:]), b[unix.NLMSG_HDRLEN:l:l]}
	return h, b[min((l+3)&^3, len(b)):], nil
}

// nlErrno reads the errno that begins NLMSG_ERROR and ends a dump; an old kernel's end of a dump has none.
func nlErrno(body []byte) (sys.Errno, error) {
	if len(body) < 4 {
		return 0, nil
	}
	e := int32(ne.Uint32(body))
	if e > 0 || e < -4095 {
		return 0, fmt.Errorf("netlink: error number %d", e)
	}
	return sys.Errno(-e), nil
}
