// SPDX-License-Identifier: Apache-2.0

package priv

import (
	"bytes"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"passt/internal/sys"
)

// offloads in the order of trying (linux/if_tun.h): USO4 and USO6 go together (Linux 6.2).
var offloads = [...]uint32{
	unix.TUN_F_CSUM | unix.TUN_F_TSO4 | unix.TUN_F_TSO6 | 0x20 | 0x40,
	unix.TUN_F_CSUM | unix.TUN_F_TSO4 | unix.TUN_F_TSO6,
	unix.TUN_F_CSUM,
	0,
}

// OpenTap makes a tap with the virtio-net header of 12 bytes where the kernel has it, else a plain one.
//
//	out: offload bits (TUN_F_*) that the kernel accepted
//
// policy: boot
func OpenTap(name string) (fd sys.FD, vnet bool, offload uint32, e sys.Errno) {
	n, e := openTun(name, unix.IFF_TAP|unix.IFF_NO_PI|unix.IFF_VNET_HDR)
	if e == 0 {
		size := int32(12)
		if e = ioctl(n, unix.TUNSETVNETHDRSZ, uintptr(unsafe.Pointer(&size))); e == 0 {
			for _, o := range offloads {
				if ioctl(n, unix.TUNSETOFFLOAD, uintptr(o)) == 0 {
					return sys.FD(n), true, o, 0
				}
			}
			return sys.FD(n), true, 0, 0
		}
		sys.Close(sys.FD(n))
	}
	if e != unix.EINVAL {
		return sys.NoFD, false, 0, e // name taken, no right, no device: a plain tap would fail too
	}
	n, e = openTun(name, unix.IFF_TAP|unix.IFF_NO_PI)
	if e != 0 {
		return sys.NoFD, false, 0, e
	}
	return sys.FD(n), false, 0, 0
}

func openTun(name string, flags uint16) (int, sys.Errno) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, errno(err)
	}
	var ifr [40]byte
	copy(ifr[:15], name)
	*(*uint16)(unsafe.Pointer(&ifr[16])) = flags
	if e := ioctl(fd, unix.TUNSETIFF, uintptr(unsafe.Pointer(&ifr))); e != 0 {
		sys.Close(sys.FD(fd))
		return -1, e
	}
	return fd, 0
}

// TapName gives the name of a tap's interface: the kernel completes names like tap%d.
// policy: boot
func TapName(fd sys.FD) (string, sys.Errno) {
	var ifr [40]byte
	if e := ioctl(int(fd), unix.TUNGETIFF, uintptr(unsafe.Pointer(&ifr))); e != 0 {
		return "", e
	}
	name, _, _ := bytes.Cut(ifr[:16], []byte{0})
	return string(name), 0
}

func ioctl(fd int, cmd, arg uintptr) sys.Errno {
	_, _, e := syscall.RawSyscall(unix.SYS_IOCTL, uintptr(fd), cmd, arg)
	return e
}
