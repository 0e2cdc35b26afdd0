// SPDX-License-Identifier: Apache-2.0

package udp

import (
	"net"
	"testing"

	"passt/dataplane/wire"
	"passt/internal/sys"
)

// begin gives a rig with one flow whose link keeps nothing, and the host's socket and peer address.
func begin(b *testing.B) (*rig, *net.UDPConn, *net.UDPAddr, uint16) {
	r, h := newRig(b), peer(b, "127.0.0.1:0")
	r.u.FromGuest([]wire.Packet{packet(b, guest4, gw4, 4444, portOf(h), 64, []byte("x"))})
	r.turn(0)
	_, from := read(b, h)
	r.link.mute = true
	_, _ = h.WriteToUDP([]byte("x"), from)
	r.until("first", func() bool { return r.link.count > 0 })
	return r, h, from, portOf(h)
}

// BenchmarkFromGuest sends runs of 44 datagrams of 1472 bytes: what one 64 KiB write holds.
func BenchmarkFromGuest(b *testing.B) {
	r, h, _, port := begin(b)
	_ = h.SetReadBuffer(1) // the kernel drops what is not read: the sender's cost alone
	var run []wire.Packet
	for range 44 {
		run = append(run, packet(b, guest4, gw4, 4444, port, 64, fill(1472, 1)))
	}
	b.SetBytes(44 * 1472)
	b.ReportAllocs()
	for b.Loop() {
		r.u.FromGuest(run)
	}
}

// BenchmarkFromHost receives 44 plain datagrams of 1472 bytes in one event; the time of sending them is not counted.
func BenchmarkFromHost(b *testing.B) {
	r, h, from, _ := begin(b)
	i, ap, d := r.flow(), from.AddrPort(), fill(1472, 1)
	b.SetBytes(44 * 1472)
	b.ReportAllocs()
	before := r.link.count
	n := 0
	for b.Loop() {
		b.StopTimer()
		for range 44 {
			_, _ = h.WriteToUDPAddrPort(d, ap)
		}
		b.StartTimer()
		r.u.Event(i, 1, sys.PollIn)
		n++
	}
	b.ReportMetric(float64(r.link.count-before)/float64(n), "frames/op")
}
