// SPDX-License-Identifier: Apache-2.0

package seccomp

import "golang.org/x/sys/unix"

// Supervisor and agent serve the same requests, each on its side: sockets of two families and three kinds, made,
// set up, bound, connected and handed to the worker. They open no file and start no process any more.

// sockType is a socket type as sys.Socket makes it, always non-blocking and close-on-exec.
func sockType(kind uint64) uint64 { return kind | unix.SOCK_NONBLOCK | unix.SOCK_CLOEXEC }

func socket(family, kind, proto uint64, why string) Rule {
	return Rule{Call: "socket", Args: []Cond{is(0, family), is(1, sockType(kind)), is(2, proto)}, By: sysBroker, Why: why}
}

func brokerServe() []Rule {
	return []Rule{
		{Call: "epoll_pwait", By: sysEpoll, Why: "the loop's wait; the runtime's poller"},
		{Call: "recvmsg", By: sysPass, Why: "requests of the worker, messages between supervisor and agent"},
		{Call: "sendmsg", By: sysPass, Why: "replies with descriptors"},
		{Call: "read", By: sysIO, Why: "signals, text of children, watched directories; the runtime's wake-up", Cold: "last words of children, gone namespaces and wake-ups only"},
		{Call: "write", By: sysIO, Why: "replies without descriptors, log lines, PID file"},
		{Call: "close", By: sysFD, Why: "a socket that was handed over"},
		{Call: "connect", By: sysBroker, Why: "the guest's connections, after the address policy"},
		{Call: "bind", By: sysBroker, Why: "source addresses and ports; forwarded ports"},
		socket(unix.AF_INET, unix.SOCK_STREAM, 0, "TCP over IPv4"),
		socket(unix.AF_INET6, unix.SOCK_STREAM, 0, "TCP over IPv6"),
		socket(unix.AF_INET, unix.SOCK_DGRAM, 0, "UDP over IPv4"),
		socket(unix.AF_INET6, unix.SOCK_DGRAM, 0, "UDP over IPv6"),
		{Call: "getsockname", By: sysBroker, Why: "the port that the kernel chose"},
		{Call: "getsockopt", Args: option(unix.IPPROTO_TCP, unix.TCP_INFO), By: sysBroker, Why: "TCP_INFO: whether a connection to this host is established already"},
		{Call: "getsockopt", Args: option(unix.SOL_SOCKET, unix.SO_ERROR), By: sysOpt, Why: "SO_ERROR: why a connection failed", Cold: "refused connections only"},
		{Call: "listen", By: sysBroker, Why: "forwarded TCP ports that come into use later"},
		{Call: "shutdown", By: sysOpt, Why: "takes the right to send from sockets that only receive"},
		{Call: "epoll_ctl", Args: []Cond{is(1, unix.EPOLL_CTL_ADD, unix.EPOLL_CTL_DEL, unix.EPOLL_CTL_MOD)}, By: sysEpoll, Why: "what the loop waits for"},
		{Call: "epoll_create1", Args: []Cond{is(0, unix.EPOLL_CLOEXEC)}, By: sysEpoll, Why: "the loop, made at its start"},
		{Call: "ppoll", By: sysWait, Why: "waits until the worker has read its queue; end of a child", Cold: "full queues only"},
		{Call: "pread64", By: sysWait, Why: "tables of /proc/net, opened before"},
		{Call: "pipe2", Args: []Cond{is(1, unix.O_NONBLOCK|unix.O_CLOEXEC)}, By: sysBroker, Why: "pipes for the loopback path", Cold: splicing},
		{Call: "fcntl", Args: []Cond{is(1, unix.F_SETPIPE_SZ, unix.F_GETPIPE_SZ)}, By: sysBroker, Why: "their size", Cold: splicing},
	}
}

// brokerOptions are the socket options that are set before a socket is handed over.
func brokerOptions() []Rule {
	set := func(level, name uint64, why, cold string) Rule {
		return Rule{Call: "setsockopt", Args: option(level, name), By: sysOpt, Why: why, Cold: cold}
	}
	const ttl = "only where the guest's differs from the default"
	const byOption = "by a command-line option only"
	return []Rule{
		set(unix.IPPROTO_TCP, unix.TCP_NODELAY, "TCP_NODELAY: no waiting for more", ""),
		set(unix.IPPROTO_TCP, unix.TCP_MAXSEG, "TCP_MAXSEG: the guest's segment size", "segments of up to 32767 bytes only"),
		set(unix.IPPROTO_TCP, unix.TCP_QUICKACK, "TCP_QUICKACK: acknowledge at once on the loopback path", ""),
		set(unix.SOL_SOCKET, unix.SO_REUSEADDR, "SO_REUSEADDR: ports that were in use just before", ""),
		set(unix.SOL_SOCKET, unix.SO_BROADCAST, "SO_BROADCAST: broadcasts of the guest", ""),
		set(unix.SOL_SOCKET, unix.SO_BINDTODEVICE, "SO_BINDTODEVICE: the chosen outbound or listening interface", byOption),
		set(unix.IPPROTO_IP, unix.IP_RECVERR, "IP_RECVERR: ICMP errors for the guest", ""),
		set(unix.IPPROTO_IPV6, unix.IPV6_RECVERR, "IPV6_RECVERR: ICMPv6 errors for the guest", ""),
		set(unix.IPPROTO_IP, unix.IP_TTL, "IP_TTL: the guest's time to live", ttl),
		set(unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, "IPV6_UNICAST_HOPS: the guest's hop limit", ttl),
		set(unix.IPPROTO_UDP, unix.UDP_GRO, "UDP_GRO: many datagrams in one receive", ""),
		set(unix.IPPROTO_IP, unix.IP_PKTINFO, "IP_PKTINFO: which address a datagram came to", "listeners on IPv4 addresses only"),
		set(unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, "IPV6_RECVPKTINFO: which address a datagram came to", ""),
		set(unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, "IPV6_V6ONLY: one listener for both families or for one, and every flow's UDP socket", ""),
		set(unix.IPPROTO_IP, unix.IP_FREEBIND, "IP_FREEBIND: listening on an address that is not there yet", byOption),
		set(unix.IPPROTO_IPV6, unix.IPV6_FREEBIND, "IPV6_FREEBIND: listening on an address that is not there yet", byOption),
	}
}

// notifRecv is SECCOMP_IOCTL_NOTIF_RECV (seccomp_unotify(2)).
const notifRecv = 0xc0502100

// supervisorOnly is echo, the care for children and the way to the background.
func supervisorOnly() []Rule {
	return []Rule{
		socket(unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP, "echo over IPv4 (ping socket)"),
		socket(unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_ICMPV6, "echo over IPv6 (ping socket)"),
		{Call: "wait4", By: privSuper, Why: "how a child ended"},
		{Call: "pidfd_send_signal", By: privSuper, Why: "ends own children: only processes whose descriptor is held", Cold: "abnormal ends only"},
		{Call: "ioctl", Args: []Cond{is(1, notifRecv)}, By: privSuper, Why: "the number of a call that a listening filter stopped", Cold: "a forbidden call only"},
		{Call: "dup3", Args: []Cond{is(1, 0, 1, 2), is(2, 0)}, By: privSuper, Why: "/dev/null in place of the terminal"},
	}
}
