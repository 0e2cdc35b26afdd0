// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"os/exec"
	"strings"
	"testing"
)

// benchNoConfig has pasta in G without --config-net; the clients configure the interface. $OPT are pasta's options.
const benchNoConfig = benchHost + `
printf 'search host.example\nnameserver 192.0.2.53\nnameserver 2001:db8::53\n' >$D/resolv.conf
mount --bind $D/resolv.conf $(readlink -f /etc/resolv.conf) || { echo "SKIP: cannot bind over resolv.conf"; exit 77; }
newG; $PASTA -q -P $D/pid $OPT $G >$D/pasta 2>&1 || die start
g ip -o link show dev h0 >$D/link; grep -q "mtu 1500" $D/link || die "MTU before"; grep -q "state DOWN" $D/link || die "not down"
g ip link set h0 up
serve tcp p echo :7000
cat >$D/script <<'X'
#!/bin/sh
case $reason$1 in BOUND*|RENEW*|*bound|*renew) ;; *) exit 0 ;; esac
env | sort >$ENVFILE
ip=${new_ip_address:-$ip}; mtu=${new_interface_mtu:-$mtu}
[ -n "$mtu" ] && ip link set h0 mtu $mtu
[ -n "$ip" ] && ip addr add $ip/${mask:-24} dev h0 && ip route add default via ${new_routers:-$router}
[ -n "$new_ip6_address" ] && ip -6 addr add $new_ip6_address/128 dev h0 nodad
exit 0
X
chmod +x $D/script
touch $D/leases
`

func needs(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("no %s here", program)
	}
}

const dns = " --dhcp-dns --dhcp-search -D 192.0.2.51 -D 192.0.2.52 -D 2001:db8::51 -S a.example -S b.example"

// The interface's address, gateway, resolvers, search list and MTU come by DHCP; then there is traffic.
func TestDHCP_Dhclient4_EverythingTaken(t *testing.T) {
	needs(t, "dhclient")
	out := bench(t, benchNoConfig, strings.Join(noPorts, " ")+" --no-map-gw"+dns, `
printf 'timeout 10;\nrequest subnet-mask, routers, domain-name-servers, domain-search, interface-mtu, host-name;\n' >$D/conf
g dhclient -4 -1 -v -cf $D/conf -sf $D/script -lf $D/leases -pf $D/dhpid -e ENVFILE=$D/env h0 >$D/dhclient 2>&1 || die dhclient
cat $D/env; g ip link show dev h0; g ip route
peer g short 192.0.2.2:7000 3 || die traffic
g dhclient -4 -x -cf $D/conf -sf /bin/true -lf $D/leases -pf $D/dhpid h0 >/dev/null 2>&1; true`)
	wants(t, out, "new_ip_address=192.0.2.1", "new_subnet_mask=255.255.255.0", "new_routers=192.0.2.2", "new_domain_name_servers=192.0.2.51 192.0.2.52",
		"new_interface_mtu=65520", "mtu 65520", "a.example", "b.example", "default via 192.0.2.2")
}

// Without --dhcp-dns and --dhcp-search nothing is said about names (spec cli 3.2).
func TestDHCP_Dhclient4Default_NoResolver(t *testing.T) {
	needs(t, "dhclient")
	out := bench(t, benchNoConfig, strings.Join(noPorts, " ")+" -a 10.9.0.5/16 -g 10.9.0.1 -m 1400 -H guesthost -D 192.0.2.51", `
printf 'timeout 10;\nrequest subnet-mask, routers, domain-name-servers, domain-search, interface-mtu, host-name;\n' >$D/conf
g dhclient -4 -1 -cf $D/conf -sf $D/script -lf $D/leases -pf $D/dhpid -e ENVFILE=$D/env h0 >$D/dhclient 2>&1 || die dhclient
cat $D/env`)
	wants(t, out, "new_ip_address=10.9.0.5", "new_subnet_mask=255.255.0.0", "new_routers=10.9.0.1", "new_interface_mtu=1400", "new_host_name=guesthost")
	if strings.Contains(out, "new_domain_name_servers") || strings.Contains(out, "new_domain_search") {
		t.Errorf("resolvers are announced unasked:\n%s", out)
	}
}

