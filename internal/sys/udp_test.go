// SPDX-License-Identifier: Apache-2.0

package sys

import (
	"bytes"
	"testing"
)

// cmsg builds one control message.
func cmsg(level, kind int32, data []byte) []byte {
	b := make([]byte, 16, 16+(len(data)+7)&^7)
	ne.PutUint64(b, uint64(16+len(data)))
	ne.PutUint32(b[8:], uint32(level))
	ne.PutUint32(b[12:], uint32(kind))
	b = append(b, data...)
	return b[:cap(b)]
}

func TestParseMeta_PacketInfoAndGRO_Read(t *testing.T) {
	v4 := []byte{1, 0, 0, 0, 192, 0, 2, 1, 192, 0, 2, 255}
	v6 := append(bytes.Repeat([]byte{7}, 16), 1, 0, 0, 0)
	gro := make([]byte, 4)
	ne.PutUint32(gro, 1400)
	four := func(b ...byte) [16]byte { return mapped(b) }
	for _, c := range []struct {
		name string
		in   []byte
		want Meta
	}{
		{"none", nil, Meta{}},
		{"IPv4", cmsg(0, 8, v4), Meta{Local: four(192, 0, 2, 1), Dst: four(192, 0, 2, 255)}},
		{"IPv6", cmsg(41, 50, v6), Meta{Local: [16]byte(v6[:16]), Dst: [16]byte(v6[:16])}},
		{"both and GRO", bytes.Join([][]byte{cmsg(0, 8, v4), cmsg(41, 50, v6), cmsg(17, 104, gro)}, nil),
			Meta{Local: four(192, 0, 2, 1), Dst: four(192, 0, 2, 255), GRO: 1400}},
		{"unknown before", append(cmsg(1, 29, []byte{1, 2, 3}), cmsg(17, 104, gro)...), Meta{GRO: 1400}},
		{"length beyond", append([]byte{200, 0, 0, 0, 0, 0, 0, 0}, make([]byte, 24)...), Meta{}},
	} {
		if got := ParseMeta(c.in); got != c.want {
			t.Errorf("%s: %+v", c.name, got)
		}
		for n := range len(c.in) {
			ParseMeta(c.in[:n])
		}
	}
}

func TestParseExtErr_BothFamilies_Read(t *testing.T) {
	e := make([]byte, 16)
	ne.PutUint32(e, uint32(ECONNREFUSED))
	e[4], e[5], e[6] = ErrOriginICMP, 3, 3
	ne.PutUint32(e[8:], 1400)
	in4 := append(append([]byte(nil), e...), 2, 0, 0, 0, 203, 0, 113, 1, 0, 0, 0, 0, 0, 0, 0, 0)
	in6 := append(append([]byte(nil), e...), 10, 0, 0, 0, 0, 0, 0, 0)
	in6 = append(in6, bytes.Repeat([]byte{9}, 16)...)
	in6 = append(in6, 0, 0, 0, 0)
	for _, c := range []struct {
		in   []byte
		off  [16]byte
		has  bool
		good bool
	}{
		{cmsg(0, 11, in4), mapped([]byte{203, 0, 113, 1}), true, true},
		{cmsg(41, 25, in6), [16]byte(bytes.Repeat([]byte{9}, 16)), true, true},
		{cmsg(0, 11, e), [16]byte{}, false, true},
		{cmsg(0, 11, e[:15]), [16]byte{}, false, false},
		{cmsg(0, 8, in4), [16]byte{}, false, false},
	} {
		x, ok := ParseExtErr(c.in)
		if ok != c.good || x.Offender != c.off || x.HasOffender != c.has {
			t.Errorf("%+v %v", x, ok)
		}
		if ok && (x.Errno != ECONNREFUSED || x.Type != 3 || x.Code != 3 || x.Info != 1400 || x.Origin != ErrOriginICMP) {
			t.Errorf("%+v", x)
		}
		for n := range len(c.in) {
			ParseExtErr(c.in[:n])
		}
	}
}

func TestCopyToVec_SplitRoom_AllCopied(t *testing.T) {
	room := Alloc(100)
	var v [3]Iovec
	v[0].Set(room[:3])
	v[1].Set(room[10:10])
	v[2].Set(room[20:40])
	if n := CopyToVec(v[:], []byte("datagram")); n != 8 || string(room[:3]) != "dat" || string(room[20:25]) != "agram" {
		t.Errorf("%d %q %q", n, room[:3], room[20:25])
	}
	if n := CopyToVec(v[:], make([]byte, 50)); n != 23 {
		t.Errorf("%d copied into 23", n)
	}
}

func FuzzControl(f *testing.F) {
	f.Add(cmsg(0, 8, make([]byte, 12)))
	f.Add(cmsg(41, 25, make([]byte, 44)))
	f.Add(append(cmsg(17, 104, []byte{1, 0, 0, 0}), cmsg(0, 11, make([]byte, 32))...))
	f.Fuzz(func(t *testing.T, b []byte) {
		m := ParseMeta(b)
		if m.GRO < 0 || m.GRO > 65535 {
			t.Fatalf("GRO %d", m.GRO)
		}
		if x, ok := ParseExtErr(b); !ok && x.HasOffender || x.HasOffender && x.Offender == [16]byte{} && len(b) < 24 {
			t.Fatalf("%+v %v", x, ok)
		}
	})
}
