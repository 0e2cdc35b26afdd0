// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"strings"
	"testing"
)

func wants(t *testing.T, out string, texts ...string) {
	t.Helper()
	for _, w := range texts {
		if !strings.Contains(out, w) {
			t.Errorf("no %q in:\n%s", w, out)
		}
	}
}

// G to P and back over the tap: TCP and UDP of both families, the UDP source port is kept (spec addressing 9).
func TestBench_Outbound_BothFamiliesUDPPortKept(t *testing.T) {
	out := bench(t, benchJoined, "", `
serve tcp p echo :7000; serve udp p udp-echo :7000
for a in 192.0.2.2 '[2001:db8::2]'; do
 peer g short $a:7000 5 || die "TCP $a"
 peer g udp $a:7000 1000 5 5555 || die "UDP $a"
done
cat $D/tcp $D/udp`)
	wants(t, out, "peer 192.0.2.1:5555 1000", "peer [2001:db8::1]:5555 1000", "peer 192.0.2.1:", "peer [2001:db8::1]:")
}

// A remote client's address and port are what the namespace sees, both protocols, both families (addressing check 22,
// forwarding check 18); -u with another port answers from the port that the client used (B028).
func TestField_B028_Inbound_SourceKeptAnswerFromAskedPort(t *testing.T) {
	out := bench(t, benchJoined, "-t 7300,5000:6000 -u 7300,5000:6000 -T none -U none", `
serve tcp g echo :7300; serve udp g udp-echo :7300; serve tcp6000 g echo :6000; serve udp6000 g udp-echo :6000
for a in 192.0.2 ; do
 peer p tcp-from 192.0.2.2:4444 192.0.2.1:7300 || die tcp
 peer p udp-from 192.0.2.2:4444 192.0.2.1:7300 || die udp
 peer p udp-from 192.0.2.2:4445 192.0.2.1:5000 || die udp5000
 peer p tcp-from 192.0.2.2:4445 192.0.2.1:5000 || die tcp5000
done
peer p tcp-from '[2001:db8::2]:4444' '[2001:db8::1]:7300' || die tcp v6
peer p udp-from '[2001:db8::2]:4444' '[2001:db8::1]:7300' || die udp v6
peer p udp-from '[2001:db8::2]:4445' '[2001:db8::1]:5000' || die udp5000 v6
cat $D/tcp $D/udp $D/tcp6000 $D/udp6000`)
	wants(t, out, "answer from 192.0.2.1:5000", "answer from [2001:db8::1]:5000", "answer from 192.0.2.1:7300",
		"peer 192.0.2.2:4444 at 192.0.2.1:7300", "peer 192.0.2.2:4444 1", "peer [2001:db8::2]:4444 at [2001:db8::1]:7300",
		"peer [2001:db8::2]:4444 1", "peer 192.0.2.2:4445 at 192.0.2.1:6000", "peer 192.0.2.2:4445 1")
}

func TestField_B006_AbortInNamespace_PeerGetsReset(t *testing.T) {
	out := bench(t, benchJoined, "", `
serve end p end :7000
for i in 1 2 3; do peer g abort 192.0.2.2:7000 || die abort; peer g abort '[2001:db8::2]:7000' || die abort6; done
six() { [ $(grep -c -e reset -e eof -e error $D/end) = 6 ]; }
until_ok 3 six; cat $D/end`)
	if n := strings.Count(out, "reset after"); n != 6 {
		t.Errorf("%d of 6 connections ended with a reset:\n%s", n, out)
	}
}

func TestField_B035_MulticastQuestion_AnswerDelivered(t *testing.T) {
	out := bench(t, benchJoined, "", `
p ip route add 224.0.0.0/4 dev p0; ip route add 224.0.0.0/4 dev h0
serve answer p mc-answer 239.255.255.250:1900 p0
peer g mc-ask 239.255.255.250:1900 5000; s=$?; cat $D/answer; [ $s = 0 ] || die "no answer"`)
	wants(t, out, "question from 192.0.2.1:5000", "answer M-SEARCH from 192.0.2.2:1900")
}

func TestField_B038_SubnetBroadcast_Delivered(t *testing.T) {
	bench(t, benchJoined, "", `
serve udp p udp-echo 0.0.0.0:7005
peer g udp-once 192.0.2.255:7005 || die send
until_ok 3 grep -q "peer 192.0.2.1" $D/udp || die "directed broadcast is lost"
serve udp2 p udp-echo 0.0.0.0:7006
peer g udp-once 255.255.255.255:7006 || die send
until_ok 3 grep -q "peer 192.0.2.1" $D/udp2 || die "limited broadcast is lost"
alive`)
}

func TestField_B042_BusyboxPing_FirstReplyArrives(t *testing.T) {
	bench(t, benchJoined, "", `
command -v busybox >/dev/null || { echo "SKIP: no busybox here"; exit 77; }
for a in 192.0.2.2 2001:db8::2; do
 g busybox ping -c 2 -W 2 $a >$D/ping 2>&1
 grep -q "2 packets received" $D/ping || die "ping $a"
done
for a in 192.0.2.2 2001:db8::2; do g ping -n -c 2 -i .2 -W 2 $a >$D/ping || die "ping $a"; done`)
}

