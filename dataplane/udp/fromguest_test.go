// SPDX-License-Identifier: Apache-2.0

package udp

import (
	"bytes"
	"strconv"
	"strings"
	"testing"

	"passt/dataplane/flow"
	"passt/dataplane/wire"
	"passt/internal/sys"
)

func TestFromGuest_BothFamilies_SourcePortKeptAndReplyReturns(t *testing.T) {
	for _, c := range []struct {
		name, host  string
		guest, dst  wire.Addr
		minFrameLen int
	}{
		{"IPv4", "127.0.0.1:0", guest4, gw4, 42},
		{"IPv6", "[::1]:0", guest6, gw6, 62},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, h := newRig(t), peer(t, c.host)
			free := peer(t, c.host) // a port that nobody else has
			sport := portOf(free)
			free.Close()
			for _, n := range []int{0, 1, 100, 1472, 65464} {
				want := fill(n, 1)
				p := packet(t, c.guest, c.dst, sport, portOf(h), 64, want)
				r.u.FromGuest([]wire.Packet{p})
				r.turn(0)
				got, from := read(t, h)
				if !bytes.Equal(got, want) || from.Port != int(sport) {
					t.Fatalf("%d bytes: got %d from %v", n, len(got), from)
				}
				r.link.got = nil
				if _, err := h.WriteToUDP(want, from); err != nil {
					t.Fatal(err)
				}
				r.until("reply", func() bool { return len(r.link.got) > 0 })
				ps, data := datagrams(t, r.link.got)
				if len(ps) != 1 || !bytes.Equal(data[0], want) || ps[0].Src != c.dst || ps[0].Dst != c.guest ||
					ps[0].SrcPort != portOf(h) || ps[0].DstPort != sport {
					t.Fatalf("%d bytes: %d frames, %+v", n, len(ps), ps)
				}
			}
			if r.env.Table.Used() != 1 || len(r.asked) != 1 {
				t.Fatalf("%d flows, %d requests", r.env.Table.Used(), len(r.asked))
			}
		})
	}
}

func TestFromGuest_SocketOnItsWay_DatagramsWaitInOrder(t *testing.T) {
	r, h := newRig(t), peer(t, "127.0.0.1:0")
	r.hold = true
	var run []wire.Packet
	for k := range 100 {
		run = append(run, packet(t, guest4, gw4, 4444, portOf(h), uint8(10+k%3), fill(1+k*13, byte(k))))
	}
	for k := range run {
		r.u.FromGuest(run[k : k+1])
	}
	r.hold = false
	r.turn(0)
	for k := range run {
		if got, _ := read(t, h); !bytes.Equal(got, fill(1+k*13, byte(k))) {
			t.Fatalf("datagram %d: %d bytes", k, len(got))
		}
	}
	if r.u.wait.left != waitChunks {
		t.Fatalf("%d chunks left of %d", r.u.wait.left, waitChunks)
	}
}

func TestFromGuest_WaitingTooMuch_CountedAndBounded(t *testing.T) {
	r := newRig(t)
	r.hold = true
	for k := range 40 {
		r.u.FromGuest([]wire.Packet{packet(t, guest4, gw4, 4444, 9, 64, fill(60000, byte(k)))})
	}
	if n := r.env.Drops[wire.DropPendingFull]; n != 36 {
		t.Fatalf("%d dropped, want 36 (256 KiB hold 4)", n)
	}
	r.refuse, r.hold = sys.EMFILE, false
	r.turn(0)
	r.turn(0)
	if r.u.wait.left != waitChunks || r.env.Table.Used() != 0 || r.env.Drops[wire.DropNoDescriptor] != 4 {
		t.Fatalf("%d chunks, %d flows, %v", r.u.wait.left, r.env.Table.Used(), r.drops())
	}
}

