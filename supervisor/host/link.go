// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"fmt"

	"passt/dataplane/wire"
	"passt/internal/sys"
	"passt/internal/sys/priv"
)

// Address is one address of an interface.
type Address struct {
	Addr      wire.Addr
	Prefix    uint8
	Flags     uint32    // IFA_F_*
	Scope     uint8     // RT_SCOPE_*
	Peer      wire.Addr // of a point-to-point link; the prefix is the peer's then. Zero: none
	Broadcast wire.Addr // zero: none
	Metric    uint32    // of the connected route, 0: the kernel's default
}

// netIf is one interface.
type netIf struct {
	index, mtu int
	name       string
	mac        wire.MAC // zero: not an Ethernet device
	genMode    byte     // IPv6 link-local generation, IN6_ADDR_GEN_MODE_*
	inet6      bool     // has IPv6 at all
	up         bool
}

func linkBody(index int) []byte {
	b := make([]byte, sizeLink)
	ne.PutUint32(b[4:], uint32(index))
	return b
}

// linkByIndex and linkByName ask for one interface; sys.ENODEV when there is none.
func linkByIndex(n *priv.Netlink, index int) (netIf, error) {
	return oneLink(n, put(linkBody(index), iflaExtMask, u32(extSkipStats)))
}

func linkByName(n *priv.Netlink, name string) (netIf, error) {
	if err := CheckName(name); err != nil {
		return netIf{}, err
	}
	b := put(linkBody(0), iflaExtMask, u32(extSkipStats))
	return oneLink(n, put(b, iflaIfname, append([]byte(name), 0)))
}

// CheckName tells why a text cannot name an interface: the kernel takes 1 to 15 bytes without / and blanks.
func CheckName(name string) error {
	if name == "" || len(name) > 15 {
		return fmt.Errorf("interface name %q: 1 to 15 characters are possible", name)
	}
	for i := range len(name) {
		if c := name[i]; c == '/' || c == ':' || c <= ' ' || c == 0x7f {
			return fmt.Errorf("interface name %q: %q is not possible", name, c)
		}
	}
	if name == "." || name == ".." {
		return fmt.Errorf("interface name %q is not possible", name)
	}
	return nil
}

func oneLink(n *priv.Netlink, body []byte) (netIf, error) {
	m, err := n.Get(getLink, body)
	if err != nil {
		return netIf{}, err
	}
	l, ok := parseLink(m.Body)
	if m.Kind != newLink || !ok {
		return netIf{}, fmt.Errorf("netlink: message %d instead of an interface", m.Kind)
	}
	return l, nil
}

// parseLink reads struct ifinfomsg and its attributes.
func parseLink(b []byte) (netIf, bool) {
	if len(b) < sizeLink {
		return netIf{}, false
	}
	l := netIf{index: int(ne.Uint32(b[4:])), up: ne.Uint32(b[8:])&iffUp != 0}
	attrs(b[sizeLink:], func(a attr) {
		switch {
		case a.kind == iflaIfname:
			l.name = cstring(a.data)
		case a.kind == iflaAddress && len(a.data) == 6:
			l.mac = wire.MAC(a.data)
		case a.kind == iflaMTU:
			l.mtu = int(u32Of(a))
		case a.kind == iflaAFSpec:
			attrs(a.data, func(family attr) {
				if family.kind != inet6 {
					return
				}
				l.inet6 = true
				attrs(family.data, func(a attr) {
					if a.kind == iflaInet6GenMode && len(a.data) == 1 {
						l.genMode = a.data[0]
					}
				})
			})
		}
	})
	return l, l.index > 0 && l.name != ""
}

// InterfaceExists gives an error that names the interface when there is none of that name.
func InterfaceExists(name string) error {
	n, err := priv.DialRoute()
	if err != nil {
		return err
	}
	defer n.Close()
	if _, err = linkByName(n, name); errors.Is(err, sys.Errno(enodev)) {
		return fmt.Errorf("no interface %s", name)
	}
	return err
}

// Error numbers that only this package compares with (errno(3)).
const (
	enodev = 19
	eexist = 17
)

// dumpAddresses gives the addresses of one family and interface, in the kernel's order.
func dumpAddresses(n *priv.Netlink, family byte, index int) ([]Address, error) {
	body := make([]byte, sizeAddr)
	body[0] = family
	ne.PutUint32(body[4:], uint32(index))
	list, err := n.Dump(getAddr, body)
	if err != nil {
		return nil, err
	}
	var out []Address
	for _, m := range list {
		// Kernels without strict checking do not filter.
		if m.Kind != newAddr || len(m.Body) < sizeAddr || m.Body[0] != family || int(ne.Uint32(m.Body[4:])) != index {
			continue
		}
		if a, ok := parseAddress(m.Body); ok {
			out = append(out, a)
		}
	}
	return out, nil
}

// parseAddress reads struct ifaddrmsg and its attributes.
func parseAddress(b []byte) (Address, bool) {
	if len(b) < sizeAddr {
		return Address{}, false
	}
	size := 4
	if b[0] == inet6 {
		size = 16
	}
	x := Address{Prefix: b[1], Flags: uint32(b[2]), Scope: b[3]}
	var local, addr wire.Addr
	attrs(b[sizeAddr:], func(a attr) {
		switch {
		case a.kind == ifaLocal && len(a.data) == size:
			local = addrOf(a.data)
		case a.kind == ifaAddress && len(a.data) == size:
			addr = addrOf(a.data)
		case a.kind == ifaBroadcast && len(a.data) == size:
			x.Broadcast = addrOf(a.data)
		case a.kind == ifaFlags && len(a.data) == 4:
			x.Flags = u32Of(a)
		case a.kind == ifaPriority:
			x.Metric = u32Of(a)
		}
	})
	if x.Addr = local; local.IsZero() {
		x.Addr = addr
	} else if addr != local {
		x.Peer = addr // LOCAL is ours, ADDRESS the other end's
	}
	return x, !x.Addr.IsZero() && int(x.Prefix) <= 8*size
}

// net gives the address whose prefix is the connected network.
func (a *Address) net() *wire.Addr {
	if a.Peer.IsZero() {
		return &a.Addr
	}
	return &a.Peer
}
