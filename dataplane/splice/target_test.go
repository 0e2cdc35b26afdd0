// SPDX-License-Identifier: Apache-2.0

package splice

import (
	"testing"

	"passt/dataplane/flow"
	"passt/dataplane/fwd"
	"passt/dataplane/wire"
)

func TestTarget_ByDirectionAndOptions_AddressAndPort(t *testing.T) {
	lo53, lo6 := wire.Addr4(127, 0, 0, 53), wire.Addr{15: 1}
	guest4 := wire.Addr4(192, 0, 2, 15)
	guest6 := wire.Addr{0x20, 0x01, 0x0d, 0xb8, 15: 5}
	guestL := wire.Addr{0xfe, 0x80, 15: 9}
	full := flow.Guest{Seen4: guest4, Seen6: guest6, SeenL: guestL}
	for _, c := range []struct {
		name   string
		pif    fwd.Pif
		rule   uint16
		our    wire.Addr
		port   uint16
		loToLo bool
		guest  flow.Guest
		want   wire.Addr
		drop   wire.Drop
	}{
		{"out keeps the loopback address (B097)", fwd.PifSplice, 0, lo53, 5001, false, full, lo53, 0},
		{"out, IPv6", fwd.PifSplice, 0, lo6, 5001, false, full, lo6, 0},
		{"out, not loopback", fwd.PifSplice, 0, guest4, 5001, false, full, wire.Addr{}, wire.DropNoRule},
		{"in goes to the external address (B098)", fwd.PifHost, 0, lo53, 5001, false, full, guest4, 0},
		{"in with the option keeps it (B098)", fwd.PifHost, 0, lo53, 5001, true, full, lo53, 0},
		{"in with the option, not loopback", fwd.PifHost, 0, wire.Addr4(198, 51, 100, 1), 5001, true, full, guest4, 0},
		{"in, IPv6", fwd.PifHost, 0, lo6, 5001, false, full, guest6, 0},
		{"in, IPv6, link-local alone", fwd.PifHost, 0, lo6, 5001, false, flow.Guest{SeenL: guestL}, guestL, 0},
		{"in, IPv6, nothing seen", fwd.PifHost, 0, lo6, 5001, false, flow.Guest{Seen4: guest4}, wire.Addr{}, wire.DropAddress},
		{"in, nothing seen", fwd.PifHost, 0, lo53, 5001, false, flow.Guest{}, wire.Addr{}, wire.DropAddress},
		{"port is not the rule's", fwd.PifHost, 0, lo53, 5003, true, full, wire.Addr{}, wire.DropNoRule},
		{"no such rule", fwd.PifHost, 1, lo53, 5001, true, full, wire.Addr{}, wire.DropNoRule},
	} {
		env := &flow.Env{Fwd: &fwd.Config{HostLoToNsLo: c.loToLo}, Guest: c.guest}
		env.HostRules = []fwd.Rule{{Proto: fwd.ProtoTCP, First: 5000, Last: 5002, To: 6000}}
		env.NsRules = env.HostRules
		s := &Splice{env: env}
		to, drop := s.target(&flow.Listener{Pif: c.pif, Rule: c.rule}, &c.our, c.port)
		if drop != c.drop {
			t.Errorf("%s: drop %v", c.name, drop)
			continue
		}
		if drop == 0 && (to.Ep != c.want || to.EpPort != 6001 || to.Pif == c.pif) {
			t.Errorf("%s: %v port %d pif %d", c.name, to.Ep, to.EpPort, to.Pif)
		}
	}
}
