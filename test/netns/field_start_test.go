// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"testing"
)

// runNow runs a command under pasta in H; $N is what stands before the command.
const runNow = `
run() { timeout 10 $PASTA -q --config-net --no-map-gw $OPT "$@"; }
`

// No tentative address, link-local included, and the peer is reached at once, 20 runs each (B107 under load).
func TestField_B054_B107_FirstInstruction_NetworkUsable(t *testing.T) {
	bench(t, benchHost+runNow, "", `
serve tcp p echo :7000
(while :; do :; done) & B=$!
for i in $(seq 20); do
 run -- env PASST_ROLE=at-once "$PEERS" '[2001:db8::2]:7000' 192.0.2.2:7000 >/dev/null || die "run $i: connect"
 run -- ip -6 addr show >$D/a || die "run $i"
 grep -q tentative $D/a && die "run $i: tentative address"
 grep -q "inet6 fe80" $D/a || die "run $i: no link-local address"
done; kill $B`)
}

// Starts with 0 to 400 routes are ready at once, none hangs.
func TestField_B064_ManyRoutes_ReadyAtOnce(t *testing.T) {
	bench(t, benchHost+runNow, "", `
for n in 1 10 100 400; do
 for i in $(seq $n); do echo "route replace 203.0.$((i/256)).$((i%256))/32 dev h0"; done | ip -batch - || die routes
 for k in 1 2 3 4 5; do
  s=$(date +%s%N); got=$(run -- ip route show | grep -c "203.0") || die "start with $n routes"
  ms=$((($(date +%s%N)-s)/1000000)); [ $ms -lt 2000 ] || die "$n routes: $ms ms"
  [ $got = $n ] || die "$n routes: $got copied"
 done
done`)
}

const benchBare = benchTools + runNow

// Point-to-point devices: a default route without gateway, with and without a peer address.
func TestField_B072_PointToPoint_StartsRoutesCopied(t *testing.T) {
	bench(t, benchBare, "", `
ip link set lo up; ip tuntap add dev vpn0 mode tun || { echo "SKIP: no tun devices here"; exit 77; }
ip link set vpn0 mtu 1420 up; ip addr add 192.0.2.1/32 dev vpn0; ip route add default dev vpn0
run -- ip route >$D/r || die start; grep -q "default dev vpn0" $D/r || die "no default route"
ip addr flush dev vpn0; ip addr add 192.0.2.1 peer 192.0.2.9 dev vpn0; ip route add default via 192.0.2.9
run -- ip route >$D/r || die "start with peer"; grep -q "default" $D/r || die "no default route with peer"
run -- ip addr show dev vpn0 >$D/r; grep -q 192.0.2.1 $D/r || die "no address"`)
}

// A /32 address and an off-link gateway, as clouds have it.
func TestField_B073_OffLinkGateway_DefaultRouteWorks(t *testing.T) {
	bench(t, benchHost+runNow, "", `
ip addr flush dev h0 scope global; ip addr add 192.0.2.1/32 dev h0; ip route add 172.31.1.1 dev h0
ip route replace default via 172.31.1.1 dev h0 onlink; p ip addr add 172.31.1.1/32 dev p0; p ip route replace 192.0.2.1/32 dev p0
serve tcp p echo :7000
run -- ip route >$D/r || die start; grep -q "default via 172.31.1.1" $D/r || die "no default route"
run -4 -- env PASST_ROLE=at-once "$PEERS" 192.0.2.2:7000 || die traffic`)
}

// One interface without a default, one family only, two interfaces with specific routes only.
func TestField_B075_NoDefaultRoute_Starts(t *testing.T) {
	bench(t, benchHost+runNow, "", `
serve tcp p echo :7000
ip route del default; ip -6 route del default
run -- env PASST_ROLE=at-once "$PEERS" 192.0.2.2:7000 '[2001:db8::2]:7000' || die "no default route"
ip -4 addr flush dev h0
run -- env PASST_ROLE=at-once "$PEERS" '[2001:db8::2]:7000' || die "IPv6 alone"
ip -6 addr flush dev h0 scope global; ip addr add 192.0.2.1/24 dev h0
run -- env PASST_ROLE=at-once "$PEERS" 192.0.2.2:7000 || die "IPv4 alone"
ip link add d1 type veth peer name e1 && ip link set e1 up && { ip addr add 198.51.100.1/24 dev d1; ip link set d1 up
 run -- ip addr >$D/a || die "two interfaces"; grep -q -e 192.0.2.1 -e 198.51.100.1 $D/a || die "no address of either"; }
true`)
}

