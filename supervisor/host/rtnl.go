// SPDX-License-Identifier: Apache-2.0

package host

import (
	"encoding/binary"

	"passt/dataplane/wire"
)

// Numbers of rtnetlink(7), linux/rtnetlink.h, linux/if_link.h, linux/if_addr.h, linux/nexthop.h.
const (
	newLink, getLink                  = 16, 18
	newAddr, getAddr                  = 20, 22
	newRoute, getRoute                = 24, 26
	newNexthop, getNexthop            = 104, 106
	flagReplace, flagExcl             = 0x100, 0x200
	flagCreate, flagAppend            = 0x400, 0x800
	sizeLink, sizeAddr, sizeRoute     = 16, 8, 12 // struct ifinfomsg, ifaddrmsg, rtmsg
	sizeHop, sizeNexthop, sizeNHGroup = 8, 8, 8   // struct rtnexthop, nhmsg, nexthop_grp

	inet, inet6 = 2, 10

	rtaDst, rtaIIF, rtaOIF, rtaGateway, rtaPriority   = 1, 3, 4, 5, 6
	rtaPrefSrc, rtaMultipath, rtaCacheinfo, rtaTable  = 7, 9, 12, 15
	rtaVia, rtaExpires, rtaPad, rtaNHID               = 18, 23, 24, 30
	rtaFlow, rtaEncapType, rtaEncap                   = 11, 21, 22
	tableMain                                         = 254
	unicast                                           = 1
	protoKernel, protoBoot                            = 2, 3
	scopeUniverse, scopeSite, scopeLink               = 0, 200, 253
	rtnhDead, rtnhOnlink                              = 1, 4
	rtmCloned                                         = 0x200
	nhaID, nhaGroup, nhaBlackhole, nhaOIF, nhaGateway = 1, 2, 4, 5, 6
	iflaAddress, iflaIfname, iflaMTU                  = 1, 3, 4
	iflaAFSpec, iflaExtMask, iflaInet6GenMode         = 26, 29, 8
	extSkipStats                                      = 8 // RTEXT_FILTER_SKIP_STATS
	genModeNone                                       = 1 // IN6_ADDR_GEN_MODE_NONE
	iffUp                                             = 1
	loopback                                          = 1 // interface index of lo in every network namespace
	ifaAddress, ifaLocal, ifaBroadcast                = 1, 2, 4
	ifaFlags, ifaPriority                             = 8, 9
	ifafSecondary, ifafNoDAD, ifafDADFailed           = 0x01, 0x02, 0x08
	ifafDeprecated, ifafTemporary, ifafNoPrefixRoute  = 0x20, 0x01, 0x200
	kernelMetric6                                     = 256    // of a connected IPv6 route
	attrKind                                          = 0x3fff // without NLA_F_NESTED and NLA_F_NET_BYTEORDER
)

var ne = binary.NativeEndian

// attr is one attribute of a message; data points into it.
type attr struct {
	kind uint16
	data []byte
	raw  uint16 // kind with its flags
}

// attrs walks the attributes of b; a malformed rest ends the walk.
func attrs(b []byte, each func(a attr)) {
	for len(b) >= 4 {
		l := int(ne.Uint16(b))
		if l < 4 || l > len(b) {
			return
		}
		raw := ne.Uint16(b[2:])
		each(attr{raw & attrKind, b[4:l:l], raw})
		b = b[min((l+3)&^3, len(b)):]
	}
}

// put appends one attribute.
func put(b []byte, kind uint16, data []byte) []byte {
	b = ne.AppendUint16(b, uint16(4+len(data)))
	b = ne.AppendUint16(b, kind)
	b = append(b, data...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

func u32(v uint32) []byte { return ne.AppendUint32(nil, v) }

// u32Of reads an attribute of four bytes, 0 when it has another size.
func u32Of(a attr) uint32 {
	if len(a.data) != 4 {
		return 0
	}
	return ne.Uint32(a.data)
}

func addrOf(b []byte) wire.Addr {
	switch len(b) {
	case 4:
		return wire.Addr4From(b)
	case 16:
		return wire.Addr6From(b)
	}
	return wire.Addr{}
}

func bytesOf(a *wire.Addr) []byte {
	if a.Is4() {
		return a[12:16]
	}
	return a[:]
}

func cstring(b []byte) string {
	for i, c := range b {
		if c == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}
