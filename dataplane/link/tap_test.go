// SPDX-License-Identifier: Apache-2.0

package link

import (
	"bytes"
	"encoding/binary"
	"testing"

	"passt/dataplane/wire"
	"passt/internal/sys"
)

// fakeTap gives a Tap over one end of a sequenced-packet pair and the other end: packets keep their bounds, as on a tap.
func fakeTap(t *testing.T, offloads uint32, vnet bool) (*Tap, sys.FD) {
	t.Helper()
	a, b, e := sys.SeqPair()
	if e != 0 {
		t.Fatal(e)
	}
	for _, fd := range []sys.FD{a, b} {
		sys.SetsockoptInt(fd, 1, 7, 4<<20) // SO_SNDBUF, SOL_SOCKET
	}
	t.Cleanup(func() { sys.Close(a); sys.Close(b) })
	return NewTap(a, offloads, vnet), b
}

func put(t *testing.T, fd sys.FD, v *wire.Vnet, frame []byte) {
	t.Helper()
	var b []byte
	if v != nil {
		b = make([]byte, wire.VnetSize)
		v.Put(b)
	}
	if _, e := sys.Write(fd, append(b, frame...)); e != 0 {
		t.Fatal(e)
	}
}

func take(t *testing.T, fd sys.FD) []byte {
	t.Helper()
	b := make([]byte, tapSeg)
	n, e := sys.Read(fd, b)
	if e != 0 {
		t.Fatal(e)
	}
	return b[:n]
}

func TestTapFeatures_Offloads_AsNegotiated(t *testing.T) {
	for _, c := range []struct {
		offloads uint32
		vnet     bool
		want     Features
	}{
		{0, false, Features{}},
		{0x7f, false, Features{}},
		{tunCsum | tunTSO4 | tunTSO6, true, Features{Csum: true, TSO: true}},
		{tunCsum | tunTSO4 | tunTSO6 | tunUSO4, true, Features{Csum: true, TSO: true}},
		{tunCsum | tunTSO4 | tunTSO6 | tunUSO4 | tunUSO6, true, Features{Csum: true, TSO: true, USO: true}},
	} {
		tap, _ := fakeTap(t, c.offloads, c.vnet)
		if got := tap.Features(); got != c.want {
			t.Errorf("%#x %v: %+v", c.offloads, c.vnet, got)
		}
	}
}

func TestTapRecv_Frames_InOrderWithHeaders(t *testing.T) {
	for _, vnet := range []bool{false, true} {
		tap, peer := fakeTap(t, 0, vnet)
		var b Batch
		if e := tap.Recv(&b); e != sys.EAGAIN || b.N != 0 {
			t.Fatalf("empty tap: %d frames, %v", b.N, e)
		}
		for i := range 5 {
			var v *wire.Vnet
			if vnet {
				v = &wire.Vnet{Flags: wire.VnetNeedsCsum, CsumStart: uint16(i)}
			}
			put(t, peer, v, bytes.Repeat([]byte{byte(i + 1)}, 60+i))
		}
		if e := tap.Recv(&b); e != sys.EAGAIN || b.N != 5 {
			t.Fatalf("vnet %v: %d frames, %v", vnet, b.N, e)
		}
		for i, f := range b.Frames[:b.N] {
			if !bytes.Equal(f.Data, bytes.Repeat([]byte{byte(i + 1)}, 60+i)) || cap(f.Data) != len(f.Data) {
				t.Errorf("vnet %v, frame %d: %d bytes of %d", vnet, i, f.Data[0], len(f.Data))
			}
			want := wire.Vnet{}
			if vnet {
				want = wire.Vnet{Flags: wire.VnetNeedsCsum, CsumStart: uint16(i)}
			}
			if f.Vnet != want {
				t.Errorf("frame %d: %+v", i, f.Vnet)
			}
		}
	}
}

