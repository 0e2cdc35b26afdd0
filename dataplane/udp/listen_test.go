// SPDX-License-Identifier: Apache-2.0

package udp

import (
	"bytes"
	"net"
	"testing"

	"passt/dataplane/flow"
	"passt/dataplane/fwd"
	"passt/dataplane/wire"
	"passt/internal/sys"
)

func TestListen_TwoClients_TwoFlowsAndRepliesFindThem(t *testing.T) {
	for _, c := range []struct {
		host        string
		addr, guest wire.Addr
		our         wire.Addr
	}{{"127.0.0.1:0", wire.Addr4(0, 0, 0, 0), guest4, gw4}, {"[::1]:0", wire.Addr{}, guest6, gw6}} {
		r := newRig(t)
		r.env.Fwd.Splice = false
		l := r.listen(fwd.PifHost, c.addr, 7000, wire.Addr{})
		a, b := peer(t, c.host), peer(t, c.host)
		to := &net.UDPAddr{IP: a.LocalAddr().(*net.UDPAddr).IP, Port: int(l.Port)}
		a.WriteToUDP([]byte("from a"), to)
		b.WriteToUDP([]byte("from b"), to)
		r.until("two frames", func() bool { return len(r.link.got) == 2 })
		ps, data := datagrams(t, r.link.got)
		for k := range ps {
			p := &ps[k]
			if p.Src != c.our || p.Dst != c.guest || p.DstPort != 7000 {
				t.Fatalf("%+v", p)
			}
			r.u.FromGuest([]wire.Packet{packet(t, c.guest, p.Src, 7000, p.SrcPort, 64, append([]byte("re: "), data[k]...))})
		}
		r.turn(0)
		for name, s := range map[string]*net.UDPConn{"a": a, "b": b} {
			got, from := read(t, s)
			if string(got) != "re: from "+name || from.Port != int(l.Port) {
				t.Errorf("%s got %q from %v", name, got, from)
			}
		}
		// Later datagrams come on the flow's own socket, even when the listener is gone.
		sys.EpollDel(r.env.Ep, l.FD)
		r.link.got = nil
		a.WriteToUDP([]byte("again"), to)
		r.until("frame", func() bool { return len(r.link.got) == 1 })
		if r.env.Table.Used() != 2 {
			t.Errorf("%d flows", r.env.Table.Used())
		}
	}
}

func TestListen_BurstToFreshPort_AllInOrder(t *testing.T) {
	for _, splice := range []bool{false, true} {
		r := newRig(t)
		r.env.Fwd.Splice, r.env.Fwd.HostLoToNsLo = splice, true
		ns := peer(t, "127.0.0.1:0") // stands for a service in the namespace
		l := r.listen(fwd.PifHost, loop4, portOf(ns), wire.Addr{})
		c := peer(t, "127.0.0.1:0")
		for k := range 100 {
			c.WriteToUDP(fill(1000, byte(k)), &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: int(l.Port)})
			switch k {
			case 30:
				r.hold = true
				r.turn(0)
			case 60:
				r.hold = false
				r.turn(0)
			}
		}
		for k := range 100 {
			var got []byte
			if splice {
				for range 5 {
					r.turn(0)
				}
				got, _ = read(t, ns)
			} else {
				var data [][]byte
				r.until("frames", func() bool { _, data = datagrams(t, r.link.got); return len(data) > k })
				got = data[k]
			}
			if !bytes.Equal(got, fill(1000, byte(k))) {
				t.Fatalf("splice %v: datagram %d is another", splice, k)
			}
		}
		if splice && len(r.link.got) > 0 {
			t.Errorf("%d frames on the link", len(r.link.got))
		}
	}
}

func TestSplice_BothDirections_NoFrameAndPortsKept(t *testing.T) {
	for _, pif := range []fwd.Pif{fwd.PifHost, fwd.PifSplice} {
		r := newRig(t)
		r.env.Fwd.HostLoToNsLo = true
		svc := peer(t, "127.0.0.1:0")
		l := r.listen(pif, loop4, portOf(svc), wire.Addr{})
		c := peer(t, "127.0.0.1:0")
		for _, n := range []int{0, 1, 1472, 65507, 3} {
			c.WriteToUDP(fill(n, 9), &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: int(l.Port)})
			for range 4 {
				r.turn(2)
			}
			got, from := read(t, svc)
			if !bytes.Equal(got, fill(n, 9)) {
				t.Fatalf("%d bytes arrived of %d", len(got), n)
			}
			svc.WriteToUDP(got, from)
			for range 4 {
				r.turn(2)
			}
			if got, from = read(t, c); !bytes.Equal(got, fill(n, 9)) || from.Port != int(l.Port) {
				t.Fatalf("%d bytes came back from %v", len(got), from)
			}
		}
		if len(r.link.got) != 0 || r.env.Table.Used() != 1 || len(r.asked) != 2 {
			t.Errorf("%d frames, %d flows, %d requests", len(r.link.got), r.env.Table.Used(), len(r.asked))
		}
		want := map[fwd.Pif][2]fwd.Pif{fwd.PifHost: {fwd.PifSplice, fwd.PifHost}, fwd.PifSplice: {fwd.PifHost, fwd.PifSplice}}[pif]
		if r.asked[0].To != want[0] || r.asked[1].To != want[1] || r.asked[0].Op != flow.OpSpliceUDP || r.asked[1].Op != flow.OpUDPReply {
			t.Errorf("asked %+v", r.asked)
		}
		if r.asked[0].SrcPort != portOf(c) || (pif == fwd.PifSplice) != (r.asked[0].Src == loop4) {
			t.Errorf("asked %+v", r.asked[0])
		}
	}
}

func TestListen_NamespaceListenerFromOutside_Refused(t *testing.T) {
	r := newRig(t)
	in := inbound{pif: fwd.PifSplice, rule: 0, port: 80, local: loop4, dst: loop4, src: wire.Addr4(192, 0, 2, 9), srcPort: 9}
	r.env.NsRules = []fwd.Rule{{First: 80, Last: 80, To: 80}}
	r.u.inbound(&in, nil, 0)
	if r.env.Drops[wire.DropNoRule] != 1 || r.env.Table.Used() != 0 {
		t.Errorf("%v", r.drops())
	}
}
