// SPDX-License-Identifier: Apache-2.0

package udp

import (
	"bytes"
	"fmt"
	"testing"

	"passt/dataplane/link"
	"passt/dataplane/wire"
	"passt/internal/sys"
)

func TestFromHost_ManyDatagrams_InOrderWithAndWithoutOffloads(t *testing.T) {
	for _, f := range []link.Features{{}, {Csum: true}, {Csum: true, TSO: true}, {Csum: true, TSO: true, USO: true}} {
		for _, noBuf := range []bool{false, true} {
			t.Run(fmt.Sprintf("%+v noBuf %v", f, noBuf), func(t *testing.T) {
				r, h := newRig(t), peer(t, "127.0.0.1:0")
				r.link.feat, r.link.noBuf = f, noBuf
				r.env.Cfg.MTU = 1500
				r.u.FromGuest([]wire.Packet{packet(t, guest4, gw4, 4444, portOf(h), 64, []byte("x"))})
				r.turn(0)
				_, from := read(t, h)
				h.WriteToUDP([]byte("y"), from) // the first one ends the search for strangers' datagrams
				r.until("first", func() bool { return len(r.link.got) > 0 })
				r.link.got = nil
				sizes := []int{}
				for range 60 {
					sizes = append(sizes, 1200)
				}
				sizes = append(sizes, 300, 1200, 1200, 0, 1200, 5000, 1, 1, 65507, 2)
				for k, n := range sizes {
					if _, err := h.WriteToUDP(fill(n, byte(k)), from); err != nil {
						t.Fatal(err)
					}
					if n == 65507 || k == 59 { // the receive buffer holds 208 KiB
						r.turn(0)
					}
				}
				r.until("all datagrams", func() bool {
					_, data := datagrams(t, r.link.got)
					return len(data) >= len(sizes)
				})
				_, data := datagrams(t, r.link.got)
				for k, n := range sizes {
					if !bytes.Equal(data[k], fill(n, byte(k))) {
						t.Fatalf("datagram %d: %d bytes, want %d", k, len(data[k]), n)
					}
				}
				if f.USO && !noBuf && len(r.link.got) > len(sizes)-50 {
					t.Errorf("%d frames for %d datagrams", len(r.link.got), len(sizes))
				}
				for _, x := range r.link.got {
					if !f.TSO && len(x.b) > 1514 {
						t.Errorf("frame of %d bytes at MTU 1500", len(x.b))
					}
				}
			})
		}
	}
}

func TestFromHost_GROAggregate_OneFrameOrCut(t *testing.T) {
	for _, uso := range []bool{true, false} {
		r, h := newRig(t), peer(t, "127.0.0.1:0")
		r.link.feat.USO = uso
		r.u.FromGuest([]wire.Packet{packet(t, guest4, gw4, 4444, portOf(h), 64, []byte("x"))})
		r.turn(0)
		_, from := read(t, h)
		raw, _ := h.SyscallConn()
		_ = raw.Control(func(fd uintptr) { sys.OptUDPSegment.Set(sys.FD(fd), 1000) })
		all := fill(20500, 5)
		if _, err := h.WriteToUDP(all, from); err != nil {
			t.Skipf("UDP_SEGMENT: %v", err)
		}
		r.until("frames", func() bool { _, d := datagrams(t, r.link.got); return len(d) == 21 })
		_, data := datagrams(t, r.link.got)
		if !bytes.Equal(bytes.Join(data, nil), all) || len(data[0]) != 1000 {
			t.Errorf("wrong data")
		}
		if want := map[bool]int{true: 1, false: 21}[uso]; len(r.link.got) != want {
			t.Errorf("USO %v: %d frames, want %d", uso, len(r.link.got), want)
		}
	}
}

func TestFromHost_ChecksumComputesToZero_SentAsOnes(t *testing.T) {
	r := newRig(t)
	r.link.feat = link.Features{}
	a := path{src: gw6, dst: guest6, srcPort: 53, dstPort: 4444}
	b := []byte{0, 0}
	var h [8]byte
	a.putUDP(h[:], b)
	b[0], b[1] = h[6], h[7] // now the sum is all ones
	r.u.toGuest(&a, b, 0)
	if f := r.link.got[0].b; f[60] != 0xff || f[61] != 0xff {
		t.Errorf("checksum % x", f[60:62])
	}
	datagrams(t, r.link.got)
}
