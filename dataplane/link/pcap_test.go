// SPDX-License-Identifier: Apache-2.0

package link

import (
	"bytes"
	"encoding/binary"
	"math/rand"
	"os"
	"path/filepath"
	"testing"

	"passt/dataplane/wire"
	"passt/internal/sys"
)

type record struct {
	sec, usec, full uint32
	data            []byte
}

// readCapture takes a capture file apart.
func readCapture(t *testing.T, b []byte) []record {
	t.Helper()
	le := binary.LittleEndian
	if len(b) < 24 || le.Uint32(b) != 0xa1b2c3d4 || le.Uint16(b[4:]) != 2 || le.Uint16(b[6:]) != 4 || le.Uint32(b[16:]) != 65535 || le.Uint32(b[20:]) != 1 {
		t.Fatalf("header %x", b[:min(24, len(b))])
	}
	var rs []record
	for b = b[24:]; len(b) > 0; {
		if len(b) < 16 || int(le.Uint32(b[8:])) > len(b)-16 {
			t.Fatalf("record %x", b[:min(16, len(b))])
		}
		n := int(le.Uint32(b[8:]))
		rs = append(rs, record{le.Uint32(b), le.Uint32(b[4:]), le.Uint32(b[12:]), b[16 : 16+n]})
		b = b[16+n:]
	}
	return rs
}

// captureTo runs f with a capture file and gives what was written.
func captureTo(t *testing.T, f func(c *Capture)) []record {
	t.Helper()
	name := filepath.Join(t.TempDir(), "x.pcap")
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.Write(CaptureHeader[:]); err != nil {
		t.Fatal(err)
	}
	c := NewCapture()
	c.Frame(make([]byte, 60), nil, &wire.Vnet{}) // before there is a file: nothing
	c.Open(sys.FD(file.Fd()), 1_000_000_000_000_000_000-sys.NowNs())
	f(c)
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return readCapture(t, b)
}

// udpFrame makes a frame whose UDP checksum is left to the receiver, as the virtio-net header says.
func udpFrame(payload []byte) ([]byte, wire.Vnet) {
	src, dst := wire.Addr4(192, 0, 2, 1), wire.Addr4(192, 0, 2, 2)
	b := make([]byte, 14+20+8, 14+20+8+len(payload))
	wire.PutEth(b, &wire.Broadcast, &wire.Broadcast, wire.EtherIP4)
	n := 8 + len(payload)
	wire.PutIP(b[14:], &src, &dst, wire.ProtoUDP, n, 0)
	binary.BigEndian.PutUint32(b[34:], 0x15b30035)
	binary.BigEndian.PutUint16(b[38:], uint16(n))
	binary.BigEndian.PutUint16(b[40:], wire.Fold(wire.PseudoSum(&src, &dst, wire.ProtoUDP, n)))
	return append(b, payload...), wire.Vnet{Flags: wire.VnetNeedsCsum, CsumStart: 34, CsumOffset: 6}
}

func TestCaptureFrame_PartialChecksum_CompleteInFile(t *testing.T) {
	var frames [][]byte
	rs := captureTo(t, func(c *Capture) {
		for n := range 70 {
			b, v := udpFrame(bytes.Repeat([]byte{0xa5}, n))
			frames = append(frames, bytes.Clone(b))
			if n%2 == 0 {
				c.Frame(b, nil, &v)
			} else {
				c.Frame(b[:42], b[42:], &v)
			}
			if !bytes.Equal(b, frames[n]) {
				t.Fatal("the frame itself was changed")
			}
		}
		if c.Err != 0 || c.Lost != 0 {
			t.Fatal(c.Err, c.Lost)
		}
	})
	if len(rs) != len(frames) {
		t.Fatalf("%d records", len(rs))
	}
	for i, r := range rs {
		if r.sec != 1_000_000_000 && r.sec != 1_000_000_001 || r.usec > 999_999 || int(r.full) != len(frames[i]) {
			t.Errorf("record %d: %d.%06d, %d bytes", i, r.sec, r.usec, r.full)
		}
		src, dst := wire.Addr4(192, 0, 2, 1), wire.Addr4(192, 0, 2, 2)
		l4 := r.data[34:]
		if s := wire.Fold(wire.Sum(l4, wire.PseudoSum(&src, &dst, wire.ProtoUDP, len(l4)))); s != 0xffff {
			t.Errorf("record %d: checksum does not verify: %#x", i, s)
		}
		if binary.BigEndian.Uint16(l4[6:]) == 0 {
			t.Errorf("record %d: zero checksum", i)
		}
	}
}