// P forwards to Q, so that there is a router between: hop limits go out as they came, errors come back.
const benchRouter = benchJoined + `
ip link add q1 type veth peer name q0
ip link set q1 netns $P; unshare -n sleep 100 & Q=$!; until_ok 5 named $Q; ip link set q0 netns $Q
q() { timeout 10 nsenter -t $Q -n "$@"; }
p ip addr add 198.51.100.1/24 dev q1; p ip addr add 2001:db8:5::1/64 dev q1 nodad; p ip link set q1 up
q ip link set lo up; q ip addr add 198.51.100.2/24 dev q0; q ip addr add 2001:db8:5::2/64 dev q0 nodad; q ip link set q0 up
q ip route add default via 198.51.100.1; q ip -6 route add default via 2001:db8:5::1
p sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward; echo 1 > /proc/sys/net/ipv6/conf/all/forwarding; echo 0 > /proc/sys/net/ipv4/icmp_ratelimit; echo 0 > /proc/sys/net/ipv6/icmp/ratelimit' 2>/dev/null
nsenter -t $Q -n env PASST_ROLE=udp-echo "$PEERS" :7000 >$D/q 2>&1 & until_ok 5 grep -q ready $D/q
`

func TestField_B044_HopLimit1_RouterAnswers(t *testing.T) {
	out := bench(t, benchRouter, "", `
peer g udp 198.51.100.2:7000 100 2 || die "no path to Q"
peer g ttl 198.51.100.2:33434 1 || die "UDP"
peer g ttl '[2001:db8:5::2]:33434' 1 || die "UDP v6"
peer g ttl 198.51.100.2:33435 2 || die "UDP to a closed port of Q"
peer g ttl '[2001:db8:5::2]:33435' 2 || die "UDP v6 to a closed port of Q"`)
	wants(t, out, "from 192.0.2.2 origin 2 type 11 code 0", "from 2001:db8::2 origin 3 type 3 code 0",
		"from 198.51.100.2 origin 2 type 3 code 3", "from 2001:db8:5::2 origin 3 type 1 code 4")
}

func TestField_B044_PingHopLimit1_RouterAnswers(t *testing.T) {
	out := bench(t, benchRouter, "", `
g ping -n -c 1 -W 3 198.51.100.2 >/dev/null || die "no path to Q"
g ping -n -c 1 -W 3 -t 1 198.51.100.2; g ping -n -c 1 -W 3 -t 1 2001:db8:5::2; true`)
	wants(t, out, "192.0.2.2 icmp_seq=1 Time to live exceeded", "2001:db8::2 icmp_seq=1 Time exceeded")
}

func TestField_B044_PathMTU1280_ReportedToNamespace(t *testing.T) {
	out := bench(t, benchRouter, "", `
p ip link set q1 mtu 1280; q ip link set q0 mtu 1280
peer g ttl 198.51.100.2:7000 64 1400 || die "no frag-needed"
peer g ttl '[2001:db8:5::2]:7000' 64 1400 || die "no packet too big"`)
	wants(t, out, "from 192.0.2.2 origin 2 type 3 code 4 info 1280", "from 2001:db8::2 origin 3 type 2 code 0 info 1280")
}

// Ping sockets are not allowed: one warning at start, and an answer instead of silence.
func TestField_B045_PingNotAllowed_WarningAndError(t *testing.T) {
	// A new network namespace allows nobody.
	noPing := strings.Replace(benchHost, `echo "0 0" > /proc/sys/net/ipv4/ping_group_range`, "", 1)
	out := bench(t, noPing, "", `
newG; cat /proc/sys/net/ipv4/ping_group_range
$PASTA --config-net --no-map-gw $OPT $G >$D/start 2>&1 || die start
echo "warnings $(grep -c ping_group_range $D/start)"; cat $D/start
g ping -n -c 2 -i .2 -W 2 192.0.2.2; g ping -n -c 2 -i .2 -W 2 2001:db8::2; true`)
	wants(t, out, "warnings 1\n")
	if n := strings.Count(strings.ToLower(out), "prohibited") + strings.Count(strings.ToLower(out), "unreachable") + strings.Count(out, "filtered"); n < 2 {
		t.Errorf("ping is met with silence:\n%s", out)
	}
}

func TestField_B079_NonlocalBind_ConnectionsWork(t *testing.T) {
	bench(t, benchHost, "", `
echo 1 > /proc/sys/net/ipv4/ip_nonlocal_bind; echo 1 > /proc/sys/net/ipv6/ip_nonlocal_bind
newG; $PASTA -q --config-net --no-map-gw $OPT $G || die start
serve tcp p echo :7000
for a in 192.0.2.2 '[2001:db8::2]'; do peer g short $a:7000 3 || die $a; done`)
}

