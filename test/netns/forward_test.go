// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"strings"
	"testing"
)

// listening tells of a TCP or UDP port in H, listeningG in G; refused wants a refused connection.
const portTools = `
listening() { ss -Hl${1}n "sport = :$2" | grep -q .; }
silent() { ! listening "$@"; }
listeningG() { g ss -Hl${1}n "sport = :$2" | grep -q .; }
silentG() { ! listeningG "$@"; }
refused() { local r; r=$(peer $1 connect $2); case "$r" in refused*) ;; *) die "$2 from $1: $r, not refused" ;; esac; }
`

// Forwarding checks 12, 14: the defaults follow the other side within two seconds, both directions, both protocols,
// and let go as fast.
func TestForward_AutoDefaults_FollowWithin2s(t *testing.T) {
	bench(t, benchJoined+portTools, "--no-ra", `
serve s g echo :7013; S=$LAST
until_ok 2 listening t 7013 || die "TCP 7013 not followed"; until_ok 2 listening u 7013 || die "UDP 7013 not followed"
peer p short 192.0.2.1:7013 2 || die "in"
serve hs h echo 127.0.0.1:7014; until_ok 2 listeningG t 7014 || die "-T auto"
peer g short 127.0.0.1:7014 2 || die "out"
serve us h udp-echo 127.0.0.1:7016; until_ok 2 listeningG u 7016 || die "-U auto"
peer g udp 127.0.0.1:7016 10 2 || die "UDP out"
kill $S; until_ok 2 silent t 7013 || die "TCP 7013 stays"; until_ok 2 silent u 7013 || die "UDP 7013 stays"`)
}

// Check 12, second part: auto with another target port follows the target port.
func TestForward_AutoTranslated_FollowsTargetPort(t *testing.T) {
	bench(t, benchJoined+portTools, "-t 3000:4000,auto -u none -T none -U none", `
listening t 3000 && die "open without a server"
serve s g echo :4000; until_ok 2 listening t 3000 || die "3000 does not follow 4000"
peer p short 192.0.2.1:3000 2 || die "no way in"`)
}

// Check 13: a TCP listener of our own does not make UDP flap.
func TestForward_ExplicitTCPWithAutoUDP_NoFlapping(t *testing.T) {
	bench(t, benchJoined+portTools, "-t 7015", `
serve s g echo :7015; until_ok 2 listening u 7015 || die "UDP 7015 does not follow"
for i in $(seq 30); do sleep .1; listening u 7015 || die "closed after $i"; silentG u 7015 || die "own listener followed"; done`)
}

// Checks 15, 16: by default the external address is reached, as itself on both ends.
func TestForward_HostLoopback_ExternalAddressBothEnds(t *testing.T) {
	out := bench(t, benchJoined+portTools, "-t 7007,7008 -u 7007 -T none -U none", `
serve t g echo 0.0.0.0:7007; serve u g udp-echo 0.0.0.0:7007; serve lo g echo 127.0.0.1:7008
peer h short 127.0.0.1:7007 2 || die TCP
peer h udp 127.0.0.1:7007 10 2 5556 || die UDP
peer h connect 127.0.0.1:7008; peer h short 127.0.0.1:7008 1 && die "the namespace's loopback is exposed"
cat $D/t $D/u`)
	wants(t, out, "peer 192.0.2.1:", "at 192.0.2.1:7007", "peer 192.0.2.1:5556 10")
}

// Check 15, last part: with --host-lo-to-ns-lo the same loopback address is reached.
func TestForward_HostLoToNsLo_AddressKept(t *testing.T) {
	out := bench(t, benchJoined+portTools, "-t 7007 -u 7007 -T none -U none --host-lo-to-ns-lo", `
serve t g echo 127.0.0.5:7007; serve u g udp-echo 127.0.0.5:7007
peer h short 127.0.0.5:7007 2 || die TCP; peer h udp 127.0.0.5:7007 10 2 || die UDP
serve t6 g echo '[::1]:7007'; peer h short '[::1]:7007' 2 || die "TCP v6"
cat $D/t`)
	wants(t, out, "at 127.0.0.5:7007")
}

// Check 17.
func TestForward_NamespaceToHost_TranslatedLoopbackOnly(t *testing.T) {
	out := bench(t, benchJoined+portTools, "-t none -u none -T 7010:7011 -U 7010:7011", `
serve t h echo 127.0.0.1:7011; serve u h udp-echo 127.0.0.1:7011
peer g short 127.0.0.1:7010 2 || die TCP; peer g udp-from 127.0.0.9:5777 127.0.0.1:7010 || die UDP
refused g 192.0.2.1:7010
cat $D/t $D/u`)
	wants(t, out, "peer 127.0.0.1:", "peer 127.0.0.9:5777 1")
}

// Check 19: a target address.
func TestForward_TargetAddress_Reached(t *testing.T) {
	out := bench(t, benchJoined+portTools, "-t 0.0.0.0/7007:192.0.2.1/7008 -u none -T none -U none", `
serve t g echo :7008
peer h short 127.0.0.1:7007 2 || die "from the host's loopback"
peer p short 192.0.2.1:7007 2 || die "from the peer"; cat $D/t`)
	wants(t, out, "at 192.0.2.1:7008")
}