// TestCompleteChecksum_UDPZero_AllOnes: a payload that makes the sum come out as zero.
func TestCompleteChecksum_UDPZero_AllOnes(t *testing.T) {
	b, v := udpFrame([]byte{0, 0})
	s := wire.Fold(wire.Sum(b[34:], 0))
	binary.BigEndian.PutUint16(b[42:], ^s)
	CompleteChecksum(b, &v)
	if got := binary.BigEndian.Uint16(b[40:]); got != 0xffff {
		t.Errorf("%#x", got)
	}
	// The same bytes as TCP, whose checksum may be zero.
	tcp := make([]byte, 54)
	binary.BigEndian.PutUint16(tcp[34:], 0xffff)
	CompleteChecksum(tcp, &wire.Vnet{CsumStart: 34, CsumOffset: 16})
	if got := binary.BigEndian.Uint16(tcp[50:]); got != 0 {
		t.Errorf("TCP %#x", got)
	}
}

func TestCompleteChecksum_HostileStart_NothingChanged(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	for range 20000 {
		b := make([]byte, r.Intn(80))
		r.Read(b)
		v := wire.Vnet{Flags: wire.VnetNeedsCsum, CsumStart: uint16(r.Intn(100)), CsumOffset: uint16(r.Intn(100))}
		if r.Intn(4) == 0 {
			v.CsumStart, v.CsumOffset = uint16(r.Int()), uint16(r.Int())
		}
		was := bytes.Clone(b)
		CompleteChecksum(b, &v)
		at := int(v.CsumStart) + int(v.CsumOffset)
		for i := range b {
			if b[i] != was[i] && i != at && i != at+1 {
				t.Fatalf("%+v: byte %d of %d changed", v, i, len(b))
			}
		}
		if at+2 > len(b) && !bytes.Equal(b, was) {
			t.Fatalf("%+v changed a frame of %d bytes", v, len(b))
		}
	}
}

func TestCaptureFrame_LargerThanSnapLength_CutWithTrueLength(t *testing.T) {
	rs := captureTo(t, func(c *Capture) {
		c.Frame(make([]byte, MaxFrame), nil, &wire.Vnet{})
		c.Frame(make([]byte, 100), make([]byte, MaxFrame), &wire.Vnet{})
		c.Frame(make([]byte, 60), nil, &wire.Vnet{})
	})
	if len(rs) != 3 || len(rs[0].data) != 65535 || rs[0].full != MaxFrame || len(rs[1].data) != 65535 || rs[1].full != MaxFrame+100 || len(rs[2].data) != 60 {
		t.Errorf("%d records", len(rs))
	}
}

func TestCapture_DiskFull_TrafficGoesOn(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full: " + err.Error())
	}
	defer full.Close()
	tap, peer := fakeTap(t, 0, true)
	tap.Capture = NewCapture()
	tap.Capture.Open(sys.FD(full.Fd()), 0)
	for range 3 {
		put(t, peer, &wire.Vnet{}, make([]byte, 60))
	}
	var b Batch
	if e := tap.Recv(&b); e != sys.EAGAIN || b.N != 3 {
		t.Fatalf("%d frames, %v", b.N, e)
	}
	if n, e := tap.Send(tap.Reserve(60, 0, 1)); n != 1 || e != 0 {
		t.Fatal(n, e)
	}
	take(t, peer)
	if tap.Capture.Err != sys.ENOSPC || tap.Capture.Lost != 4 {
		t.Errorf("error %v, %d lost", tap.Capture.Err, tap.Capture.Lost)
	}
}

func TestTap_WithCapture_BothDirectionsWithPadding(t *testing.T) {
	rs := captureTo(t, func(c *Capture) {
		for _, vnet := range []bool{true, false} {
			tap, peer := fakeTap(t, 0, vnet)
			tap.Capture = c
			b, v := udpFrame([]byte("abc"))
			if vnet {
				put(t, peer, &v, b)
			} else {
				put(t, peer, nil, b)
			}
			var batch Batch
			tap.Recv(&batch)
			segs := tap.Reserve(42, 3, 1)
			copy(segs[0].Hdr, b)
			copy(segs[0].Buf, b[42:])
			segs[0].Len = 3
			if vnet {
				segs[0].Vnet = v
			}
			tap.Send(segs)
		}
		if n := testing.AllocsPerRun(1, func() {}); n != 0 {
			t.Fatal(n)
		}
	})
	if len(rs) != 4 {
		t.Fatalf("%d records", len(rs))
	}
	if len(rs[0].data) != 45 || len(rs[1].data) != 60 || !bytes.Equal(rs[1].data[:45], rs[0].data) || !bytes.Equal(rs[1].data[45:], make([]byte, 15)) {
		t.Errorf("%x\n%x", rs[0].data, rs[1].data)
	}
}
