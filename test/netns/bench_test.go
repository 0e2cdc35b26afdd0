// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"strings"
	"testing"
	"time"
)

// The bench: three network namespaces of one ordinary user, no outside traffic. H plays the host, P a remote peer on a
// veth (192.0.2.2/24, 2001:db8::2/64), G the namespace that pasta joins by PID. Everything lives in one PID namespace
// that ends with the script.

// benchTools are the shell functions of every script: p and g run a command in P and G, serve starts a peer and waits
// until it is ready (its output is $D/NAME), peer runs one here, until_ok polls, die ends the test with a reason.
const benchTools = `set -u
export PATH=$PATH:/usr/sbin:/sbin
for c in ip ss nsenter pgrep timeout mount; do command -v $c >/dev/null || { echo "SKIP: no $c here"; exit 77; }; done
D=$(mktemp -d); NONE="-t none -u none -T none -U none"
die() { echo "FAIL: $*"; for f in $D/*; do echo "--- $f"; head -c 2000 $f; done; exit 1; }
until_ok() { n=$1; shift; for _ in $(seq $((n*50))); do "$@" >/dev/null 2>&1 && return 0; sleep .02; done; return 1; }
named() { [ "$(cat /proc/$1/comm)" = sleep ]; }
p() { timeout 10 nsenter -t $P -n "$@"; }
g() { timeout 20 nsenter --preserve-credentials -t $G -U -n "$@"; }
h() { "$@"; }
peer() { local w=$1 r=$2; shift 2; $w env PASST_ROLE=$r "$PEERS" "$@"; }
serve() { local n=$1 w=$2 r=$3; shift 3
 case $w in
 p) nsenter -t $P -n env PASST_ROLE=$r "$PEERS" "$@" >$D/$n 2>&1 & ;;
 g) nsenter --preserve-credentials -t $G -U -n env PASST_ROLE=$r "$PEERS" "$@" >$D/$n 2>&1 & ;;
 h) env PASST_ROLE=$r "$PEERS" "$@" >$D/$n 2>&1 & ;;
 esac
 LAST=$!
 until_ok 10 grep -q ready $D/$n || die "$n not ready"; }
`

// benchHost makes H and P.
const benchHost = benchTools + `
ip link set lo up
ip link add h0 type veth peer name p0 || { echo "SKIP: no veth devices here"; exit 77; }
unshare -n sleep 100 & P=$!; until_ok 5 named $P
ip link set p0 netns $P
echo "0 0" > /proc/sys/net/ipv4/ping_group_range
echo 0 > /proc/sys/net/ipv6/conf/h0/accept_dad # saves each test two seconds
ip addr add 192.0.2.1/24 dev h0; ip addr add 2001:db8::1/64 dev h0 nodad; ip link set h0 up
p ip link set lo up; p ip addr add 192.0.2.2/24 dev p0; p ip addr add 2001:db8::2/64 dev p0 nodad; p ip link set p0 up
ip route add default via 192.0.2.2; ip -6 route add default via 2001:db8::2
linklocal() { ip -6 addr show dev h0 scope link -tentative | grep -q fe80; }
until_ok 5 linklocal || die "no link-local address"
newG() { unshare -rn sleep 60 & G=$!; until_ok 5 named $G || die "no G"; }
`

// benchJoined has pasta in G with $OPT; its PID file is $D/pid.
const benchJoined = benchHost + `
newG
$PASTA -q --config-net --no-map-gw -P $D/pid $OPT $G >$D/pasta 2>&1 || die "pasta: $?"
alive() { kill -0 $(cat $D/pid) || die "pasta is gone"; }
`

// bench runs a script behind one of the preludes; $OPT are pasta's options. It gives what the script printed.
func bench(t *testing.T, prelude, opt, script string) string {
	t.Helper()
	needs(t, "unshare")
	needs(t, "bash")
	if opt == "" {
		opt = strings.Join(noPorts, " ")
	}
	env := []string{"PASTA=" + pastaBin, "PEERS=" + selfBin, "OPT=" + opt, "TMPDIR=" + workDir}
	r := runFor(t, 60*time.Second, env, "unshare", "-rUnmpf", "--kill-child", "--mount-proc", "bash", "-c", prelude+script)
	switch {
	case r.status == 77:
		t.Skip(strings.TrimSpace(strings.TrimPrefix(r.out, "SKIP: ")))
	case r.status != 0 || strings.Contains(r.out, "FAIL:"):
		t.Errorf("status %d\n%s%s", r.status, r.out, r.err)
	}
	return r.out
}
