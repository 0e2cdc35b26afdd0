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
quick=$(go list ./... | grep -v -e /test/netns -e /test/bench -e /test/trace)
# shellcheck disable=SC2086
part go test -v -timeout 10m $quick >"$log.out" 2>&1 || true
grep -E '^(ok|FAIL|---? FAIL|panic:|\?)|trusted base|_test.go' "$log.out" | grep -v 'no test files'
cat "$log.out" >>"$log"
rm -f "$log.out"
[ $status = 0 ] && grep -q -E '^(FAIL|panic:)' "$log" && status=1
if [ -d test/netns ]; then
	part go test -v -count=1 -timeout 25m ./test/netns
fi
echo "== skipped, and why"
grep -A1 -E '^ *--- SKIP' "$log" | sed 's/^--$//' | grep . || echo "none"
passed=$(grep -c -E '^ *--- PASS' "$log")
failed=$(grep -c -E '^ *--- FAIL' "$log")
skipped=$(grep -c -E '^ *--- SKIP' "$log")
[ "$failed" = 0 ] || status=1
echo "$passed passed, $failed failed, $skipped skipped"
exit $status
