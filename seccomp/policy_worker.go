// SPDX-License-Identifier: Apache-2.0

package seccomp

import "golang.org/x/sys/unix"

// The worker has no sendmsg, no sendmmsg and no sendto with an address: a datagram goes to the peer that the broker
// connected its socket to, or nowhere. It makes no socket, opens nothing, and starts no thread or process.

// Files that make calls.
const (
	sysIO     = "internal/sys/io_unsafe.go"
	sysUDP    = "internal/sys/udp_unsafe.go"
	sysFD     = "internal/sys/fd.go"
	sysPass   = "internal/sys/fdpass_unsafe.go"
	sysEpoll  = "internal/sys/epoll_unsafe.go"
	sysSplice = "internal/sys/splice_unsafe.go"
	sysMem    = "internal/sys/mem_unsafe.go"
	sysOpt    = "internal/sys/sockopt_unsafe.go"
	sysBroker = "internal/sys/broker_unsafe.go"
	sysWait   = "internal/sys/wait_unsafe.go"
	privSuper = "internal/sys/priv/super_unsafe.go"
	goRuntime = "go runtime" // Go 1.26
)

// splicing says when the loopback path takes pipes: where it does not copy.
const splicing = "loopback path on hosts without BBR only"

// workerHot is the data path. Calls without conditions are free: the kernel remembers that they always pass.
func workerHot() []Rule {
	return []Rule{
		{Call: "sendto", Args: []Cond{is(4, 0), is(5, 0)}, By: sysIO, Why: "payload to the peer that the socket is connected to, never to another address"},
		{Call: "epoll_ctl", Args: []Cond{is(1, unix.EPOLL_CTL_ADD, unix.EPOLL_CTL_DEL, unix.EPOLL_CTL_MOD)}, By: sysEpoll, Why: "what the loop waits for"},
		{Call: "read", By: sysIO, Why: "frames from the tap; the runtime's wake-up"},
		{Call: "write", By: sysIO, Why: "frames to the tap, requests to the broker, text of a panic"},
		{Call: "writev", By: sysIO, Why: "frames to the tap, header and payload apart"},
		{Call: "epoll_pwait", By: sysEpoll, Why: "the loop's wait; the runtime's poller"},
		{Call: "recvfrom", By: sysIO, Why: "payload from a TCP or ping socket; dropping what was acknowledged"},
		{Call: "recvmsg", By: sysIO, Why: "peeking into several buffers, datagrams with their packet information, descriptors from the brokers"},
		{Call: "recvmmsg", By: sysUDP, Why: "several datagrams at once"},
		{Call: "splice", By: sysSplice, Why: "loopback path: socket to pipe to socket without a copy", Cold: splicing},
	}
}

// workerFlow is what happens once or a few times in the life of a flow.
func workerFlow() []Rule {
	return []Rule{
		{Call: "accept4", Args: []Cond{is(3, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)}, By: sysBroker, Why: "connections to forwarded ports; listeners come opened"},
		{Call: "shutdown", By: sysOpt, Why: "end of one direction of a connection"},
		{Call: "close", By: sysFD, Why: "end of a flow"},
		{Call: "getsockname", By: sysBroker, Why: "own address of an accepted connection"},
	}
}

// workerOptions are socket options, each by level and name.
func workerOptions() []Rule {
	get := func(level, name uint64, why, cold string) Rule {
		return Rule{Call: "getsockopt", Args: option(level, name), By: sysOpt, Why: why, Cold: cold}
	}
	set := func(level, name uint64, why, cold string) Rule {
		return Rule{Call: "setsockopt", Args: option(level, name), By: sysOpt, Why: why, Cold: cold}
	}
	return []Rule{
		get(unix.SOL_SOCKET, unix.SO_ERROR, "SO_ERROR: why a connection failed", ""),
		get(unix.IPPROTO_TCP, unix.TCP_CONGESTION, "TCP_CONGESTION: chooses between splice and copy", ""),
		set(unix.SOL_SOCKET, unix.SO_PEEK_OFF, "SO_PEEK_OFF: where the next peek begins", ""),
		set(unix.IPPROTO_TCP, unix.TCP_QUICKACK, "TCP_QUICKACK: acknowledge at once on the loopback path", ""),
		set(unix.IPPROTO_TCP, unix.TCP_NODELAY, "TCP_NODELAY: no waiting for more", ""),
		set(unix.IPPROTO_UDP, unix.UDP_SEGMENT, "UDP_SEGMENT: many datagrams in one call", "bursts of datagrams from the guest only"),
		set(unix.IPPROTO_IP, unix.IP_TTL, "IP_TTL: the guest's time to live", "only where the guest's differs from the default"),
		set(unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, "IPV6_UNICAST_HOPS: the guest's hop limit", "only where the guest's differs from the default"),
		set(unix.IPPROTO_IP, unix.IP_MULTICAST_TTL, "IP_MULTICAST_TTL: the same for multicast", "multicast from the guest only"),
		set(unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_HOPS, "IPV6_MULTICAST_HOPS: the same for multicast", "multicast from the guest only"),
		set(unix.SOL_SOCKET, unix.SO_LINGER, "SO_LINGER: close with a reset", ""),
		set(unix.SOL_SOCKET, unix.SO_KEEPALIVE, "SO_KEEPALIVE: notice a dead peer", "idle connections only"),
	}
}