func TestTapRecv_MoreThanABatch_RestNextTime(t *testing.T) {
	tap, peer := fakeTap(t, 0, true)
	n := MaxFrames + 7
	for i := range n {
		put(t, peer, &wire.Vnet{}, append([]byte{byte(i)}, make([]byte, 59)...))
	}
	var b Batch
	if e := tap.Recv(&b); e != 0 || b.N != MaxFrames {
		t.Fatalf("%d frames, %v", b.N, e)
	}
	if e := tap.Recv(&b); e != sys.EAGAIN || b.N != 7 || b.Frames[0].Data[0] != MaxFrames {
		t.Fatalf("%d frames, %v", b.N, e)
	}
}

func TestTapRecv_LargeFrames_ArenaBounds(t *testing.T) {
	tap, peer := fakeTap(t, 0, true)
	const n = 12
	for i := range n {
		put(t, peer, &wire.Vnet{}, bytes.Repeat([]byte{byte(i + 1)}, MaxFrame))
	}
	got := 0
	var b Batch
	for got < n {
		e := tap.Recv(&b)
		if b.N == 0 {
			t.Fatalf("after %d frames: %v", got, e)
		}
		bytesIn := 0
		for _, f := range b.Frames[:b.N] {
			got++
			bytesIn += len(f.Data)
			if len(f.Data) != MaxFrame || f.Data[0] != byte(got) || f.Data[MaxFrame-1] != byte(got) {
				t.Fatalf("frame %d: %d bytes, first %d", got, len(f.Data), f.Data[0])
			}
		}
		if bytesIn > tapArena+tapRoom {
			t.Fatalf("%d bytes in one batch", bytesIn)
		}
	}
}

func TestTapRecv_ShortPackets_Skipped(t *testing.T) {
	tap, peer := fakeTap(t, 0, true)
	for n := 1; n <= wire.VnetSize; n++ {
		put(t, peer, nil, make([]byte, n))
	}
	put(t, peer, &wire.Vnet{}, []byte{7})
	var b Batch
	if e := tap.Recv(&b); e != sys.EAGAIN || b.N != 1 || len(b.Frames[0].Data) != 1 {
		t.Fatalf("%d frames, %v", b.N, e)
	}
}

func TestTapRecv_OtherSideGone_Ends(t *testing.T) {
	tap, peer := fakeTap(t, 0, true)
	put(t, peer, &wire.Vnet{}, make([]byte, 60))
	if e := sys.Shutdown(peer, sys.ShutWr); e != 0 {
		t.Fatal(e)
	}
	var b Batch
	if e := tap.Recv(&b); e == 0 || e == sys.EAGAIN || b.N != 1 {
		t.Fatalf("%d frames, %v: must give the frame and an error", b.N, e)
	}
}

func TestTapSend_LayoutAndPadding_AsOnTheWire(t *testing.T) {
	for _, vnet := range []bool{false, true} {
		for _, c := range []struct{ hdr, payload int }{{42, 0}, {42, 17}, {42, 18}, {42, 19}, {54, 6}, {54, 1460}, {116, 0}, {74, 65536}} {
			tap, peer := fakeTap(t, 0, vnet)
			// Old bytes in the buffer must not show as padding.
			for i := range tap.out {
				tap.out[i] = 0xee
			}
			segs := tap.Reserve(c.hdr, c.payload, 1)
			if len(segs) != 1 || len(segs[0].Hdr) != c.hdr || cap(segs[0].Hdr) != c.hdr || len(segs[0].Buf) != c.payload || segs[0].Vec[0].Len() != c.payload {
				t.Fatalf("%+v: header %d, payload %d", c, len(segs[0].Hdr), len(segs[0].Buf))
			}
			for i := range segs[0].Hdr {
				segs[0].Hdr[i] = 1
			}
			for i := range segs[0].Buf {
				segs[0].Buf[i] = 2
			}
			segs[0].Len = c.payload
			segs[0].Vnet = wire.Vnet{Flags: wire.VnetNeedsCsum, CsumStart: 34, CsumOffset: 6}
			if n, e := tap.Send(segs); n != 1 || e != 0 {
				t.Fatalf("%+v: %d %v", c, n, e)
			}
			got := take(t, peer)
			if vnet {
				if v := wire.ParseVnet(got); v != segs[0].Vnet {
					t.Errorf("%+v: %+v", c, v)
				}
				got = got[wire.VnetSize:]
			}
			want := append(bytes.Repeat([]byte{1}, c.hdr), bytes.Repeat([]byte{2}, c.payload)...)
			want = append(want, make([]byte, max(0, wire.MinFrame-len(want)))...)
			if !bytes.Equal(got, want) {
				t.Errorf("vnet %v %+v: %d bytes, want %d", vnet, c, len(got), len(want))
			}
		}
	}
}

