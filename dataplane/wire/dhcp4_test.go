// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"encoding/binary"
	"testing"
)

func dhcp4Sample(options ...byte) []byte {
	b := make([]byte, DHCP4Head, DHCP4Head+len(options))
	b[0], b[1], b[2], b[10] = 1, 1, 6, 0x80
	copy(b[4:], "\x01\x02\x03\x04")
	copy(b[12:], "\xc0\x00\x02\x02")
	copy(b[28:], "\x02\x00\x00\x00\x00\x02")
	binary.BigEndian.PutUint32(b[236:], dhcp4Cookie)
	return append(b, options...)
}

func TestParseDHCP4_EachTruncation_DropsWithinFixedPartAndOptions(t *testing.T) {
	b := dhcp4Sample(53, 1, 1, 0, 0, 55, 3, 1, 3, 6, 80, 0)
	good := map[int]bool{240: true, 243: true, 244: true, 245: true, 250: true, 252: true}
	for n := 0; n <= len(b); n++ {
		if _, d := ParseDHCP4(b[:n]); (d == DropNone) != good[n] {
			t.Errorf("%d bytes: %v", n, d)
		}
	}
	d, _ := ParseDHCP4(b)
	if d.Type() != DHCP4Discover || !bytes.Equal(d.Option(55), []byte{1, 3, 6}) || d.Option(80) == nil || len(d.Option(80)) != 0 ||
		d.Option(50) != nil || !d.Broadcast() || d.Client() != Addr4(192, 0, 2, 2) || d.MAC() != (MAC{2, 0, 0, 0, 0, 2}) {
		t.Errorf("% x", d[240:])
	}
}

func TestParseDHCP4_OddOptions_EndMarkerDecides(t *testing.T) {
	for _, c := range []struct {
		name string
		opts []byte
		ok   bool
		kind uint8
	}{
		{"end marker with junk behind it", []byte{53, 1, 3, 0, 0, 0, 255, 7, 1}, true, 3},
		{"length beyond the end", []byte{53, 1, 3, 0, 0, 0, 50, 255, 7, 1, 2}, false, 0},
		{"length 255 that is there", append([]byte{50, 255}, make([]byte, 255)...), true, 0},
		{"code alone", []byte{53, 1, 3, 50}, false, 0},
		{"312 zeroes", make([]byte, 312), true, 0},
		{"nothing", nil, true, 0},
		{"type of two bytes", []byte{53, 2, 1, 1}, true, 0},
	} {
		d, drop := ParseDHCP4(dhcp4Sample(c.opts...))
		if (drop == DropNone) != c.ok || c.ok && d.Type() != c.kind {
			t.Errorf("%s: %v", c.name, drop)
		}
	}
	for _, at := range []int{0, 236, 239} {
		b := dhcp4Sample(53, 1, 1)
		b[at] ^= 3
		if _, d := ParseDHCP4(b); d != DropDHCP4 {
			t.Errorf("byte %d: %v", at, d)
		}
	}
}

func TestPutReply_Request_CopiesWhatNamesTheClient(t *testing.T) {
	b := dhcp4Sample(53, 1, 1)
	b[3], b[9], b[27] = 4, 5, 6 // hops, secs, giaddr
	d, _ := ParseDHCP4(b)
	r := bytes.Repeat([]byte{0xaa}, DHCP4Max)
	yours := Addr4(192, 0, 2, 9)
	d.PutReply(r, &yours)
	want := bytes.Clone(b[:DHCP4Head])
	want[0], want[3], want[9] = 2, 0, 0
	copy(want[16:], "\xc0\x00\x02\x09")
	if !bytes.Equal(r[:DHCP4Head], want) {
		t.Errorf("% x", r[:DHCP4Head])
	}
	if n := PutDHCP4End(r, DHCP4Head); n != DHCP4Min || r[240] != 255 || r[241] != 0 || r[299] != 0 {
		t.Errorf("%d", n)
	}
	if n := PutDHCP4End(r, DHCP4Max-1); n != DHCP4Max || r[n-1] != 255 {
		t.Errorf("%d", n)
	}
}

func FuzzParseDHCP4(f *testing.F) {
	f.Add(dhcp4Sample(53, 1, 1, 0, 55, 2, 1, 3, 255, 9))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, drop := ParseDHCP4(b)
		if drop != DropNone {
			return
		}
		// Written again option by option it is the same, pads aside.
		var again, plain []byte
		for at := DHCP4Head; ; {
			code, v, next := d.Next(at)
			if next == 0 {
				break
			}
			if next <= at || next > len(d) {
				t.Fatal(at, next)
			}
			again = append(append(again, code, byte(len(v))), v...)
			at = next
		}
		for i := DHCP4Head; i < len(d); {
			if d[i] == 0 {
				i++
				continue
			}
			n := 2 + int(d[i+1])
			plain = append(plain, d[i:i+n]...)
			i += n
		}
		if !bytes.Equal(again, plain) {
			t.Errorf("% x became % x", plain, again)
		}
	})
}
