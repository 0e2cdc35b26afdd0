// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

var (
	fragA4 = Addr4(192, 0, 2, 2)
	fragB4 = Addr4(198, 51, 100, 1)
	fragA6 = Addr{0: 0x20, 1: 0x01, 2: 0x0d, 3: 0xb8, 15: 2}
	fragB6 = Addr{0: 0x20, 1: 0x01, 2: 0x0d, 3: 0xb8, 15: 9}
)

// cut makes the fragments of one UDP datagram with n bytes of payload.
func cut(src, dst Addr, id uint32, n, step int) (frames [][]byte, l4 []byte) {
	l4 = make([]byte, UDPSize+n)
	for i := range l4 {
		l4[i] = byte(i*3) ^ byte(i>>8)
	}
	binary.BigEndian.PutUint16(l4[4:], uint16(len(l4)))
	for off := 0; off < len(l4); off += step {
		f := Fragment{Src: &src, Dst: &dst, Proto: ProtoUDP, ID: id, Off: off, Len: min(step, len(l4)-off)}
		f.More = off+f.Len < len(l4)
		b := make([]byte, EthSize+FragHeaderLen(&src)+f.Len)
		PutEth(b, &MAC{2}, &MAC{4}, EtherTypeOf(&src))
		h := PutFragIP(b[EthSize:], &f)
		copy(b[EthSize+h:], l4[off:off+f.Len])
		frames = append(frames, b)
	}
	return frames, l4
}

func TestReassembler_AnyOrder_WholeDatagramParses(t *testing.T) {
	r := NewReassembler()
	for _, c := range []struct{ src, dst Addr }{{fragA4, fragB4}, {fragA6, fragB6}} {
		for _, n := range []int{0, 1, 1472, 1480, 8192, 65507} {
			for _, step := range []int{8, 1480, 65496} {
				if n/step > 9000 {
					continue
				}
				frames, l4 := cut(c.src, c.dst, uint32(n), n, step)
				rand.Shuffle(len(frames), func(i, j int) { frames[i], frames[j] = frames[j], frames[i] })
				for k, f := range frames {
					var p Packet
					if d := p.Parse(f, &Vnet{}); len(frames) > 1 && d != DropFragment {
						t.Fatalf("fragment parses as %v", d)
					}
					whole, ok, d := r.Add(f, 0)
					if d != DropNone || ok != (k == len(frames)-1) {
						t.Fatalf("%d bytes, piece %d of %d: %v %v", n, k, len(frames), ok, d)
					}
					if !ok {
						continue
					}
					if d := p.Parse(whole, &Vnet{}); d != DropNone || !bytes.Equal(p.L4, l4) || p.Src != c.src || p.Dst != c.dst {
						t.Fatalf("%d bytes in %d pieces: %v", n, len(frames), d)
					}
					if h := whole[EthSize:]; c.src.Is4() && Fold(Sum(h[:IP4Size], 0)) != 0xffff {
						t.Error("wrong header checksum")
					}
				}
			}
		}
	}
	if r.bytes != 0 {
		t.Errorf("%d bytes kept", r.bytes)
	}
}

func TestReassembler_BadPieces_Refused(t *testing.T) {
	frames, _ := cut(fragA4, fragB4, 7, 4000, 1480)
	last := len(frames) - 1
	t.Run("overlap ends the datagram", func(t *testing.T) {
		r := NewReassembler()
		r.Add(frames[0], 0)
		if _, _, d := r.Add(frames[0], 0); d != DropFragment || r.bytes != 0 {
			t.Errorf("%v, %d bytes", d, r.bytes)
		}
	})
	t.Run("piece behind the end", func(t *testing.T) {
		r := NewReassembler()
		long, _ := cut(fragA4, fragB4, 7, 8000, 1480)
		r.Add(frames[last], 0)
		if _, _, d := r.Add(long[3], 0); d != DropFragment {
			t.Error(d)
		}
		r.Add(long[4], 0)
		if _, _, d := r.Add(frames[last], 0); d != DropFragment {
			t.Error(d)
		}
	})
	t.Run("end beyond 65535", func(t *testing.T) {
		r := NewReassembler()
		f := Fragment{Src: &fragA4, Dst: &fragB4, Proto: ProtoUDP, Off: 65528, Len: 8}
		b := make([]byte, EthSize+IP4Size+8)
		PutEth(b, &MAC{2}, &MAC{4}, EtherIP4)
		PutFragIP(b[EthSize:], &f)
		if _, _, d := r.Add(b, 0); d != DropFragment {
			t.Error(d)
		}
	})
	t.Run("every truncation", func(t *testing.T) {
		six, _ := cut(fragA6, fragB6, 7, 64, 40)
		for _, f := range [][]byte{frames[last], six[0], six[1]} {
			for n := range len(f) {
				r := NewReassembler()
				if _, ok, d := r.Add(f[:n], 0); ok || d == DropNone {
					t.Fatalf("%d of %d bytes: %v", n, len(f), d)
				}
			}
		}
	})
}

