// SPDX-License-Identifier: Apache-2.0

package conf

import (
	"fmt"
	"strings"
	"testing"

	"passt/supervisor/host"
)

const kernelRoute = 2 // RTPROT_KERNEL

// routed is the usual host with a connected and a default route per family.
func routed() *Host {
	h := usual()
	h.V4.Routes = []host.Route{{Prefix: 24, Protocol: kernelRoute}, {Gateway: ip("198.51.100.1")}}
	h.V6.Routes = []host.Route{{Prefix: 64, Protocol: kernelRoute}, {Gateway: ip("fe80::100")}}
	return h
}

// nsText prints what the agent is told about one family.
func nsText(f *host.FamilyConfig) string {
	if !f.On {
		return "off"
	}
	var b strings.Builder
	for _, a := range f.Addrs {
		fmt.Fprintf(&b, "%s/%d ", a.Addr, a.Prefix)
	}
	if f.CopyRoutes != nil {
		fmt.Fprintf(&b, "copy %d from %d, protocol %d", len(f.CopyRoutes), f.SrcIfIndex, f.CopyRoutes[0].Protocol)
	} else if f.DefaultRoute {
		fmt.Fprintf(&b, "via %s", f.Gateway)
	}
	return strings.TrimSpace(b.String())
}

func TestResolve_ConfigNet_CopiesUnlessGiven(t *testing.T) {
	const copy4 = "198.51.100.10/24 198.51.100.20/24 copy 2 from 2, protocol 2"
	const copy6 = "2001:db8:9::10/64 copy 2 from 2, protocol 2"
	forced := loOnly()
	forced.DefaultV6 = true
	for _, c := range []struct {
		h            *Host
		line         string
		want4, want6 string
	}{
		{routed(), "pasta --config-net", copy4, copy6},
		{routed(), "pasta --config-net -n 16", strings.Replace(copy4, "/24", "/16", 1), copy6},
		{routed(), "pasta --config-net -a 10.5.5.5/24 -g 10.5.5.1", "10.5.5.5/24 via 10.5.5.1", copy6},
		{routed(), "pasta --config-net -a 10.1.2.3", "10.1.2.3/8 copy 2 from 2, protocol 0", copy6},
		{routed(), "pasta --config-net -g 198.51.100.77 -a 10.1.2.3", "10.1.2.3/8 via 198.51.100.77", copy6},
		{routed(), "pasta --config-net -g 198.51.100.77", "198.51.100.10/24 198.51.100.20/24 via 198.51.100.77", copy6},
		{routed(), "pasta --config-net -a 2001:db8::5", copy4, "2001:db8::5/64 copy 2 from 2, protocol 0"},
		{routed(), "pasta --config-net -4", copy4, "off"},
		{loOnly(), "pasta --config-net", "169.254.2.1/16 via 169.254.2.2", ""},
		{loOnly(), "pasta --config-net -a 2001:db8::5", "169.254.2.1/16 via 169.254.2.2", "2001:db8::5/64"},
		{loOnly(), "pasta --config-net -g fe80::1", "169.254.2.1/16 via 169.254.2.2", "via fe80::1"},
		{forced, "pasta --config-net", "169.254.2.1/16 via 169.254.2.2", "via fe80::1"},
	} {
		p := plan(t, c.h, c.line)
		if p.NS == nil {
			t.Fatalf("%s: nothing to configure", c.line)
		}
		if got4, got6 := nsText(&p.NS.V4), nsText(&p.NS.V6); got4 != c.want4 || got6 != c.want6 || p.NS.MTU != DefaultMTU {
			t.Errorf("%s: MTU %d\n%s\n%s\nwant\n%s\n%s", c.line, p.NS.MTU, got4, got6, c.want4, c.want6)
		}
		if routes := c.h.V4; routes != nil && routes.Routes[0].Protocol != kernelRoute {
			t.Fatalf("%s: the host's description was changed", c.line)
		}
	}
	for _, l := range []string{"pasta", "pasta --config-net --splice-only"} {
		if p := plan(t, routed(), l); p.NS != nil {
			t.Errorf("%s: %+v", l, p.NS)
		}
	}
}

func TestLoad_ThisMachine_GivesAPlan(t *testing.T) {
	p, err := Load(parsed(t, "pasta -t none -u none -T none -U none true"))
	if err != nil {
		t.Skip("the kernel of this machine does not answer: " + err.Error())
	}
	if p.Boot.SynRetries == 0 || p.Boot.UDPTimeout == 0 || p.TapName == "" || p.Target.Program != "true" {
		t.Errorf("%+v", p)
	}
	if _, err := Load(parsed(t, "pasta -i nosuch0")); err == nil || !strings.Contains(err.Error(), "nosuch0") {
		t.Errorf("-i nosuch0: %v", err)
	}
	if _, err := Load(parsed(t, "pasta --outbound-if6 nosuch0")); err == nil || !strings.Contains(err.Error(), "nosuch0") {
		t.Errorf("--outbound-if6 nosuch0: %v", err)
	}
}
