// SPDX-License-Identifier: Apache-2.0

package netns

import "testing"

// 2000 routes: the start takes a bounded time, the default route is among the copied ones.
func TestField_B066_2000Routes_Starts(t *testing.T) {
	bench(t, benchHost+runNow, "", `
for i in $(seq 2000); do echo "route add 10.$((i/250)).$((i%250)).0/24 via 192.0.2.2"; done | ip -batch - || die routes
run -- ip route >$D/r || die start
grep -q "^default via 192.0.2.2" $D/r || die "no default route"; [ $(wc -l <$D/r) -gt 2000 ] || die "only $(wc -l <$D/r) copied"`)
}

// Routes of a routing daemon: next-hop objects, a dead next hop.
func TestField_B067_NextHopObjectsAndDeadRoutes_Starts(t *testing.T) {
	bench(t, benchHost+runNow, "", `
serve tcp p echo :7000
ip nexthop add id 10 via 192.0.2.2 dev h0 && ip route add 203.0.113.0/24 nhid 10 || { echo "SKIP: no next-hop objects here"; exit 77; }
ip link add d1 type veth peer name e1 && ip link set e1 up && ip link set d1 up && ip addr add 198.51.100.1/24 dev d1 && ip route add 203.0.114.0/24 via 198.51.100.9 && ip link set d1 down
run -- ip route >$D/r || die start; grep -q "203.0.113.0/24 via 192.0.2.2" $D/r || die "not copied: $(cat $D/r)"
run -- env PASST_ROLE=at-once "$PEERS" 192.0.2.2:7000 || die traffic`)
}

// A multipath route with one hop over another interface, and a multipath default.
func TestField_B068_MultipathOverTwoInterfaces_Starts(t *testing.T) {
	bench(t, benchHost+runNow, "", `
ip link add d1 type veth peer name e1; ip link set e1 up; ip link set d1 up; ip addr add 198.51.100.1/24 dev d1
ip route add 203.0.113.0/24 nexthop via 192.0.2.2 dev h0 nexthop via 198.51.100.9 dev d1
serve tcp p echo :7000
run -- env PASST_ROLE=at-once "$PEERS" 192.0.2.2:7000 || die "multipath route"
ip route replace default nexthop via 192.0.2.2 dev h0 weight 5 nexthop via 198.51.100.9 dev d1 weight 1
run -- ip route >$D/r || die "multipath default"; grep -q "^default" $D/r || die "no default: $(cat $D/r)"
run -- env PASST_ROLE=at-once "$PEERS" 192.0.2.2:7000 || die "traffic with a multipath default"`)
}

// A route with a preferred source that the namespace does not have.
func TestField_B070_PreferredSourceWithOtherAddress_Starts(t *testing.T) {
	bench(t, benchHost+runNow, "", `
ip route add 203.0.113.0/24 via 192.0.2.2 src 192.0.2.1
run -- true || die plain; run -a 10.0.2.100 -n 24 -g 10.0.2.2 -- true || die "-a and -g"; run -a 10.0.2.100 -n 24 -- true || die "-a"`)
}

// A leased address on the host is permanent in the namespace.
func TestField_B071_LeasedAddress_PermanentInside(t *testing.T) {
	bench(t, benchHost+runNow, "", `
ip addr change 192.0.2.1/24 dev h0 valid_lft 500 preferred_lft 400; ip addr change 2001:db8::1/64 dev h0 valid_lft 500 preferred_lft 400
run -- ip addr show dev h0 >$D/a || die start; grep -q 192.0.2.1 $D/a && grep -q 2001:db8::1 $D/a || die "no address"
grep -A1 -e 'inet 192' -e 'inet6 2001' $D/a | grep valid | grep -q sec && die "a lifetime was copied: $(cat $D/a)"; true`)
}

// /proc/sys cannot be read: defaults are used.
func TestField_B113_ProcSysUnreadable_Starts(t *testing.T) {
	bench(t, benchHost+runNow, "", `
mkdir $D/empty; mount --bind $D/empty /proc/sys || { echo "SKIP: cannot mount over /proc/sys"; exit 77; }
run -- true || die start`)
}

// The PID file and the capture are not written through a symbolic link, and are private.
func TestField_B120_SymbolicLinks_NotFollowed(t *testing.T) {
	bench(t, benchHost+runNow, "", `
echo precious >$D/victim; ln -s $D/victim $D/link
for o in -P -p; do
 run $o $D/link -- true 2>$D/e; s=$?; [ "$(cat $D/victim)" = precious ] || die "$o: the victim is gone"; [ $s = 1 ] && [ -s $D/e ] || die "$o: status $s"
done
run -p $D/cap -- true || die capture; [ "$(stat -c %a $D/cap)" = 600 ] || die "mode of the capture"`)
}
