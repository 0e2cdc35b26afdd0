// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"

	"passt/dataplane/wire"
	"passt/internal/sys"
	"passt/internal/sys/priv"
)

// TapOptions says which tap to make.
type TapOptions struct {
	Name string   // 1 to 15 characters
	MAC  wire.MAC // zero: the kernel's choice
	MTU  int      // bytes, 0: left alone
}

// Tap is an open tap device.
type Tap struct {
	FD        int // non-blocking, closed on exec
	IfIndex   int
	Name      string
	MAC       wire.MAC
	LinkLocal wire.Addr // zero: the link is still down, Configure gives it
	Offloads  uint32    // TUN_F_* in force
	VnetHdr   bool      // frames have a virtio-net header of 12 bytes
}

// OpenTap makes the tap of pasta, down, with the virtio-net header and as much offload as the kernel has.
//
//	errors: /dev/net/tun cannot be opened, the name is taken or not possible, the MAC is refused
func OpenTap(o TapOptions) (Tap, error) {
	none := Tap{FD: int(sys.NoFD)}
	if err := CheckName(o.Name); err != nil {
		return none, err
	}
	fd, vnet, offloads, e := priv.OpenTap(o.Name)
	if e != 0 {
		return none, fmt.Errorf("make tap device %s (/dev/net/tun): %w", o.Name, e)
	}
	t := Tap{FD: int(fd), Name: o.Name, Offloads: offloads, VnetHdr: vnet}
	if name, e := priv.TapName(fd); e == 0 {
		t.Name = name
	}
	if err := t.identify(&o); err != nil {
		sys.Close(fd)
		return none, err
	}
	return t, nil
}

// identify finds the interface and gives it its MAC and MTU.
func (t *Tap) identify(o *TapOptions) error {
	n, err := priv.DialRoute()
	if err != nil {
		return err
	}
	defer n.Close()
	l, err := linkByName(n, t.Name)
	if err != nil {
		return fmt.Errorf("tap device %s: %w", t.Name, err)
	}
	t.IfIndex, t.MAC = l.index, l.mac
	if !o.MAC.IsZero() {
		if err := n.Do(newLink, 0, put(linkBody(t.IfIndex), iflaAddress, o.MAC[:])); err != nil {
			return fmt.Errorf("set MAC %s of %s: %w", o.MAC, t.Name, err)
		}
		t.MAC = o.MAC
	}
	if o.MTU > 0 {
		if err := n.Do(newLink, 0, put(linkBody(t.IfIndex), iflaMTU, u32(uint32(o.MTU)))); err != nil {
			return fmt.Errorf("set MTU %d of %s: %w", o.MTU, t.Name, err)
		}
	}
	return nil
}
