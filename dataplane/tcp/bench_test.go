// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"io"
	"testing"

	"passt/dataplane/wire"
)

// BenchmarkFromGuest sends a run of 61440 bytes to a socket whose peer reads all the time.
func BenchmarkFromGuest(b *testing.B) {
	r := newRig(b, tso)
	g := r.dial(linuxSyn)
	go io.Copy(io.Discard, g.host)
	r.link.mute = true
	run := []wire.Packet{r.packet(g.mk(wire.ACK, fill(61440, 1)))}
	b.SetBytes(61440)
	b.ReportAllocs()
	for b.Loop() {
		for r.conn().rcvEdge.From(r.conn().rcvNxt) < 61440 {
			r.turn(1)
		}
		be.PutUint32(run[0].L4[4:], g.seq)
		g.seq += 61440
		r.tcp.FromGuest(run)
		r.tcp.EndTurn()
	}
}

// BenchmarkToGuest takes from a socket whose peer writes all the time; the guest acknowledges each turn.
func BenchmarkToGuest(b *testing.B) {
	r := newRig(b, tso)
	g := r.dial([]byte{2, 4, 0x05, 0xb4, 1, 3, 3, 10})
	r.link.mute = true
	data := fill(1<<20, 1)
	go func() {
		for {
			if _, err := g.host.Write(data); err != nil {
				return
			}
		}
	}()
	run := []wire.Packet{r.packet(g.mk(wire.ACK, nil))}
	b.ReportAllocs()
	last := r.conn().sndMax
	n, bytes := int64(0), int64(0)
	for b.Loop() {
		r.turn(1)
		be.PutUint32(run[0].L4[8:], uint32(r.conn().sndMax))
		be.PutUint16(run[0].L4[14:], 4096)
		r.tcp.FromGuest(run)
		bytes += int64(r.conn().sndMax.From(last)) // turn by turn: the numbers wrap
		last = r.conn().sndMax
		n++
	}
	b.SetBytes(bytes / n)
	g.host.Close()
}