func TestFromGuest_RunOfEqualDatagrams_OneWriteEach64(t *testing.T) {
	r, h := newRig(t), peer(t, "127.0.0.1:0")
	r.u.FromGuest([]wire.Packet{packet(t, guest4, gw4, 4444, portOf(h), 64, []byte("x"))})
	r.turn(0)
	read(t, h)
	sizes := []int{}
	for range 70 {
		sizes = append(sizes, 900)
	}
	sizes = append(sizes, 100, 900, 0, 0, 1400, 1400, 1200, 1400)
	var run []wire.Packet
	for k, n := range sizes {
		run = append(run, packet(t, guest4, gw4, 4444, portOf(h), 64, fill(n, byte(k))))
	}
	if j := r.u.join(run, 0); j != 64 {
		t.Errorf("first join takes %d", j)
	}
	if j := r.u.join(run, 64); j != 71 {
		t.Errorf("second join ends at %d, want 71", j)
	}
	r.u.FromGuest(run)
	for k, n := range sizes {
		if got, _ := read(t, h); !bytes.Equal(got, fill(n, byte(k))) {
			t.Fatalf("datagram %d: %d bytes, want %d", k, len(got), n)
		}
	}
	if i := r.flow(); r.u.st[i].seg[1] == 0 {
		t.Errorf("UDP_SEGMENT was not used")
	}
}

func TestFromGuest_GSOFrame_SegmentsArrive(t *testing.T) {
	for _, size := range []int{100, 1400, 20000, 40000} {
		r, h := newRig(t), peer(t, "127.0.0.1:0")
		all := fill(60001, 3)
		p := packet(t, guest4, gw4, 4444, portOf(h), 64, all)
		p.GSOSize, p.GSOType = uint16(size), wire.GSOUDPL4
		for range 2 { // waiting, then at once
			r.u.FromGuest([]wire.Packet{p})
			r.turn(0)
			for at := 0; at < len(all); at += size {
				if got, _ := read(t, h); !bytes.Equal(got, all[at:min(at+size, len(all))]) {
					t.Fatalf("size %d at %d: %d bytes", size, at, len(got))
				}
			}
		}
	}
}

func TestFromGuest_TTLChanges_CopiedToSocket(t *testing.T) {
	r, h := newRig(t), peer(t, "127.0.0.1:0")
	for _, ttl := range []uint8{64, 3, 3, 0, 255} {
		r.u.FromGuest([]wire.Packet{packet(t, guest4, gw4, 4444, portOf(h), ttl, []byte("x"))})
		r.turn(0)
		read(t, h)
		want := int(ttl)
		if ttl == 0 {
			want = 64 // the kernel's default
		}
		if v, _ := sys.GetsockoptInt(r.env.Table.Rows[r.flow()].FD[1], sys.OptTTL4.Level, sys.OptTTL4.Name); v != want {
			t.Fatalf("TTL %d: socket has %d", ttl, v)
		}
	}
}

func TestFromGuest_ClosedPort_UnreachableComesAndNextDatagramArrives(t *testing.T) {
	for _, c := range []struct {
		host       string
		guest, dst wire.Addr
		kind       uint8
	}{{"127.0.0.1:0", guest4, gw4, 3}, {"[::1]:0", guest6, gw6, 1}} {
		r, h := newRig(t), peer(t, c.host)
		port := portOf(h)
		h.Close()
		send := func(s string) {
			r.u.FromGuest([]wire.Packet{packet(t, c.guest, c.dst, 4444, port, 64, []byte(s))})
		}
		send("first datagram")
		r.until("ICMP error", func() bool { return len(r.link.got) > 0 })
		b := r.link.got[0].b
		ip := wire.EthSize + wire.IPHeaderLen(&c.dst)
		q := b[ip+8+wire.IPHeaderLen(&c.dst):]
		var p wire.Packet
		if d := p.Parse(b, &wire.Vnet{}); d != wire.DropNone || p.Src != c.dst || p.Dst != c.guest {
			t.Fatalf("%v %+v", d, p)
		}
		sum := wire.Sum(p.L4, 0)
		if !p.Src.Is4() {
			sum = wire.Sum(p.L4, wire.PseudoSum(&p.Src, &p.Dst, wire.ProtoICMPv6, len(p.L4)))
		}
		if wire.Fold(sum) != 0xffff {
			t.Errorf("wrong ICMP checksum")
		}
		if b[ip] != c.kind || q[0] != 4444>>8 || q[1] != 4444&255 || q[2] != byte(port>>8) || q[3] != byte(port) || !bytes.HasPrefix([]byte("first datagram"), q[8:16]) {
			t.Errorf("error % x quotes % x", b[ip:ip+8], q)
		}
		// An error that is still on the socket costs no datagram.
		i := r.flow()
		sys.Send(r.env.Table.Rows[i].FD[1], []byte("provokes the next error"), 0)
		h2 := peer(t, strings.TrimSuffix(c.host, "0")+strconv.Itoa(int(port)))
		send("second")
		if got, _ := read(t, h2); string(got) != "second" {
			t.Errorf("got %q", got)
		}
	}
}

