// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// frame is a skeleton: an Ethernet frame whose checksums can be made right again after it was changed.
type frame []byte

const (
	etherIP4 = 0x0800
	etherARP = 0x0806
	etherIP6 = 0x86dd
)

func ether(kind uint16, body []byte) frame {
	f := append(frame{0x9a, 0x55, 0x9a, 0x55, 0x9a, 0x55, 2, 0, 0, 0, 0, 1}, byte(kind>>8), byte(kind))
	return append(f, body...)
}

func ip4(src, dst string, proto byte, body []byte) frame {
	h := []byte{0x45, 0, 0, 0, 0, 1, 0x40, 0, 64, proto, 0, 0}
	h = append(append(h, netip.MustParseAddr(src).AsSlice()...), netip.MustParseAddr(dst).AsSlice()...)
	binary.BigEndian.PutUint16(h[2:], uint16(len(h)+len(body)))
	return ether(etherIP4, append(h, body...)).sum()
}

func ip6(src, dst string, proto byte, body []byte) frame {
	h := []byte{0x60, 0, 0, 0, 0, 0, proto, 255}
	binary.BigEndian.PutUint16(h[4:], uint16(len(body)))
	h = append(append(h, netip.MustParseAddr(src).AsSlice()...), netip.MustParseAddr(dst).AsSlice()...)
	return ether(etherIP6, append(h, body...)).sum()
}

func udpBody(sport, dport uint16, data []byte) []byte {
	b := make([]byte, 8, 8+len(data))
	binary.BigEndian.PutUint16(b, sport)
	binary.BigEndian.PutUint16(b[2:], dport)
	binary.BigEndian.PutUint16(b[4:], uint16(8+len(data)))
	return append(b, data...)
}

func tcpBody(sport, dport uint16, flags byte, options []byte) []byte {
	b := make([]byte, 20, 20+len(options))
	binary.BigEndian.PutUint16(b, sport)
	binary.BigEndian.PutUint16(b[2:], dport)
	binary.BigEndian.PutUint32(b[4:], 1000)
	b[12], b[13] = byte(5+len(options)/4)<<4, flags
	binary.BigEndian.PutUint16(b[14:], 65535)
	return append(b, options...)
}

func onesSum(s uint32, b []byte) uint32 {
	for i := 0; i+1 < len(b); i += 2 {
		s += uint32(b[i])<<8 | uint32(b[i+1])
	}
	if len(b)%2 == 1 {
		s += uint32(b[len(b)-1]) << 8
	}
	return s
}

func fold(s uint32) uint16 {
	for s>>16 != 0 {
		s = s&0xffff + s>>16
	}
	return ^uint16(s)
}

// sum makes the checksums right as far as the lengths in the frame allow it.
func (f frame) sum() frame {
	if len(f) < 34 {
		return f
	}
	var l4, pseudo []byte
	var proto byte
	switch ip := f[14:]; binary.BigEndian.Uint16(f[12:]) {
	case etherIP4:
		hl := int(ip[0]&15) * 4
		if hl < 20 || hl > len(ip) {
			return f
		}
		ip[10], ip[11] = 0, 0
		binary.BigEndian.PutUint16(ip[10:], fold(onesSum(0, ip[:hl])))
		l4, pseudo, proto = ip[hl:], ip[12:20], ip[9]
	case etherIP6:
		if len(ip) < 40 {
			return f
		}
		l4, pseudo, proto = ip[40:], ip[8:40], ip[6]
	default:
		return f
	}
	at := map[byte]int{6: 16, 17: 6, 1: 2, 58: 2}[proto]
	if at == 0 || len(l4) < at+2 {
		return f
	}
	l4[at], l4[at+1] = 0, 0
	s := onesSum(0, l4)
	if proto != 1 {
		s += onesSum(uint32(proto)+uint32(len(l4)), pseudo)
	}
	binary.BigEndian.PutUint16(l4[at:], fold(s))
	return f
}

