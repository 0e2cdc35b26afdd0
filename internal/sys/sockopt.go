// SPDX-License-Identifier: Apache-2.0

package sys

import "golang.org/x/sys/unix"

// Option is a pair of level and name for SetsockoptInt.
type Option struct{ Level, Name int }

// Options that brokers and worker set; each stands in the seccomp list of the roles that set it.
var (
	OptReuseAddr  = Option{unix.SOL_SOCKET, unix.SO_REUSEADDR}
	OptBroadcast  = Option{unix.SOL_SOCKET, unix.SO_BROADCAST}
	OptKeepAlive  = Option{unix.SOL_SOCKET, unix.SO_KEEPALIVE}
	OptV6Only     = Option{unix.IPPROTO_IPV6, unix.IPV6_V6ONLY}
	OptFreebind4  = Option{unix.IPPROTO_IP, unix.IP_FREEBIND}
	OptFreebind6  = Option{unix.IPPROTO_IPV6, unix.IPV6_FREEBIND}
	OptRecvErr4   = Option{unix.IPPROTO_IP, unix.IP_RECVERR}
	OptRecvErr6   = Option{unix.IPPROTO_IPV6, unix.IPV6_RECVERR}
	OptPktInfo4   = Option{unix.IPPROTO_IP, unix.IP_PKTINFO}
	OptPktInfo6   = Option{unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO}
	OptTTL4       = Option{unix.IPPROTO_IP, unix.IP_TTL}
	OptTTL6       = Option{unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS}
	OptMcastTTL4  = Option{unix.IPPROTO_IP, unix.IP_MULTICAST_TTL}
	OptMcastTTL6  = Option{unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_HOPS}
	OptMcastIf6   = Option{unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_IF}
	OptNoDelay    = Option{unix.IPPROTO_TCP, unix.TCP_NODELAY}
	OptQuickAck   = Option{unix.IPPROTO_TCP, unix.TCP_QUICKACK}
	OptMaxSeg     = Option{unix.IPPROTO_TCP, unix.TCP_MAXSEG}
	OptUDPGRO     = Option{unix.IPPROTO_UDP, unix.UDP_GRO}
	OptUDPSegment = Option{unix.IPPROTO_UDP, unix.UDP_SEGMENT}
)

// Set sets an integer option.
// policy: worker, supervisor, agent (each has its own list of level and name)
func (o Option) Set(fd FD, value int) Errno { return SetsockoptInt(fd, o.Level, o.Name, value) }
