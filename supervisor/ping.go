// SPDX-License-Identifier: Apache-2.0

package supervisor

import "passt/internal/sys"

// checkPing warns where this user may make no echo sockets: the guest's pings get an ICMP error then, and the user is
// told why, once (an info line: -q means silence, and the first ping is met by a warning of the worker). It runs after the change of user, whose groups count (icmp(7), ping_group_range).
func (s *Supervisor) checkPing() error {
	f := &s.plan.Boot.Fwd
	if !f.ICMP {
		return nil
	}
	family, proto := sys.AFInet, sys.ProtoICMP
	if !f.V4.On {
		family, proto = sys.AFInet6, sys.ProtoICMPv6
	}
	fd, e := sys.Socket(family, sys.SockDgram, proto)
	switch e {
	case 0:
		sys.Close(fd)
	case sys.EACCES:
		s.log.Infof("ping will not work: the sysctl net.ipv4.ping_group_range excludes this user's groups")
	}
	return nil
}