func TestFromGuest_BadEndpoints_Dropped(t *testing.T) {
	for _, c := range []struct {
		src, dst     wire.Addr
		sport, dport uint16
		want         wire.Drop
	}{
		{wire.Addr4(224, 0, 0, 1), gw4, 1, 1, wire.DropAddress},
		{wire.Addr4(0, 0, 0, 0), gw4, 1, 1, wire.DropAddress},
		{guest4, wire.Addr4(0, 0, 0, 0), 1, 1, wire.DropAddress},
		{guest4, gw4, 0, 1, wire.DropPort},
		{guest4, gw4, 1, 0, wire.DropPort},
	} {
		r := newRig(t)
		p := packet(t, c.src, c.dst, c.sport, c.dport, 64, nil)
		r.u.FromGuest([]wire.Packet{p, p})
		if r.env.Drops[c.want] != 2 || r.env.Table.Used() != 0 {
			t.Errorf("%+v: %v", c, r.drops())
		}
	}
}

func TestFromGuest_Refused_GuestIsTold(t *testing.T) {
	r := newRig(t)
	r.refuse = sys.ENETUNREACH
	r.u.FromGuest([]wire.Packet{packet(t, guest4, wire.Addr4(198, 51, 100, 9), 4444, 9, 64, []byte("x"))})
	r.turn(0)
	if len(r.link.got) != 1 || r.link.got[0].b[34] != 3 || r.link.got[0].b[35] != 0 || r.env.Table.Used() != 0 {
		t.Fatalf("%d frames, %d flows", len(r.link.got), r.env.Table.Used())
	}
}

func TestFromGuest_Flood_TableFullCountedAndOldFlowsLive(t *testing.T) {
	r, h := newRig(t), peer(t, "127.0.0.1:0")
	r.u.FromGuest([]wire.Packet{packet(t, guest4, gw4, 4444, portOf(h), 64, []byte("x"))})
	r.turn(0)
	read(t, h)
	r.hold = true
	for k := range 1000 {
		r.u.FromGuest([]wire.Packet{packet(t, guest4, gw4, uint16(5000+k), portOf(h), 64, []byte("flood"))})
	}
	if r.env.Drops[wire.DropTableFull] != 1000-511 {
		t.Errorf("%v", r.drops())
	}
	r.u.FromGuest([]wire.Packet{packet(t, guest4, gw4, 4444, portOf(h), 64, []byte("lives"))})
	if got, _ := read(t, h); string(got) != "lives" {
		t.Errorf("%q", got)
	}
}

func TestFromGuest_Multicast_AnswersFromUnicastReturn(t *testing.T) {
	r := newRig(t)
	r.hold = true
	group := wire.Addr4(224, 0, 0, 251)
	r.u.FromGuest([]wire.Packet{packet(t, guest4, group, 5353, 5353, 255, []byte("question"))})
	q := append([]flow.Request(nil), r.env.TakeRequests()...)
	if len(q) != 1 || q[0].Op != flow.OpUDP || q[0].Dst != group {
		t.Fatalf("asked %+v", q)
	}
	// A loopback peer stands for the group.
	h := peer(t, "127.0.0.1:0")
	fd := r.socket(wire.Addr4(0, 0, 0, 0), 0)
	if err := connect(fd, loop4, portOf(h)); err != nil {
		t.Fatal(err)
	}
	r.u.Opened(&flow.Opened{Flow: q[0].Flow, Slot: 1, FD: sys.FD(fd), Target: group})
	q = append([]flow.Request(nil), r.env.TakeRequests()...)
	if len(q) != 1 || q[0].Op != flow.OpUDPListen || q[0].Slot != 0 || q[0].SrcPort == 0 {
		t.Fatalf("asked %+v", q)
	}
	r.answer(&q[0])
	_, from := read(t, h) // the question left after the second socket was there
	other := peer(t, "127.0.0.1:0")
	other.WriteToUDP([]byte("answer"), from)
	r.until("answer", func() bool { return len(r.link.got) == 1 })
	ps, data := datagrams(t, r.link.got)
	if string(data[0]) != "answer" || ps[0].Src != gw4 || ps[0].SrcPort != portOf(other) || ps[0].DstPort != 5353 {
		t.Errorf("%+v %q", ps[0], data[0])
	}
}
