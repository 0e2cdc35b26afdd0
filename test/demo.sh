#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The main job, shown: a command of an ordinary user in a new network namespace reaches a server on the host
# over IPv4 and IPv6. Prints addresses, routes and a measured speed.
set -eu
cd "$(dirname "$0")/.."
dir=$(mktemp -d /tmp/pasta-demo.XXXXXX)
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$dir"' EXIT
chmod 755 "$dir"
cp bin/passt "$dir/pasta"

run=()
if [ "$(id -u)" = 0 ]; then
	id passt-demo >/dev/null 2>&1 || useradd --system --no-create-home --shell /usr/sbin/nologin passt-demo
	run=(setpriv --reuid passt-demo --regid passt-demo --clear-groups)
fi
who=$("${run[@]}" id -un 2>/dev/null || "${run[@]}" id -u)

port=5399
iperf3 -s -p $port >/dev/null 2>&1 &
for _ in $(seq 50); do
	ss -ltn 2>/dev/null | grep -q ":$port " && break
	sleep 0.1
done

cat >"$dir/inside" <<'EOF'
set -u
PATH=$PATH:/usr/sbin:/sbin
port=$1
dev=$(ip -4 -o route show default | sed -n 's/.* dev \([^ ]*\).*/\1/p' | head -n 1)
gw4=$(ip -4 -o route show default | sed -n 's/.*via \([^ ]*\).*/\1/p' | head -n 1)
echo "== addresses"; ip -brief address
echo "== routes"; ip -4 route; ip -6 route show default
speed() {
	iperf3 -c "$1" -p "$port" -t 2 $2 2>&1 | sed -n 's/.* \([0-9.]* [GMK]bits\/sec\).*receiver.*/\1/p'
}
ok=0
for to in "$gw4" "fe80::1%$dev"; do
	up=$(speed "$to" "")
	down=$(speed "$to" -R)
	echo "== host at $to: namespace to host ${up:-failed}, host to namespace ${down:-failed}"
	[ -n "$up" ] && [ -n "$down" ] || ok=1
done
exit $ok
EOF

echo "== pasta --config-net as $who (the gateway's address stands for the host)"
if "${run[@]}" "$dir/pasta" --config-net -g fe80::1 -t none -u none -T none -U none -- sh "$dir/inside" $port; then
	echo "== it works"
else
	echo "== it does NOT work here: see the lines above" >&2
	exit 1
fi