func TestTapSend_LessThanReserved_OnlyLenLeaves(t *testing.T) {
	tap, peer := fakeTap(t, 0, false)
	segs := tap.Reserve(42, 1000, 1)
	segs[0].Len = 100
	if n, e := tap.Send(segs); n != 1 || e != 0 {
		t.Fatal(n, e)
	}
	if got := take(t, peer); len(got) != 142 {
		t.Errorf("%d bytes", len(got))
	}
}

func TestTapReserve_TooMuch_Cut(t *testing.T) {
	tap, _ := fakeTap(t, 0, true)
	segs := tap.Reserve(54, 1<<20, 100)
	if len(segs) != tapSegs || len(segs[0].Buf) != tapSeg-segHead || len(segs[0].Buf) < 65536 {
		t.Fatalf("%d segments of %d bytes", len(segs), len(segs[0].Buf))
	}
	// Buffers do not overlap.
	for i := range segs {
		for j := range segs[i].Buf {
			segs[i].Buf[j] = byte(i)
		}
	}
	for i := range segs {
		if segs[i].Buf[0] != byte(i) || segs[i].Buf[len(segs[i].Buf)-1] != byte(i) {
			t.Errorf("segment %d was overwritten", i)
		}
	}
}

func TestTapSend_SeveralAndPartOfThem_RightBuffers(t *testing.T) {
	tap, peer := fakeTap(t, 0, true)
	segs := tap.Reserve(60, 10, 4)
	for i := range segs {
		segs[i].Hdr[0] = byte('a' + i)
		segs[i].Len = i
	}
	if n, e := tap.Send(segs[1:3]); n != 2 || e != 0 {
		t.Fatal(n, e)
	}
	for i := 1; i < 3; i++ {
		if got := take(t, peer); got[wire.VnetSize] != byte('a'+i) || len(got) != wire.VnetSize+60+i {
			t.Errorf("frame %d: %q, %d bytes", i, got[wire.VnetSize], len(got))
		}
	}
}

func TestTapSend_Full_TellsHowMany(t *testing.T) {
	a, b, e := sys.SeqPair()
	if e != 0 {
		t.Fatal(e)
	}
	defer sys.Close(a)
	defer sys.Close(b)
	tap := NewTap(a, 0, true)
	sent := 0
	for range 1000 {
		segs := tap.Reserve(60, 30000, 4)
		for i := range segs {
			segs[i].Len = 30000
			binary.BigEndian.PutUint32(segs[i].Hdr, uint32(sent+i))
		}
		n, e := tap.Send(segs)
		sent += n
		if e == sys.EAGAIN {
			if n == len(segs) {
				t.Error("all taken, and an error")
			}
			break
		}
		if e != 0 || n != len(segs) {
			t.Fatal(n, e)
		}
	}
	for i := range sent {
		if got := take(t, b); binary.BigEndian.Uint32(got[wire.VnetSize:]) != uint32(i) {
			t.Fatalf("frame %d is %d", i, binary.BigEndian.Uint32(got[wire.VnetSize:]))
		}
	}
	if _, e := sys.Read(b, make([]byte, 10)); e != sys.EAGAIN {
		t.Errorf("more arrived than was reported: %v", e)
	}
}

func TestTap_Hot_NoAllocation(t *testing.T) {
	tap, peer := fakeTap(t, 0, true)
	frame := make([]byte, wire.VnetSize+60)
	var b Batch
	if n := testing.AllocsPerRun(50, func() {
		_, _ = sys.Write(peer, frame)
		tap.Recv(&b)
		segs := tap.Reserve(54, 100, 2)
		segs[0].Len, segs[1].Len = 100, 3
		tap.Send(segs)
		tap.Flush()
		_, _ = sys.Read(peer, frame)
		_, _ = sys.Read(peer, frame)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if b.N != 1 {
		t.Errorf("%d frames", b.N)
	}
}