// No interface at all, lo up or down: local mode, loopback forwards work.
func TestField_B076_NoInterface_LocalMode(t *testing.T) {
	out := bench(t, benchBare, "-t 7100 -u none -T 7000 -U none", `
run -- true || die "lo down"
ip link set lo up; serve tcp h echo 127.0.0.1:7000
run -- sh -c 'ip addr; ip route' || die "lo up"
run -- env PASST_ROLE=short "$PEERS" 127.0.0.1:7000 3 || die "-T"
timeout 20 $PASTA -q --config-net --no-map-gw $OPT -- env PASST_ROLE=echo "$PEERS" :7100 >$D/in 2>&1 &
until_ok 5 grep -q ready $D/in || die "no start"
peer h short 127.0.0.1:7100 3 || die "-t"`)
	wants(t, out, "169.254.2.1/16", "default via 169.254.2.2")
}

// Nothing but a local route on lo (AnyIP): lo is no template.
func TestField_B077_RouteOnLoOnly_LoIgnored(t *testing.T) {
	out := bench(t, benchBare, "", `
ip link set lo up; ip -6 route add local 2001:db8:1::/64 dev lo
run -- ip addr || die start`)
	wants(t, out, "tap0", "169.254.2.1/16")
}

// Three addresses with one port do not conflict.
func TestField_B089_SamePortThreeAddresses_Accepted(t *testing.T) {
	bench(t, benchJoined, "-t 127.0.0.1/5000 -t ::1/5000 -t 192.0.2.1/5000 -u none -T none -U none", `
serve tcp g echo :5000
for a in 127.0.0.1 '[::1]' 192.0.2.1; do peer h short $a:5000 2 || die $a; done
r=$(peer h connect '[2001:db8::1]:5000'); case $r in refused*) ;; *) die "not asked for: $r" ;; esac`)
}

// One port of an explicit range is taken: exit 1 that names port and reason; "all" goes around it.
func TestField_B091_PortOfRangeTaken_NamedAndFatal(t *testing.T) {
	bench(t, benchHost, "-u none -T none -U none", `
serve taken h echo :5001
for spec in 5000-5002 5000,5001; do
 $PASTA -q --config-net -t $spec $OPT -- true 2>$D/err; s=$?
 [ $s = 1 ] || die "$spec: status $s"
 grep -q 5001 $D/err || die "$spec: port not named"; grep -qi "in use" $D/err || die "$spec: reason not named"
done
ulimit -n $(ulimit -Hn); [ $(ulimit -n) -gt 50000 ] || exit 0
timeout 20 $PASTA -q --config-net -t all $OPT -- true 2>$D/err || die "all: status $?"`)
}

func TestField_B093_IPv4Only_NoIPv6Listener(t *testing.T) {
	bench(t, benchHost, "-u none -T none -U none", `
timeout 20 $PASTA -q -4 --config-net -t 1234 $OPT -- sleep 20 2>$D/err &
l() { ss -Hltn 'sport = :1234' | grep -q 1234; }
until_ok 5 l || die "no listener"
ss -Hltn 'sport = :1234' | grep -q '0.0.0.0:1234' || die "$(ss -Hltn)"
ss -Hltn6 'sport = :1234' 2>/dev/null | grep -q -e '\[::\]' -e '\*:1234' && die "IPv6 listener"
$PASTA -q -4 --config-net -t ::1/1235 $OPT -- true 2>$D/err2; s=$?; [ $s = 1 ] && [ -s $D/err2 ] || die "::1 with -4: $s"
echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6
timeout 10 $PASTA -q --config-net -t none $OPT -- sh -c 'ip -4 addr | grep -q 192.0.2.1' || die "IPv6 off in the kernel: no start"`)
}

// 15 characters are the longest interface name.
func TestField_B094_InterfaceName_15Accepted16Refused(t *testing.T) {
	bench(t, benchHost+runNow, "", `
ip link add abcdefghijklmno type veth peer name e1 && ip link set abcdefghijklmno up || die veth
run -I abcdefghijklmno -- ip link show dev abcdefghijklmno >/dev/null || die "15"
run -I abcdefghijklmnop -- true 2>$D/err; [ $? = 1 ] || die "16 accepted"
OPT="-u none -T none -U none"
run -t %abcdefghijklmno/5000 -- true || die "-t %15"
run -t %abcdefghijklmnop/5000 -- true 2>$D/err; [ $? = 1 ] || die "-t %16 accepted"`)
}

