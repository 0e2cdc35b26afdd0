#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what building and testing need, as far as it may, and says what it cannot: Debian and Ubuntu by apt, Fedora by dnf.
set -u
need_cmds="ip:iproute2 iperf3:iperf3 ping:iputils-ping dhclient:isc-dhcp-client busybox:busybox tshark:tshark strace:strace ethtool:ethtool pgrep:procps unshare:util-linux gcc:gcc pkg-config:pkg-config"
need_files="/usr/include/seccomp.h:libseccomp-dev /usr/bin/pasta:passt"

missing=""
for pair in $need_cmds; do
	command -v "${pair%%:*}" >/dev/null 2>&1 || [ -x "/usr/sbin/${pair%%:*}" ] || [ -x "/sbin/${pair%%:*}" ] || missing="$missing ${pair##*:}"
done
for pair in $need_files; do
	[ -e "${pair%%:*}" ] || missing="$missing ${pair##*:}"
done

# Go of at least 1.26, from the distribution where it has it.
if ! command -v go >/dev/null 2>&1; then
	if [ -x /usr/local/go/bin/go ]; then
		echo "setup: Go is in /usr/local/go/bin, which is not in PATH: add it" >&2
		exit 1
	fi
	missing="$missing golang-go"
fi

# The tap needs /dev/net/tun, open to everybody as udev makes it.
if [ "$(id -u)" = 0 ]; then
	[ -c /dev/net/tun ] || modprobe tun 2>/dev/null || echo "setup: no /dev/net/tun here: pasta cannot make its tap" >&2
	if [ -c /dev/net/tun ] && [ "$(stat -c %a /dev/net/tun)" != 666 ]; then
		chmod 0666 /dev/net/tun && echo "setup: /dev/net/tun opened to ordinary users, as udev does it"
	fi
elif [ ! -w /dev/net/tun ]; then
	echo "setup: /dev/net/tun is not writable for this user: pasta cannot make its tap (as root: chmod 0666 /dev/net/tun)" >&2
fi

if [ -z "$missing" ]; then
	exit 0
fi
if [ "$(id -u)" != 0 ]; then
	echo "setup: not root, so not installed:$missing" >&2
	command -v go >/dev/null 2>&1 || { echo "setup: Go 1.26 or later is needed" >&2; exit 1; }
	echo "setup: tests that need them are skipped and say so" >&2
	exit 0
fi
if command -v apt-get >/dev/null 2>&1; then
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -q >/dev/null 2>&1
	for p in $missing; do
		apt-get install -y -q --no-install-recommends "$p" >/dev/null 2>&1 || echo "setup: apt could not install $p" >&2
	done
elif command -v dnf >/dev/null 2>&1; then
	for p in $missing; do
		case $p in
		iproute2) p=iproute ;; iputils-ping) p=iputils ;; isc-dhcp-client) p=dhcp-client ;;
		libseccomp-dev) p=libseccomp-devel ;; tshark) p=wireshark-cli ;; golang-go) p=golang ;;
		esac
		dnf install -y -q "$p" >/dev/null 2>&1 || echo "setup: dnf could not install $p" >&2
	done
else
	echo "setup: neither apt nor dnf here; please install:$missing" >&2
fi
command -v go >/dev/null 2>&1 || { echo "setup: Go 1.26 or later is needed" >&2; exit 1; }
exit 0
