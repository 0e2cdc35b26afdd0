// SPDX-License-Identifier: Apache-2.0

package local

import (
	"bytes"
	"testing"

	"passt/dataplane/fwd"
	"passt/dataplane/wire"
)

// request gives the guest's ARP packet with an Ethernet destination of its choice.
func (r *rig) request(op uint16, sender, target string) *wire.Packet {
	b := make([]byte, 60)
	wire.PutEth(b, &wire.MAC{2, 9, 9, 9, 9, 9}, &guestMAC, wire.EtherARP)
	(&wire.ARPMessage{Op: op, SenderMAC: guestMAC, SenderIP: ip(sender), TargetIP: ip(target)}).Put(b[14:])
	p := new(wire.Packet)
	if d := p.Parse(b, &wire.Vnet{}); d != wire.DropNone {
		r.t.Fatal(d)
	}
	return p
}

func TestProbe_OnConnect_ARPThenSolicitation(t *testing.T) {
	r := newRig(t, nil)
	r.s.Probe()
	g := r.take()
	if len(g) != 2 {
		t.Fatalf("%d frames", len(g))
	}
	want := "\xff\xff\xff\xff\xff\xff\x9a\x55\x9a\x55\x9a\x55\x08\x06" + "\x00\x01\x08\x00\x06\x04\x00\x01" +
		"\x9a\x55\x9a\x55\x9a\x55\xc6\x33\x64\x01" + "\xff\xff\xff\xff\xff\xff\xc6\x33\x64\x0a"
	if len(g[0]) != 60 || string(g[0][:42]) != want || !bytes.Equal(g[0][42:], make([]byte, 18)) {
		t.Errorf("% x", g[0])
	}
	f := r.decode(g[1])
	if f.dst != (wire.MAC{0x33, 0x33, 0xff, 0, 0, 0x10}) || f.src != ourMAC || f.to != "ff02::1:ff00:10" || f.from != "fe80::1" || f.l4[0] != 135 ||
		!bytes.Equal(f.l4[8:24], a6[:]) || string(f.l4[24:]) != "\x01\x01\x9a\x55\x9a\x55\x9a\x55" {
		t.Errorf("%+v", f)
	}
	for _, c := range []func(*Config, *fwd.Config){
		func(_ *Config, f *fwd.Config) { f.V4.On, f.V6.On = false, false },
		func(c *Config, f *fwd.Config) { f.V4.Our, f.V6.Guest = wire.Addr{}, wire.Addr{} },
		func(c *Config, f *fwd.Config) { f.V4.Guest, c.NDP = wire.Addr{}, false },
	} {
		r := newRig(t, c)
		r.s.Probe()
		r.none("nothing to ask for")
	}
}

func TestARP_Requests_AnsweredForTheWorld(t *testing.T) {
	for _, c := range []struct {
		name           string
		op             uint16
		sender, target string
		answer         bool
	}{
		{"gateway", 1, "198.51.100.10", "198.51.100.1", true},
		{"off-subnet", 1, "198.51.100.10", "203.0.113.9", true},
		{"peer of a point-to-point link", 1, "198.51.100.10", "192.0.2.77", true},
		{"nobody", 1, "198.51.100.10", "0.0.0.0", true},
		{"own address", 1, "198.51.100.77", "198.51.100.10", false},
		{"announcement", 1, "198.51.100.77", "198.51.100.77", false},
		{"reply", 2, "198.51.100.10", "198.51.100.1", false},
		{"other operation", 3, "198.51.100.10", "198.51.100.1", false},
		{"probe for a free address", 1, "0.0.0.0", "198.51.100.77", false},
		{"probe for a free address elsewhere", 1, "0.0.0.0", "203.0.113.9", false},
		{"probe for the gateway", 1, "0.0.0.0", "198.51.100.1", true},
		{"probe for a neighbour", 1, "0.0.0.0", "198.51.100.44", true},
		{"probe for own address", 1, "0.0.0.0", "198.51.100.10", false},
	} {
		r := newRig(t, nil)
		r.s.SetNeigh(ip("198.51.100.44"), mac44)
		r.take()
		r.s.ARP(r.request(c.op, c.sender, c.target))
		if !c.answer {
			r.none(c.name)
			if r.env.Drops[wire.DropARP] != 1 {
				t.Errorf("%s: not counted", c.name)
			}
			continue
		}
		f := r.one()
		mac := ourMAC
		if c.target == "198.51.100.44" {
			mac = mac44
		}
		tip, sip := ip(c.target), ip(c.sender)
		want := "\x00\x01\x08\x00\x06\x04\x00\x02" + string(mac[:]) + string(tip[12:]) + string(guestMAC[:]) + string(sip[12:])
		if f.dst != guestMAC || f.src != ourMAC || len(f.raw) != 60 || string(f.l4[:28]) != want {
			t.Errorf("%s: % x", c.name, f.raw)
		}
	}
}

func TestARP_NeighbourOfGateway_ShownForAllOffLink(t *testing.T) {
	for _, mapped := range []bool{false, true} {
		r := newRig(t, func(_ *Config, f *fwd.Config) {
			if !mapped { // --no-map-gw
				f.V4.MapLoop = wire.Addr{}
			}
		})
		r.s.SetNeigh(g4, mac44)
		r.take()
		for _, target := range []string{"198.51.100.1", "203.0.113.9"} {
			r.s.ARP(r.request(1, "198.51.100.10", target))
			if got := wire.MAC(r.one().l4[8:14]); (got == mac44) == mapped || mapped && got != ourMAC {
				t.Errorf("mapped %v, %s: %v", mapped, target, got)
			}
		}
	}
}

func TestARP_EachTruncation_Drops(t *testing.T) {
	r := newRig(t, nil)
	p := r.request(1, "198.51.100.10", "198.51.100.1")
	whole := p.L4
	for n := range 28 {
		p.L4 = whole[:n]
		r.s.ARP(p)
		r.none("truncated")
	}
}