// skeletons are well-formed frames of every kind that the program reads.
func skeletons(my4, to4, my6, to6 string) []frame {
	dhcp := make([]byte, 240)
	copy(dhcp, []byte{1, 1, 6, 0, 1, 2, 3, 4})
	copy(dhcp[28:], []byte{2, 0, 0, 0, 0, 1})
	copy(dhcp[236:], []byte{99, 130, 83, 99})
	dhcp = append(dhcp, 53, 1, 1, 55, 4, 1, 3, 6, 26, 50, 4, 192, 0, 2, 9, 255)
	dhcp6 := []byte{1, 1, 2, 3, 0, 1, 0, 10, 0, 3, 0, 1, 2, 0, 0, 0, 0, 1, 0, 3, 0, 12, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 6, 0, 4, 0, 23, 0, 24}
	ns := append([]byte{135, 0, 0, 0, 0, 0, 0, 0}, netip.MustParseAddr(to6).AsSlice()...)
	ns = append(ns, 1, 1, 2, 0, 0, 0, 0, 1)
	arp := append([]byte{0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1}, netip.MustParseAddr(my4).AsSlice()...)
	arp = append(append(arp, make([]byte, 6)...), netip.MustParseAddr(to4).AsSlice()...)
	opts := []byte{2, 4, 5, 0xb4, 1, 3, 3, 7, 4, 2, 1, 1}
	echo := []byte{8, 0, 0, 0, 0, 7, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8}
	echo6 := append([]byte{128}, echo[1:]...)
	frag := ip4(my4, to4, 17, udpBody(4000, 4001, make([]byte, 64)))
	frag[20] |= 0x20
	ext := ip6(my6, to6, 0, append([]byte{17, 0, 1, 4, 0, 0, 0, 0}, udpBody(4000, 4001, []byte("x"))...))
	fr6 := ip6(my6, to6, 44, append([]byte{17, 0, 0, 1, 0, 0, 0, 9}, udpBody(4000, 4001, make([]byte, 64))...))
	out := []frame{
		ether(etherARP, arp), frag, ext, fr6,
		ip4("0.0.0.0", "255.255.255.255", 17, udpBody(68, 67, dhcp)),
		ip6("fe80::2", "ff02::1:2", 17, udpBody(546, 547, dhcp6)),
		ip6("fe80::2", "ff02::2", 58, []byte{133, 0, 0, 0, 0, 0, 0, 0}),
		ip6(my6, "ff02::1:ff00:2", 58, ns),
		ip4(my4, to4, 1, echo), ip6(my6, to6, 58, echo6),
		ip4(my4, "239.1.2.3", 17, udpBody(4000, 4001, []byte("multicast"))),
		ip4(my4, "224.0.0.22", 2, []byte{0x22, 0, 0, 0, 0, 0, 0, 0}),
	}
	for _, fl := range []byte{2, 16, 18, 17, 24, 4, 0, 255, 41} {
		out = append(out, ip4(my4, to4, 6, tcpBody(4000, 4001, fl, opts)), ip6(my6, to6, 6, tcpBody(4000, 4001, fl, opts)))
	}
	return append(out, ip4(my4, to4, 17, udpBody(4000, 4001, make([]byte, 600))), ip6(my6, to6, 17, udpBody(4000, 4001, make([]byte, 600))))
}

// mutate changes a copy of a skeleton: some bytes, the length, or everything; mostly the checksums are made right again.
func mutate(r *rand.Rand, s frame) frame {
	f := append(frame(nil), s...)
	switch k := r.IntN(10); {
	case k == 0: // nothing but noise behind the type
		for i := 14; i < len(f); i++ {
			f[i] = byte(r.Uint32())
		}
	case k == 1: // cut
		f = f[:14+r.IntN(len(f)-14)]
	case k == 2: // longer
		f = append(f, make([]byte, r.IntN(800))...)
	case k == 3: // another port, so that flows come and go
		if len(f) > 38 {
			binary.BigEndian.PutUint16(f[34:], uint16(r.Uint32()))
		}
	default:
		for range 1 + r.IntN(6) {
			f[12+r.IntN(len(f)-12)] = byte(r.Uint32()) >> r.IntN(8)
		}
	}
	if r.IntN(4) != 0 {
		f.sum()
	}
	return f
}

// packetSocket opens a raw socket on an interface; sending needs the namespace's root.
func packetSocket(ifname string) (send func(frame) error, err error) {
	i, err := net.InterfaceByName(ifname)
	if err != nil {
		return nil, err
	}
	fd, err := syscall.Socket(syscall.AF_PACKET, syscall.SOCK_RAW, 0)
	if err != nil {
		return nil, err
	}
	to := &syscall.SockaddrLinklayer{Ifindex: i.Index, Halen: 6}
	return func(f frame) error {
		for {
			err := syscall.Sendto(fd, f, 0, to)
			if !errors.Is(err, syscall.ENOBUFS) && !errors.Is(err, syscall.EAGAIN) {
				return err
			}
			time.Sleep(time.Millisecond) // the device's queue is full
		}
	}, nil
}