func TestDHCP_Dhclient6_AddressAndResolverTaken(t *testing.T) {
	needs(t, "dhclient")
	out := bench(t, benchNoConfig, strings.Join(noPorts, " ")+" --no-map-gw"+dns, `
ll() { g ip -6 addr show dev h0 scope link -tentative | grep -q fe80; }; until_ok 5 ll || die "no link-local address"
printf 'request dhcp6.name-servers, dhcp6.domain-search;\n' >$D/conf
g dhclient -6 -1 -v -cf $D/conf -sf $D/script -lf $D/leases -pf $D/dhpid -e ENVFILE=$D/env h0 >$D/dhclient 2>&1 || die dhclient
cat $D/env; g ip -6 addr; kill $(cat $D/dhpid) 2>/dev/null
peer g short '[2001:db8::2]:7000' 3 || die traffic`)
	wants(t, out, "new_ip6_address=2001:db8::1", "2001:db8::51", "a.example", "b.example")
}

func TestDHCP_BusyboxUdhcpc_EverythingTaken(t *testing.T) {
	needs(t, "busybox")
	out := bench(t, benchNoConfig, strings.Join(noPorts, " ")+" --no-map-gw"+dns, `
busybox --list | grep -qx udhcpc || command -v udhcpc >/dev/null || { echo "SKIP: this busybox has no udhcpc"; exit 77; }
C="busybox udhcpc"; busybox --list | grep -qx udhcpc || C=udhcpc
ENVFILE=$D/env g $C -i h0 -f -n -q -t 5 -T 1 -O mtu -O search -O dns -O router -s $D/script >$D/udhcpc 2>&1 || die udhcpc
cat $D/env; g ip link show dev h0
peer g short 192.0.2.2:7000 3 || die traffic`)
	wants(t, out, "ip=192.0.2.1", "mask=24", "router=192.0.2.2", "dns=192.0.2.51 192.0.2.52", "search=a.example b.example", "mtu=65520", "mtu 65520")
}

// The kernel takes prefix and default route from the router advertisement, and the address that it makes has traffic.
func TestSLAAC_Kernel_AddressAndDefaultRoute(t *testing.T) {
	out := bench(t, benchNoConfig, strings.Join(noPorts, " ")+" --no-map-gw", `
global() { g ip -6 addr show dev h0 scope global -tentative | grep -q 2001:db8:; }; until_ok 10 global || die "no address"
route() { g ip -6 route | grep -q "^default via fe80.*proto ra"; }; until_ok 2 route || die "no default route: $(g ip -6 route)"
g ip -6 addr show dev h0; g ip -6 route
peer g short '[2001:db8::2]:7000' 3 || die traffic
g ip link set h0 mtu 65520; g ip link set h0 down; g ip link set h0 up
mtu() { [ "$(g cat /proc/sys/net/ipv6/conf/h0/mtu)" = 65520 ]; }; until_ok 5 mtu || die "MTU"`)
	wants(t, out, "dynamic", "2001:db8::/64")
}

// --no-ra, --no-ndp and --config-net: no advertisement, no address.
func TestSLAAC_SwitchedOff_NoAddress(t *testing.T) {
	for _, o := range []string{"--no-ra", "-4"} {
		bench(t, benchNoConfig, strings.Join(noPorts, " ")+" "+o, `
ll() { g ip -6 addr show dev h0 scope link -tentative | grep -q fe80; }; until_ok 5 ll || die "no link-local address"
sleep 1.5 # the kernel asks at once and would have its answer
g ip -6 addr show dev h0 scope global | grep -q . && die "`+o+`: an address"
g ip -6 route | grep -q default && die "`+o+`: a default route"; true`)
	}
}

// --no-dhcp and --no-dhcpv6: no answer.
func TestDHCP_SwitchedOff_NoAnswer(t *testing.T) {
	needs(t, "dhclient")
	bench(t, benchNoConfig, strings.Join(noPorts, " ")+" --no-dhcp --no-dhcpv6", `
ll() { g ip -6 addr show dev h0 scope link -tentative | grep -q fe80; }; until_ok 5 ll || die "no link-local address"
printf 'timeout 2;\n' >$D/conf
g dhclient -4 -1 -cf $D/conf -sf $D/script -lf $D/leases -pf $D/dhpid -e ENVFILE=$D/env h0 >$D/dhclient 2>&1
[ -e $D/env ] && die "DHCP answered"
g timeout 3 dhclient -6 -1 -cf $D/conf -sf $D/script -lf $D/leases -pf $D/dhpid -e ENVFILE=$D/env h0 >$D/dhclient 2>&1
[ -e $D/env ] && die "DHCPv6 answered"; true`)
}
