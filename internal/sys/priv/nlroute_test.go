// SPDX-License-Identifier: Apache-2.0

package priv

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"
)

func TestNextMessage_TwoAndEnd(t *testing.T) {
	n := &Netlink{seq: 6}
	b := n.appendMessage(nil, &NlMessage{Kind: unix.RTM_NEWROUTE, Flags: unix.NLM_F_CREATE, Body: []byte{1, 2, 3, 4, 5}}, unix.NLM_F_ACK)
	b = n.appendMessage(b, &NlMessage{Kind: unix.NLMSG_DONE}, 0) // the end of a dump in the datagram of its last part
	h, rest, err := nextMessage(b)
	if err != nil || h.kind != unix.RTM_NEWROUTE || h.seq != 7 || h.flags != unix.NLM_F_CREATE|unix.NLM_F_ACK|unix.NLM_F_REQUEST || !bytes.Equal(h.body, []byte{1, 2, 3, 4, 5}) {
		t.Errorf("first: %+v %v", h, err)
	}
	if h, rest, err = nextMessage(rest); err != nil || h.kind != unix.NLMSG_DONE || h.seq != 8 || len(h.body)+len(rest) != 0 {
		t.Errorf("second: %+v %d bytes left, %v", h, len(rest), err)
	}
	for i := range 21 {
		if _, _, err := nextMessage(b[:i:i]); err == nil {
			t.Errorf("%d of 21 bytes taken", i)
		}
	}
}

func TestNlErrno_RangeAndOldKernels(t *testing.T) {
	minus := func(e int32) []byte { return ne.AppendUint32(nil, uint32(-e)) }
	if e, err := nlErrno(minus(int32(unix.ENETUNREACH))); e != unix.ENETUNREACH || err != nil {
		t.Errorf("refusal: %v %v", e, err)
	}
	for _, b := range [][]byte{nil, {0, 0, 0, 0}} {
		if e, err := nlErrno(b); e != 0 || err != nil {
			t.Errorf("% x: %v %v", b, e, err)
		}
	}
	for _, e := range []int32{-1, 4096} {
		if _, err := nlErrno(minus(e)); err == nil {
			t.Errorf("error number %d taken", -e)
		}
	}
}

// TestDump_SmallBuffer_WholeAnswer begins with a buffer that no part of the answer fits in.
func TestDump_SmallBuffer_WholeAnswer(t *testing.T) {
	n, err := DialRoute()
	if err != nil {
		t.Skipf("no netlink: %v", err)
	}
	defer n.Close()
	all, err := n.Dump(unix.RTM_GETLINK, make([]byte, unix.SizeofIfInfomsg))
	if err != nil || len(all) == 0 {
		t.Fatalf("%d links, %v", len(all), err)
	}
	n.buf = make([]byte, 256)
	again, err := n.Dump(unix.RTM_GETLINK, make([]byte, unix.SizeofIfInfomsg))
	if err != nil || len(again) != len(all) {
		t.Errorf("%d links, want %d, %v", len(again), len(all), err)
	}
}

func FuzzNextMessage(f *testing.F) {
	f.Add((&Netlink{}).appendMessage(nil, &NlMessage{Kind: 3, Body: []byte{1}}, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		sum := 0
		for rest := b; len(rest) > 0; {
			before := len(rest)
			h, next, err := nextMessage(rest)
			if err != nil {
				return
			}
			if used := before - len(next); used < unix.NLMSG_HDRLEN+len(h.body) || used > unix.NLMSG_HDRLEN+len(h.body)+3 {
				t.Fatalf("%d bytes used for a body of %d", used, len(h.body))
			}
			sum += len(h.body)
			rest = next
		}
		if sum > len(b) {
			t.Fatalf("bodies of %d bytes in %d", sum, len(b))
		}
	})
}