func TestReassembler_ManyAndOld_BoundedAndForgotten(t *testing.T) {
	r := NewReassembler()
	for id := range uint32(1000) {
		frames, _ := cut(fragA4, fragB4, id, 65507, 65480)
		if _, _, d := r.Add(frames[0], int64(id)); d != DropNone {
			t.Fatal(d)
		}
		if r.bytes > fragBytes {
			t.Fatalf("%d bytes", r.bytes)
		}
	}
	frames, _ := cut(fragA4, fragB4, 999, 65507, 65480)
	if _, ok, _ := r.Add(frames[1], 1000); !ok {
		t.Error("the newest is gone")
	}
	frames, _ = cut(fragA4, fragB4, 998, 65507, 65480)
	if _, ok, _ := r.Add(frames[1], 998+fragMs); ok {
		t.Error("a datagram outlived its 30 s")
	}
}

func TestReassembler_IPv6ExtensionBefore_Kept(t *testing.T) {
	frames, l4 := cut(fragA6, fragB6, 1, 100, 56)
	r := NewReassembler()
	for k, f := range frames {
		// Hop-by-hop options of 8 bytes between the IP and the fragment header.
		g := append([]byte(nil), f[:EthSize+IP6Size]...)
		g = append(g, 44, 0, 1, 4, 0, 0, 0, 0)
		g = append(g, f[EthSize+IP6Size:]...)
		g[EthSize+6] = 0
		binary.BigEndian.PutUint16(g[EthSize+4:], uint16(len(g)-EthSize-IP6Size))
		whole, ok, d := r.Add(g, 0)
		if d != DropNone || ok != (k == len(frames)-1) {
			t.Fatal(k, ok, d)
		}
		if ok {
			var p Packet
			if d := p.Parse(whole, &Vnet{}); d != DropNone || !bytes.Equal(p.L4, l4) {
				t.Fatal(d)
			}
		}
	}
}

func FuzzReassembler(f *testing.F) {
	for _, c := range [][2]Addr{{fragA4, fragB4}, {fragA6, fragB6}} {
		frames, _ := cut(c[0], c[1], 3, 100, 40)
		var all []byte
		for _, x := range frames {
			all = append(append(all, byte(len(x))), x...)
		}
		f.Add(all)
	}
	r := NewReassembler()
	f.Fuzz(func(t *testing.T, b []byte) {
		*r = Reassembler{mem: r.mem}
		in := 0
		for now := int64(0); len(b) > 0; now += 100 {
			n := min(int(b[0]), len(b)-1)
			whole, ok, d := r.Add(b[1:1+n], now)
			in += n
			b = b[1+n:]
			sum := 0
			for k := range r.slots {
				if s := &r.slots[k]; s.used {
					sum += s.got
				}
			}
			if sum != r.bytes || sum > fragBytes {
				t.Fatalf("%d bytes counted, %d there", r.bytes, sum)
			}
			if ok != (whole != nil) || ok && d != DropNone {
				t.Fatal("contradiction")
			}
			if !ok {
				continue
			}
			if len(whole) > in {
				t.Fatalf("%d bytes out of %d", len(whole), in)
			}
			var p Packet
			if p.Parse(whole, &Vnet{}) == DropIPLength {
				t.Fatal("length does not fit")
			}
		}
	})
}