// auto both ways with a TCP server on each side: stable after the first scan, nothing flips for 5 s.
func TestField_B095_AutoBothWays_Stable(t *testing.T) {
	out := bench(t, benchJoined, "-t auto -u auto -T auto -U auto", `
serve tg g echo :5201; serve th h echo 127.0.0.1:5301
l() { ss -Hltn 'sport = :5201' | grep -q 5201 && ss -Hlun 'sport = :5201' | grep -q 5201; }
ln() { g ss -Hltn 'sport = :5301' | grep -q 5301 && g ss -Hlun 'sport = :5301' | grep -q 5301; }
until_ok 3 l || die "host does not follow"
until_ok 3 ln || die "namespace does not follow"
state() { { ss -Hltun; echo ns; g ss -Hltun; } | awk '{print $1,$5}' | sort -u | md5sum; }
a=$(state); for i in $(seq 25); do sleep .2; b=$(state); [ "$a" = "$b" ] || die "changed after $i: $(ss -Hltun; g ss -Hltun)"; done
peer p short 192.0.2.1:5201 2 || die "in"; peer g short 127.0.0.1:5301 2 || die "out"`)
	_ = out
}

// The namespace goes and the next instance takes the same port at once, by path and by PID.
func TestField_B101_Restart_PortFreeAtOnce(t *testing.T) {
	bench(t, benchHost, "-t 7300 -u none -T none -U none", `
mount -t tmpfs x /run || die tmpfs; mkdir -p /run/netns
for i in $(seq 10); do
 touch /run/netns/n$i; unshare -n sh -c "mount --bind /proc/self/ns/net /run/netns/n$i" || die bind
 $PASTA -q --config-net $OPT --netns n$i 2>$D/err || die "path, round $i"
 umount /run/netns/n$i; rm /run/netns/n$i
done
gone() { ! ss -Hltn 'sport = :7300' | grep -q 7300; }; until_ok 3 gone || die "port held"
for i in 1 2 3; do
 newG; $PASTA -q --config-net $OPT $G 2>$D/err || die "pid, round $i"
 kill $G; wait $G 2>/dev/null
done; true`)
}

// The namespace goes: by PID and by its /proc path with the limit of watches used up, by a bound file among many events.
// A bound file that cannot be watched is a warning at start.
func TestField_B106_NamespaceGone_ProgramEnds(t *testing.T) {
	bench(t, benchHost, "", `
W=/proc/sys/user/max_inotify_watches; old=$(cat $W); echo 0 > $W
newG; g1=$G; $PASTA -q --config-net -P $D/pid1 $OPT $G || die pid
newG; $PASTA -q --config-net -P $D/pid2 $OPT --userns /proc/$G/ns/user --netns /proc/$G/ns/net || die path
kill $g1 $G; wait $g1 $G 2>/dev/null
over() { for f in "$@"; do kill -0 $(cat $D/$f) 2>/dev/null && return 1; done; return 0; }
until_ok 2 over pid1 pid2 || die "still there: $(cat $D/pid1 $D/pid2)"
mkdir $D/ns; bound() { touch $D/ns/f; unshare -n sh -c "mount --bind /proc/self/ns/net $D/ns/f"; }
bound; $PASTA -q --config-net -P $D/pid3 $OPT --netns $D/ns/f 2>$D/err || die "bound file"
kill $(cat $D/pid3); grep -q "cannot watch" $D/err || die "no watch and no word"
echo $old > $W
$PASTA -q --config-net -P $D/pid3 $OPT --netns $D/ns/f 2>$D/err || die "bound file"
for i in $(seq 300); do : >$D/ns/o$i; done; rm $D/ns/o*
kill -0 $(cat $D/pid3) || die "ended by other files"
umount $D/ns/f; rm $D/ns/f; until_ok 2 over pid3 || die "bound file: still there"`)
}

// A caller that ignores signals: the program starts, SIGTERM's default is back or ignored as the caller had it.
func TestField_B109_IgnoredSignals_Starts(t *testing.T) {
	bench(t, benchHost, "", `
newG; (trap '' PIPE CHLD HUP; exec $PASTA -q --config-net -P $D/pid $OPT $G) || die start
M=$(cat $D/pid); kill -0 $M || die "not there"
kill -TERM $M; over() { ! kill -0 $M 2>/dev/null; }; until_ok 2 over || die "TERM has no effect"
(trap '' PIPE CHLD HUP TERM; exec timeout 10 $PASTA -q --config-net $OPT -- true) || die "command with all ignored"`)
}