// DNS with a resolver on the host's loopback alone, the gateway not mapped: UDP, TCP and TLS (853) are forwarded.
func TestField_B085_B086_LoopbackResolver_UDPAndTCPForwarded(t *testing.T) {
	out := bench(t, benchHost, "", `
echo "nameserver 127.0.0.53" >$D/resolv.conf; mount --bind $D/resolv.conf $(readlink -f /etc/resolv.conf) || { echo "SKIP: cannot bind over resolv.conf"; exit 77; }
serve u h udp-echo 127.0.0.53:53; serve t h echo 127.0.0.53:53; serve tls h echo 127.0.0.53:853; serve other h echo :7053
newG; $PASTA -q --config-net --no-map-gw --dns-forward 169.254.1.1 $OPT $G || die start
peer g udp 169.254.1.1:53 40 3 || die UDP
peer g short 169.254.1.1:53 2 || die TCP
peer g short 169.254.1.1:853 2 || die TLS
r=$(timeout 1 nsenter --preserve-credentials -t $G -U -n env PASST_ROLE=connect "$PEERS" 169.254.1.1:7053); [ "$r" = ok ] && die "other ports of the DNS address lead to the host"
cat $D/u`)
	wants(t, out, "peer 127.0.0.1:")
}

// A host server on 127.0.0.53 alone is reached through -T at that address; not from another interface of the namespace.
func TestField_B097_LoopbackAddressThroughT_Kept(t *testing.T) {
	bench(t, benchJoined, "-t none -u none -T 5353 -U 5353", `
serve tcp h echo 127.0.0.53:5353; serve udp h udp-echo 127.0.0.53:5353
peer g short 127.0.0.53:5353 3 || die TCP
peer g udp 127.0.0.53:5353 100 3 || die UDP
r=$(peer g connect 192.0.2.1:5353); case $r in refused*) ;; *) die "external address: $r" ;; esac`)
}

// The interface goes down and comes back under traffic from the host.
func TestField_B110_TapDownAndUp_TrafficResumes(t *testing.T) {
	bench(t, benchJoined, "-t none -u 10001 -T none -U none", `
serve udp g udp-echo :10001
peer p udp 192.0.2.1:10001 100 3 || die first
g ip link set h0 down
for i in $(seq 20); do peer p udp-once 192.0.2.1:10001; done
alive
g ip link set h0 up; g ip route add default dev h0 2>/dev/null
again() { peer p udp 192.0.2.1:10001 100 1; }
until_ok 5 again || die "no traffic after up"
alive`)
}

// The host refuses: EACCES, EHOSTUNREACH, EINVAL. Each of many datagrams is answered by an ICMP error, nothing leaks.
func TestField_B032_RefusedByHostRoutes_ErrorsAndAlive(t *testing.T) {
	out := bench(t, benchJoined, "", `
ip route add prohibit 198.51.100.7; ip route add blackhole 198.51.100.8; ip route add unreachable 198.51.100.9
serve udp p udp-echo :7000
for a in 7 8 9; do
 for i in 1 2 3; do peer g ttl 198.51.100.$a:9 64 || die "198.51.100.$a: silence"; done
 peer g connect 198.51.100.$a:9
done
alive; peer g udp 192.0.2.2:7000 10 3 || die after`)
	if strings.Contains(out, "timeout") {
		t.Errorf("a connection hangs: %s", out)
	}
}

// -o gives the source, --outbound-if4 and -if6 the device; the host's loopback stays reachable (addressing 9, better).
func TestBench_OutboundAddressAndInterface_Used(t *testing.T) {
	out := bench(t, benchHost, "", `
ip addr add 192.0.2.33/24 dev h0; ip addr add 2001:db8::33/64 dev h0 nodad
serve tcp p echo :7000; serve udp p udp-echo :7000; serve lo h echo 127.0.0.1:7001
O="--outbound-if4 h0 --outbound-if6 h0 -o 192.0.2.33 -o 2001:db8::33 --no-map-gw --map-host-loopback 169.254.1.9"
run() { r=$1; shift; timeout 10 $PASTA -q --config-net $OPT $O -- env PASST_ROLE=$r "$PEERS" "$@"; }
for a in 192.0.2.2 '[2001:db8::2]'; do run short $a:7000 2 || die "TCP $a"; run udp $a:7000 10 2 || die "UDP $a"; done
run short 169.254.1.9:7001 2 || die "host loopback"
ip link add d1 type veth peer name e1 && ip link set e1 up && ip link set d1 up && ip addr add 203.0.113.1/24 dev d1 && O="--no-map-gw --outbound-if4 d1" && run short 192.0.2.2:7000 1 2>/dev/null && die "left by another device"
cat $D/tcp $D/udp; true`)
	wants(t, out, "peer 192.0.2.33:", "peer [2001:db8::33]:")
	if strings.Contains(out, "peer 192.0.2.1:") || strings.Contains(out, "peer [2001:db8::1]:") {
		t.Errorf("another source was used:\n%s", out)
	}
}
