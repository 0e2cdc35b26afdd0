#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs every test, quick parts first, and lists the reasons of skipped ones once more at the end.
set -u
cd "$(dirname "$0")/.."
log=$(mktemp /tmp/passt-test.XXXXXX)
trap 'rm -f "$log"' EXIT
status=0
part() {
	echo "== $*"
	"$@" 2>&1 | tee -a "$log"
	[ "${PIPESTATUS[0]}" = 0 ] || status=1
}
export CGO_ENABLED=0
# ip, sysctl, dhclient: not in an ordinary user's path on Debian.
export PATH=$PATH:/usr/sbin:/sbin
quick=$(go list ./... | grep -v -e /test/netns -e /test/bench -e /test/trace)
# shellcheck disable=SC2086
part go test -v -timeout 10m $quick >"$log.out" 2>&1 || true
grep -E '^(ok|FAIL|---? FAIL|panic:|\?)|trusted base|_test.go' "$log.out" | grep -v 'no test files'
rm -f "$log.out"
[ $status = 0 ] && grep -q -E '^(FAIL|panic:)' "$log" && status=1
# The seccomp programs are what their source says: regenerate and compare.
policy() {
	if ! pkg-config --exists libseccomp; then
		echo "    policy_test.go:0: libseccomp's headers are not installed"
		echo "--- SKIP: TestPolicy_Regenerated_Same"
		return 0
	fi
	if [ "$(pkg-config --modversion libseccomp)" != 2.5.4 ]; then
		echo "    policy_test.go:0: libseccomp $(pkg-config --modversion libseccomp) may order instructions differently; the golden files are from 2.5.4"
		echo "--- SKIP: TestPolicy_Regenerated_Same"
		return 0
	fi
	sums() { sha256sum seccomp/programs/* seccomp/audit/testdata/* docs/policy.md; }
	before=$(sums)
	(cd seccomp/gen && CGO_ENABLED=1 go run .) || { echo "--- FAIL: TestPolicy_Regenerated_Same"; return 1; }
	if [ "$before" != "$(sums)" ]; then
		echo "--- FAIL: TestPolicy_Regenerated_Same"
		echo "    the committed programs or docs/policy.md are not what make policy gives"
		return 1
	fi
	echo "--- PASS: TestPolicy_Regenerated_Same"
}
part policy
if [ -d test/netns ]; then
	part go test -v -count=1 -timeout 25m ./test/netns
fi
# The calls of each role under a tracer, against its list; needs strace.
part go test -v -count=1 -timeout 10m ./test/trace
echo "== skipped, and why"
awk '/_test\.go:[0-9]+: / {why = $0} /^ *--- SKIP/ {print; print why; n++} END {if (!n) print "none"}' "$log"
passed=$(grep -c -E '^ *--- PASS' "$log")
failed=$(grep -c -E '^ *--- FAIL' "$log")
skipped=$(grep -c -E '^ *--- SKIP' "$log")
[ "$failed" = 0 ] || status=1
echo "$passed passed, $failed failed, $skipped skipped"
exit $status