// Ranges shift, excluded ports stay closed, a bound address and a device are the only way in.
func TestForward_RangesExclusionsAddressDevice_AsAsked(t *testing.T) {
	bench(t, benchJoined+portTools, "-t 8000-8010:9000-9010,~8005 -t 127.0.0.1/8100 -t %lo/8200 -t 192.0.2.1%h0/8300 -u 8000-8001:9000-9001 -T none -U none", `
for p in 9000 9005 9010 8100 8200 8300; do serve s$p g echo :$p; done; serve u g udp-echo :9001
peer p short 192.0.2.1:8000 2 || die 8000; peer p short 192.0.2.1:8010 2 || die 8010; refused p 192.0.2.1:8005; refused p 192.0.2.1:8011
peer p udp 192.0.2.1:8001 10 2 || die "UDP 8001"
peer h short 127.0.0.1:8100 2 || die "127.0.0.1/8100"; refused p 192.0.2.1:8100
peer h short 127.0.0.1:8200 2 || die "%lo/8200"; refused p 192.0.2.1:8200
peer p short 192.0.2.1:8300 2 || die "%h0/8300"; refused h 127.0.0.1:8300`)
}

// Check 10: what cannot be bound ends the start with port and reason.
func TestForward_BindFailures_FatalWithReason(t *testing.T) {
	out := bench(t, benchHost, "", `
try() { local want=$1; shift; timeout 10 $PASTA -q --config-net $OPT "$@" -- true >$D/e 2>&1; s=$?; [ $s = 1 ] || die "$*: status $s: $(cat $D/e)"; grep -qi -e "$want" $D/e || die "$*: $(cat $D/e)"; echo "$*: $(cat $D/e)"; }
OPT="-u none -T none -U none"
try "assign" -t 203.0.113.77/2000; try "device" -t %nosuch/2000
OPT="-t none -T none -U none"; try "assign" -u 203.0.113.77/2000
OPT=; timeout 10 $PASTA -q --config-net -u none -T none -U none --freebind -t 203.0.113.77/2000 -- true || die "--freebind"
for bad in "" foo 22a 2000, ,2000 2000,,2001 1-0 80000 0 2000:0 2000-2001:3000 2000,none 127.0.0.1/ 2000:192.0.2.5/6000; do
 timeout 5 $PASTA -q --config-net -u none -T none -U none -t "$bad" -- true >$D/e 2>&1; [ $? = 1 ] && [ -s $D/e ] || die "-t '$bad' accepted"
done
for bad in "-t 2000 -t none" "-t 2000 -t 2000" "-t auto -t 3000" "-T 127.0.0.1/2000" "--no-tcp -t 2000" "-4 -t ::1/2000"; do
 timeout 5 $PASTA -q --config-net $bad -- true >$D/e 2>&1; [ $? = 1 ] && [ -s $D/e ] || die "$bad accepted"
done`)
	wants(t, out, "203.0.113.77", "nosuch")
}

// As an ordinary user of the host a low port is refused with the reason.
func TestForward_LowPortUnprivileged_FatalNamesPermission(t *testing.T) {
	argv := []string{pastaBin, "-q", "--config-net", "-t", "22", "-u", "none", "-T", "none", "-U", "none", "--", "true"}
	r := runFor(t, 10e9, nil, argv...)
	if r.status == 0 {
		t.Skip("an ordinary user may bind port 22 here (net.ipv4.ip_unprivileged_port_start)")
	}
	if r.status != 1 || !strings.Contains(strings.ToLower(r.err), "permission") || !strings.Contains(r.err, "22") {
		t.Errorf("status %d: %s", r.status, r.err)
	}
}

// --no-splice: the host's loopback client goes over the tap and arrives from the gateway's address.
func TestForward_NoSplice_OverTapFromGateway(t *testing.T) {
	out := bench(t, benchJoined+portTools, "--no-splice -t 7007 -u 7007 -T none -U none", `
serve t g echo :7007; serve u g udp-echo :7007
peer h short 127.0.0.1:7007 2 || die TCP; peer h udp 127.0.0.1:7007 10 2 || die UDP; cat $D/t $D/u`)
	wants(t, out, "peer 192.0.2.2:")
}

// --splice-only: no interface but lo, loopback works both ways at the loopback address, others are refused.
func TestForward_SpliceOnly_LoopbackAlone(t *testing.T) {
	bench(t, benchHost+portTools, "--splice-only -t 7007 -u none -T 7009 -U none", `
newG; $PASTA -q $OPT $G || die start
[ "$(g ip -o link | wc -l)" = 1 ] || die "interfaces: $(g ip link)"
serve t g echo 127.0.0.1:7007; serve h h echo 127.0.0.1:7009
peer h short 127.0.0.1:7007 2 || die in; peer g short 127.0.0.1:7009 2 || die out
peer p short 192.0.2.1:7007 1 && die "a remote client came in"; true`)
}
