// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"strings"
	"testing"
)

// Over the tap, whatever the namespace could not answer arrives from the gateway: loopback and the host's own address
// (addressing check 21); with --map-guest-addr the own address has its name.
func TestAddressing_InboundFromHost_ArrivesFromGateway(t *testing.T) {
	out := bench(t, benchJoined, "--no-splice -t 7007 -u 7007 -T none -U none", `
serve t g echo :7007; serve u g udp-echo :7007
peer h tcp-from 127.0.0.1:4001 127.0.0.1:7007 || die 127.0.0.1; peer h tcp-from 127.0.0.2:4002 127.0.0.1:7007 || die 127.0.0.2
peer h tcp-from 192.0.2.1:4003 192.0.2.1:7007 || die own; peer h tcp-from '[2001:db8::1]:4004' '[2001:db8::1]:7007' || die own6
peer h udp-from 127.0.0.1:4001 127.0.0.1:7007 || die "UDP 127.0.0.1"; peer h udp-from 192.0.2.1:4003 192.0.2.1:7007 || die "UDP own"
cat $D/t $D/u`)
	wants(t, out, "peer 192.0.2.2:4001 at", "peer 192.0.2.2:4002 at", "peer 192.0.2.2:4003 at", ":4004 at", "peer 192.0.2.2:4001 1", "peer 192.0.2.2:4003 1")
	out = bench(t, benchJoined, "--no-splice --map-guest-addr 169.254.1.2 -t 7007 -u none -T none -U none", `
serve t g echo :7007; peer h tcp-from 192.0.2.1:4003 192.0.2.1:7007 || die own; cat $D/t`)
	wants(t, out, "peer 169.254.1.2:4003 at")
}

// Addressing check 28: the namespace uses another address, and the next connection goes there; not with -a.
func TestAddressing_OtherSourceInside_InboundFollows(t *testing.T) {
	const script = `
serve t g echo :7007; serve p p udp-echo :7000
g ip addr add 192.0.2.44/24 dev h0; peer g udp-from 192.0.2.44:5000 192.0.2.2:7000 || die out
peer p short 192.0.2.1:7007 1 || die in; cat $D/t`
	wants(t, bench(t, benchJoined, "-t 7007 -u none -T none -U none", script), "at 192.0.2.44:7007")
	out := bench(t, benchJoined, "-a 192.0.2.1/24 -g 192.0.2.2 -t 7007 -u none -T none -U none", script)
	wants(t, out, "at 192.0.2.1:7007")
}

// Addressing check 25: with -D the DNS address leads to the resolver of resolv.conf, never to the host's loopback.
func TestAddressing_DNSForwardWithD_ResolverOfTheHost(t *testing.T) {
	out := bench(t, benchHost, "", `
printf 'nameserver 192.0.2.2\n' >$D/resolv.conf; mount --bind $D/resolv.conf $(readlink -f /etc/resolv.conf) || { echo "SKIP: cannot bind over resolv.conf"; exit 77; }
serve lo h udp-echo 127.0.0.1:53; serve r p udp-echo :53
newG; $PASTA -q --config-net --no-map-gw --dns-forward 169.254.1.1 -D 203.0.113.53 $OPT $G || die start
peer g udp 169.254.1.1:53 40 2 || die "no answer"
newG; $PASTA -q --config-net --no-map-gw --dns-forward 169.254.1.1 -D none --dns-forward 169.254.1.1 $OPT $G || die start
timeout 2 nsenter --preserve-credentials -t $G -U -n env PASST_ROLE=udp "$PEERS" 169.254.1.1:53 40 1
newG; $PASTA -q --config-net --no-map-gw --dns-forward 169.254.1.1 --dns-host 192.0.2.2 $OPT $G || die start
peer g udp 169.254.1.1:53 40 2 || die "--dns-host"
echo "loopback: $(grep -c peer $D/lo)"`)
	wants(t, out, "loopback: 0")
}

// Addressing check 29: with -6 there is no IPv4 reaction at all, ARP included; with -4 no neighbour discovery.
func TestAddressing_FamilyOff_NoNeighbourAnswer(t *testing.T) {
	out := bench(t, benchHost, "", `
for o in -6 -4; do
 newG; $PASTA -q --config-net $o $OPT $G || die "start $o"
 g ip addr add 198.51.100.1/24 dev h0; g ip -6 addr add 2001:db8:9::1/64 dev h0 nodad
 for a in 198.51.100.9 2001:db8:9::9; do
  g ping -n -c 1 -W 1 $a >/dev/null 2>&1; echo "$o $(g ip neigh show $a)"
 done
done`)
	for l := range strings.Lines(out) {
		for _, off := range []string{"-6 198", "-4 2001"} {
			if strings.HasPrefix(l, off) && strings.Contains(l, "lladdr") {
				t.Errorf("answered: %s", l)
			}
		}
	}
	if n := strings.Count(out, "lladdr"); n != 2 {
		t.Errorf("%d answers, want 2:\n%s", n, out)
	}
}

// A point-to-point device on the host (VPN): traffic leaves through it (B072).
func TestField_B072_Traffic_LeavesThroughDeviceWithoutGateway(t *testing.T) {
	bench(t, benchHost, "", `
ip route del default; ip -6 route del default; ip addr flush dev h0 scope global
ip addr add 192.0.2.1 peer 192.0.2.2 dev h0; ip route add default dev h0; ip link set h0 mtu 1420
p ip addr flush dev p0 scope global; p ip addr add 192.0.2.2 peer 192.0.2.1 dev p0; p ip addr add 203.0.113.9/32 dev lo
p sh -c 'echo 1 > /proc/sys/net/ipv4/conf/p0/proxy_arp'; ip route add 203.0.113.0/24 via 192.0.2.2
serve t p echo :7000
timeout 10 $PASTA -q -4 --config-net --no-map-gw $OPT -- env PASST_ROLE=short "$PEERS" 192.0.2.2:7000 3 || die "the peer"
timeout 10 $PASTA -q -4 --config-net --no-map-gw $OPT -- env PASST_ROLE=short "$PEERS" 203.0.113.9:7000 3 || die "behind the peer"`)
}
