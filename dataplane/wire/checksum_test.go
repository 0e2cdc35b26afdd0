// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"math/rand"
	"testing"
)

// slowSum is RFC 1071 word by word, the oracle of Sum and Fold.
func slowSum(b []byte, start uint16) uint16 {
	s := uint32(start)
	for i, x := range b {
		if i%2 == 0 {
			s += uint32(x) << 8
		} else {
			s += uint32(x)
		}
		s = s>>16 + s&0xffff
	}
	return uint16(s>>16 + s&0xffff)
}

// sameSum compares one's complement values: 0 and 0xffff are both zero there.
func sameSum(a, b uint16) bool { return a == b || a == 0 && b == 0xffff || a == 0xffff && b == 0 }

func TestSum_AllLengthsAndOffsets_AsSlow(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	mem := make([]byte, 2016)
	for _, fill := range []string{"random", "ones", "zeroes"} {
		for i := range mem {
			switch fill {
			case "random":
				mem[i] = byte(r.Int())
			case "ones":
				mem[i] = 0xff
			default:
				mem[i] = 0
			}
		}
		for n := range 2001 {
			for _, off := range []int{0, 1, 7, 15} {
				b := mem[off : off+n]
				if got, want := Fold(Sum(b, 0)), slowSum(b, 0); got != want {
					t.Fatalf("%s, %d bytes at %d: %#x, want %#x", fill, n, off, got, want)
				}
				if got, want := Fold(Sum(b, 0xfffe)), slowSum(b, 0xfffe); !sameSum(got, want) {
					t.Fatalf("%s, %d bytes at %d, running sum: %#x, want %#x", fill, n, off, got, want)
				}
			}
		}
	}
}

func TestSum_FullSums_CarriesKept(t *testing.T) {
	ones := make([]byte, 64)
	for i := range ones {
		ones[i] = 0xff
	}
	for _, start := range []uint64{0, 1, 0xffff, 1<<32 - 1, 1 << 63, ^uint64(0) - 1, ^uint64(0)} {
		want := slowSum(ones, Fold(start))
		if got := Fold(Sum(ones, start)); !sameSum(got, want) {
			t.Errorf("start %#x: %#x, want %#x", start, got, want)
		}
		var b [8]byte
		binary.BigEndian.PutUint64(b[:], start)
		if got, want := Fold(start), slowSum(b[:], 0); !sameSum(got, want) {
			t.Errorf("fold %#x: %#x, want %#x", start, got, want)
		}
	}
}

// pseudo writes the pseudo-header of RFC 9293 s.3.1 or RFC 8200 s.8.1 out.
func pseudo(src, dst *Addr, proto uint8, n int) []byte {
	if src.Is4() {
		b := append(append([]byte(nil), src[12:]...), dst[12:]...)
		return append(b, 0, proto, byte(n>>8), byte(n))
	}
	b := append(append([]byte(nil), src[:]...), dst[:]...)
	return append(b, byte(n>>24), byte(n>>16), byte(n>>8), byte(n), 0, 0, 0, proto)
}

func TestPseudoSum_BothFamilies_AsWrittenOut(t *testing.T) {
	r := rand.New(rand.NewSource(2))
	for range 2000 {
		var a, b Addr
		r.Read(a[:])
		r.Read(b[:])
		if r.Intn(2) == 0 {
			a, b = Addr4From(a[:]), Addr4From(b[:])
		}
		n, proto := r.Intn(65536), uint8(r.Int())
		if got, want := Fold(PseudoSum(&a, &b, proto, n)), slowSum(pseudo(&a, &b, proto, n), 0); !sameSum(got, want) {
			t.Fatalf("%v %v %d %d: %#x, want %#x", a, b, proto, n, got, want)
		}
	}
}

func TestL4Checksum_Message_Verifies(t *testing.T) {
	for _, a := range [][2]Addr{{testA4, testB4}, {testA6, testB6}} {
		for n := 8; n < 80; n++ {
			m := udpDatagram("")
			m = append(m, make([]byte, n)...)
			m[n] = 0x5a
			c := L4Checksum(&a[0], &a[1], ProtoUDP, m)
			binary.BigEndian.PutUint16(m[6:], c)
			if s := slowSum(append(pseudo(&a[0], &a[1], ProtoUDP, len(m)), m...), 0); s != 0xffff {
				t.Fatalf("%v, %d bytes: sum %#x", a[0], n, s)
			}
		}
	}
}

// TestL4Checksum_KnownPacket_AsCaptured: echo request of 8 bytes, checksum worked out by hand.
func TestL4Checksum_KnownPacket_AsCaptured(t *testing.T) {
	if c := ^Fold(Sum([]byte{8, 0, 0, 0, 0x12, 0x34, 0, 1}, 0)); c != ^uint16(0x0800+0x1234+0x0001) {
		t.Errorf("%#x", c)
	}
	// RFC 1071 s.3: 00 01 f2 03 f4 f5 f6 f7 sums to ddf2.
	if c := Fold(Sum([]byte{0, 1, 0xf2, 3, 0xf4, 0xf5, 0xf6, 0xf7}, 0)); c != 0xddf2 {
		t.Errorf("%#x", c)
	}
}

func FuzzSum(f *testing.F) {
	f.Add([]byte{1}, uint16(0), uint16(0))
	f.Add(make([]byte, 100), uint16(0xffff), uint16(33))
	f.Fuzz(func(t *testing.T, b []byte, start, cut uint16) {
		want := slowSum(b, start)
		if got := Fold(Sum(b, uint64(start))); !sameSum(got, want) {
			t.Fatalf("%#x, want %#x", got, want)
		}
		// Two parts at an even cut add up.
		k := min(int(cut)&^1, len(b)&^1)
		if got := Fold(Sum(b[k:], Sum(b[:k], uint64(start)))); !sameSum(got, want) {
			t.Fatalf("cut at %d: %#x, want %#x", k, got, want)
		}
	})
}

func BenchmarkSum(b *testing.B) {
	mem := make([]byte, 65536)
	b.SetBytes(65536)
	b.ReportAllocs()
	for b.Loop() {
		Sum(mem, 0)
	}
}