// junk IF COUNT SEED MY4 TO4 MY6 TO6: sends mutated frames; "port0" as COUNT sends every combination with a port of 0 or
// an impossible address instead.
func roleJunk(a []string) error {
	send, err := packetSocket(a[0])
	if err != nil {
		return err
	}
	if a[1] == "port0" {
		return sendPort0(send, a[3], a[4], a[5], a[6])
	}
	count, _ := strconv.Atoi(a[1])
	seed, _ := strconv.ParseUint(a[2], 10, 64)
	r, base := rand.New(rand.NewPCG(seed, 1)), skeletons(a[3], a[4], a[5], a[6])
	for range count {
		if err := send(mutate(r, base[r.IntN(len(base))])); err != nil && !errors.Is(err, syscall.EMSGSIZE) && !errors.Is(err, syscall.EINVAL) {
			return err
		}
	}
	fmt.Println("sent", count)
	return nil
}

func sendPort0(send func(frame) error, my4, to4, my6, to6 string) error {
	n := 0
	for _, ports := range [][2]uint16{{0, 80}, {80, 0}, {0, 0}} {
		for _, src := range []string{my4, "127.0.0.1", "224.0.0.1", "0.0.0.0", to4, "255.255.255.255"} {
			for _, dst := range []string{to4, my4, "127.0.0.1", "0.0.0.0", "224.0.0.1", "255.255.255.255"} {
				n++
				if err := errors.Join(send(ip4(src, dst, 17, udpBody(ports[0], ports[1], []byte("x")))), send(ip4(src, dst, 6, tcpBody(ports[0], ports[1], 2, nil)))); err != nil {
					return err
				}
			}
		}
		for _, src := range []string{my6, "::1", "ff02::1", "::", to6} {
			for _, dst := range []string{to6, my6, "::1", "::", "ff02::1"} {
				n++
				if err := errors.Join(send(ip6(src, dst, 17, udpBody(ports[0], ports[1], []byte("x")))), send(ip6(src, dst, 6, tcpBody(ports[0], ports[1], 2, nil)))); err != nil {
					return err
				}
			}
		}
	}
	fmt.Fprintln(os.Stdout, "sent", 2*n)
	return nil
}

// stillWorks is run in G after the junk: TCP, UDP and ping of both families, and pasta's three processes are the same.
const stillWorks = `
[ "$before" = "$(pgrep -P $(cat $D/pid) | sort | tr '\n' ' ')" ] || die "processes changed: $before"
alive
for a in 192.0.2.2 '[2001:db8::2]'; do
 peer g short $a:7000 3 || die "TCP to $a"
 peer g udp $a:7000 100 3 || die "UDP to $a"
done
g ping -n -c 1 -W 3 192.0.2.2 >/dev/null || die "ping"
g ping -n -c 1 -W 3 2001:db8::2 >/dev/null || die "ping6"
`

const beforeJunk = `
serve tcp p echo :7000; serve udp p udp-echo :7000
before=$(pgrep -P $(cat $D/pid) | sort | tr '\n' ' ')
`

// No frame, from either side, ends a process: 20000 mutated frames of every kind, then everything still works.
func TestJunk_20000MutatedFrames_EverythingStillWorks(t *testing.T) {
	out := bench(t, benchJoined, "", beforeJunk+`
ip addr add 192.0.2.77/24 dev h0
peer g junk h0 20000 1 192.0.2.1 192.0.2.77 2001:db8::1 2001:db8::2 || die junk
`+stillWorks)
	if !strings.Contains(out, "sent 20000") {
		t.Errorf("the junk did not go out: %s", out)
	}
}

// Ports of 0, and loopback, multicast, own and all-zero addresses, of both protocols and families.
func TestField_B061_PortZeroAndImpossibleAddresses_Dropped(t *testing.T) {
	bench(t, benchJoined, "", beforeJunk+`
peer g junk h0 port0 0 192.0.2.1 192.0.2.2 2001:db8::1 2001:db8::2 || die junk
`+stillWorks)
}
