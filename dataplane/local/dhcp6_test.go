// SPDX-License-Identifier: Apache-2.0

package local

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"passt/dataplane/fwd"
	"passt/dataplane/wire"
)

var (
	clientDUID = []byte("\x00\x03\x00\x01\x52\x54\x00\x12\x34\x56")
	serverDUID = append([]byte{0, 3, 0, 1}, ourMAC[:]...)
)

func opt6(code uint16, v ...byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, code)
	return append(binary.BigEndian.AppendUint16(b, uint16(len(v))), v...)
}

// ia builds an IA_NA or IA_PD (T1 and T2 are 5 and 6) or an IA_TA, with addresses.
func ia(code uint16, addrs ...string) []byte {
	v := []byte{0, 0, 0, 9}
	if code != 4 {
		v = append(v, 0, 0, 0, 5, 0, 0, 0, 6)
	}
	for _, s := range addrs {
		a := ip(s)
		v = append(v, opt6(5, append(a[:], 0, 0, 0, 1, 0, 0, 0, 2)...)...)
	}
	return opt6(code, v...)
}

func message6(kind byte, options ...[]byte) []byte {
	return append([]byte{kind, 0xab, 0xcd, 0xef}, bytes.Join(options, nil)...)
}

func solicit6() []byte { return message6(1, opt6(1, clientDUID...), ia(3), opt6(6, 0, 23, 0, 24)) }

func (r *rig) dhcp6(m []byte) {
	r.s.DHCP6(r.fromGuest("fe80::5054:ff:fe12:3456", "ff02::1:2", 17, udp(546, 547, m)))
}

type option6 struct {
	code uint16
	v    []byte
}

func readOptions6(t testing.TB, b []byte) (o []option6) {
	t.Helper()
	for len(b) > 0 {
		n := int(binary.BigEndian.Uint16(b[2:]))
		o = append(o, option6{binary.BigEndian.Uint16(b), b[4 : 4+n]})
		b = b[4+n:]
	}
	return o
}

// reply6 is a server's message as a client reads it.
type reply6 struct {
	frame
	kind  byte
	opts  []option6
	order []uint16
}

func (x *reply6) get(code uint16) []byte {
	for _, o := range x.opts {
		if o.code == code {
			return o.v
		}
	}
	return nil
}

func (r *rig) readReply6() reply6 {
	r.t.Helper()
	f := r.one()
	be := binary.BigEndian
	if f.proto != 17 || be.Uint16(f.l4) != 547 || be.Uint16(f.l4[2:]) != 546 || int(be.Uint16(f.l4[4:])) != len(f.l4) ||
		f.from != "fe80::1" || f.to != "fe80::5054:ff:fe12:3456" || f.src != ourMAC || f.dst != guestMAC || string(f.l4[9:12]) != "\xab\xcd\xef" {
		r.t.Fatalf("%+v", f)
	}
	x := reply6{frame: f, kind: f.l4[8], opts: readOptions6(r.t, f.l4[12:])}
	for _, o := range x.opts {
		x.order = append(x.order, o.code)
	}
	if !bytes.Equal(x.get(2), serverDUID) || x.order[0] != 2 {
		r.t.Errorf("server % x", x.get(2))
	}
	return x
}

// granted checks an IA_NA with A6 for ever.
func (r *rig) granted(v []byte) {
	r.t.Helper()
	want := append([]byte{0, 0, 0, 9, 255, 255, 255, 255, 255, 255, 255, 255}, opt6(5, append(a6[:], 255, 255, 255, 255, 255, 255, 255, 255)...)...)
	if !bytes.Equal(v, want) {
		r.t.Errorf("IA_NA % x", v)
	}
}

func TestDHCP6_Solicit_Advertise(t *testing.T) {
	r := newRig(t, func(c *Config, _ *fwd.Config) { c.Search = []string{"a.example", "b.example.", ""} })
	r.env.Guest.Seen6 = ip("2001:db8:9::99")
	r.dhcp6(solicit6())
	x := r.readReply6()
	if x.kind != 2 || !slices.Equal(x.order, []uint16{2, 3, 1, 23, 24}) || !bytes.Equal(x.get(1), clientDUID) {
		t.Errorf("%d %v", x.kind, x.order)
	}
	r.granted(x.get(3))
	dns := ip("2001:db8:9::53")
	if !bytes.Equal(x.get(23), dns[:]) || string(x.get(24)) != "\x01a\x07example\x00\x01b\x07example\x00" {
		t.Errorf("% x, %q", x.get(23), x.get(24))
	}
	if r.env.Guest.Seen6 != a6 || len(r.logs) != 1 {
		t.Errorf("%v %q", r.env.Guest.Seen6, r.logs)
	}
	r.dhcp6(append(solicit6(), opt6(14)...))
	if x := r.readReply6(); x.kind != 7 || !slices.Equal(x.order, []uint16{2, 3, 1, 14, 23, 24}) {
		t.Errorf("rapid commit: %d %v", x.kind, x.order)
	}
}

func TestDHCP6_MessageTypes_AnswerEach(t *testing.T) {
	id, ours, theirs := opt6(1, clientDUID...), opt6(2, serverDUID...), opt6(2, 0, 3, 0, 1, 2, 0, 0, 0, 0, 9)
	good, bad := ia(3, "2001:db8:9::10"), ia(3, "2001:db8:77::5")
	for _, c := range []struct {
		name  string
		m     []byte
		order []uint16 // nil: no answer
	}{
		{"solicit with server", message6(1, id, ours, good), nil},
		{"solicit without client", message6(1, good), nil},
		{"request", message6(3, id, ours, good), []uint16{2, 3, 1, 23, 24}},
		{"request of another server", message6(3, id, theirs, good), nil},
		{"request without server", message6(3, id, good), nil},
		{"request without address", message6(3, id, ours, ia(3)), []uint16{2, 3, 1, 23, 24}},
		{"renew", message6(5, id, ours, good), []uint16{2, 3, 1, 23, 24}},
		{"rebind", message6(6, id, good), []uint16{2, 3, 1, 23, 24}},
		{"rebind with server", message6(6, id, ours, good), []uint16{2, 3, 1, 23, 24}},
		{"rebind of another server", message6(6, id, theirs, good), nil},
		{"confirm", message6(4, id, good), []uint16{2, 3, 1, 13, 23, 24}},
		{"confirm of no address", message6(4, id, ia(3)), nil},
		{"confirm with server", message6(4, id, ours, good), nil},
		{"information", message6(11, id, opt6(6, 0, 23)), []uint16{2, 1, 23, 24}},
		{"information without client", message6(11), []uint16{2, 23, 24}},
		{"information with our identifier", message6(11, id, ours), []uint16{2, 1, 23, 24}},
		{"information of another server", message6(11, id, theirs), nil},
		{"information with IA", message6(11, id, good), nil},
		{"release", message6(8, id, ours, good), []uint16{2, 1, 13}},
		{"decline", message6(9, id, ours, good), []uint16{2, 1, 13}},
		{"release of another server", message6(8, id, theirs, good), nil},
		{"reply", message6(7, id, good), nil},
		{"reconfigure", message6(10, id, good), nil},
		{"relay", message6(12, make([]byte, 30), good), nil},
		{"prefix delegation alone", message6(1, id, ia(25)), []uint16{2, 25, 1, 23, 24}},
		{"temporary address alone", message6(1, id, ia(4)), []uint16{2, 4, 1, 23, 24}},
		{"request of elsewhere", message6(3, id, ours, bad), []uint16{2, 3, 1}},
		{"renew of elsewhere, temporary", message6(5, id, ours, good, ia(4, "2001:db8:77::5")), []uint16{2, 4, 1}},
		{"confirm of elsewhere", message6(4, id, bad), []uint16{2, 3, 1, 13}},
	} {
		r := newRig(t, nil)
		r.dhcp6(c.m)
		if c.order == nil {
			r.none(c.name)
			continue
		}
		if x := r.readReply6(); !slices.Equal(x.order, c.order) || x.kind != 7 && c.m[0] != 1 {
			t.Errorf("%s: %d %v", c.name, x.kind, x.order)
		}
	}
}

func TestDHCP6_Statuses_WhereTheyBelong(t *testing.T) {
	id, ours := opt6(1, clientDUID...), opt6(2, serverDUID...)
	status := func(v []byte, skip int) int {
		for _, o := range readOptions6(t, v[skip:]) {
			if o.code == 13 {
				return int(binary.BigEndian.Uint16(o.v))
			}
		}
		return -1
	}
	r := newRig(t, nil)
	r.dhcp6(message6(3, id, ours, ia(3, "2001:db8:77::5")))
	x := r.readReply6()
	if v := x.get(3); string(v[:12]) != "\x00\x00\x00\x09\x00\x00\x00\x05\x00\x00\x00\x06" || status(v, 12) != 4 || len(readOptions6(t, v[12:])) != 1 {
		t.Errorf("% x", v)
	}
	r.dhcp6(message6(4, id, ia(3, "2001:db8:77::5")))
	x = r.readReply6()
	if v := x.get(13); string(v) != "\x00\x04" {
		t.Errorf("% x", v)
	}
	r.dhcp6(message6(1, id, ia(25), ia(4), ia(3), ia(3)))
	x = r.readReply6()
	if !slices.Equal(x.order, []uint16{2, 25, 4, 3, 3, 1, 23, 24}) || status(x.opts[1].v, 12) != 6 || status(x.opts[2].v, 4) != 2 || status(x.opts[4].v, 12) != 2 {
		t.Errorf("%v", x.opts)
	}
	r.granted(x.opts[3].v)
	r.dhcp6(message6(6, id, ia(3, "2001:db8:77::5")))
	x = r.readReply6()
	old := ip("2001:db8:77::5")
	if v := x.get(3); !bytes.HasSuffix(v, append(old[:], make([]byte, 8)...)) || len(v) != 12+28+28 {
		t.Errorf("% x", v)
	}
	if v := x.get(3); len(v) > 40 {
		r.granted(v[:40])
	}
	r.dhcp6(message6(8, id, ours))
	x = r.readReply6()
	if !bytes.Equal(x.get(13), []byte{0, 0}) {
		t.Errorf("% x", x.get(13))
	}
}

func TestDHCP6_FQDN_FlagsFollowClient(t *testing.T) {
	for _, c := range []struct {
		client []byte
		flags  byte
	}{{nil, 0}, {opt6(39, 0, 0), 0}, {opt6(39, 1, 0), 2}, {opt6(39), 0}} {
		r := newRig(t, func(c *Config, _ *fwd.Config) { c.FQDN = "h.example.org." })
		r.dhcp6(append(solicit6(), c.client...))
		x := r.readReply6()
		if v := x.get(39); string(v) != string(c.flags)+"\x01h\x07example\x03org\x00" || x.order[len(x.order)-1] != 39 {
			t.Errorf("%q", v)
		}
	}
}

func TestDHCP6_SearchList_EachNameWhole(t *testing.T) {
	long := strings.Repeat(strings.Repeat("x", 60)+".", 4)
	for _, c := range []struct{ in, out []string }{
		{[]string{"a.example", "b.example."}, []string{"a.example", "b.example"}},
		{[]string{"a.example b.example"}, []string{"a.example", "b.example"}},
		{[]string{"", ".", "a..b"}, nil},
		{[]string{long + "a", long + "b", long + "c", "d", long + "e", long + "f"}, []string{long + "a", long + "b", "d"}},
	} {
		r := newRig(t, func(g *Config, _ *fwd.Config) {
			g.Search, g.FQDN = c.in, strings.TrimSuffix(long, ".")
			g.DNS6 = []wire.Addr{a6, a6, a6}
		})
		r.dhcp6(solicit6())
		x := r.readReply6()
		var got []string
		for v := x.get(24); len(v) > 0; {
			s, n := name(t, v, 0)
			got, v = append(got, s), v[n:]
		}
		if !slices.Equal(got, c.out) || x.get(39) == nil || len(x.get(23)) != 48 {
			t.Errorf("%v: %v", c.in, got)
		}
	}
}

func TestDHCP6_OffOrUnicast_Nothing(t *testing.T) {
	for _, c := range []func(*Config, *fwd.Config){
		func(c *Config, _ *fwd.Config) { c.DHCP6 = false },
		func(_ *Config, f *fwd.Config) { f.V6.On = false },
		func(_ *Config, f *fwd.Config) { f.V6.Guest = wire.Addr{} },
		func(_ *Config, f *fwd.Config) { f.V6.Guest = gll },
	} {
		r := newRig(t, c)
		r.dhcp6(solicit6())
		r.none("off")
	}
	r := newRig(t, nil)
	r.s.DHCP6(r.fromGuest("fe80::5054:ff:fe12:3456", "fe80::1", 17, udp(546, 547, solicit6())))
	r.s.DHCP6(r.fromGuest("::", "ff02::1:2", 17, udp(546, 547, solicit6())))
	r.none("unicast or from nobody")
	for _, c := range []func(*Config, *fwd.Config){
		func(c *Config, _ *fwd.Config) { c.NDP = false },
		func(c *Config, _ *fwd.Config) { c.RA = false },
	} {
		r := newRig(t, c)
		r.dhcp6(solicit6())
		r.readReply6()
	}
}

func TestDHCP6_EachTruncation_NoPanic(t *testing.T) {
	r := newRig(t, nil)
	m := message6(3, opt6(1, clientDUID...), opt6(2, serverDUID...), ia(3, "2001:db8:9::10"), ia(4, "2001:db8:77::5"), ia(25))
	for n := range m {
		r.dhcp6(m[:n])
	}
	if r.env.Drops[wire.DropDHCP6] == 0 {
		t.Error("nothing counted")
	}
	r.take()
	r.dhcp6(m)
	r.readReply6()
}

// Hundreds of associations: the answer stays within the least MTU and has all the rest.
func TestDHCP6_ManyAssociations_WithinMTU(t *testing.T) {
	for _, kind := range []byte{1, 6} {
		r := newRig(t, nil)
		m := message6(kind, opt6(1, bytes.Repeat([]byte{7}, 128)...), ia(3, slices.Repeat([]string{"2001:db8:77::5"}, 200)...))
		for range 300 {
			m = append(m, ia(25)...)
		}
		r.dhcp6(m)
		if x := r.readReply6(); len(x.raw) > 14+1280 || x.get(1) == nil || x.get(23) == nil || x.get(24) == nil {
			t.Errorf("%d bytes, %v", len(x.raw), x.order)
		}
	}
}

// Whatever the client sends: at most one answer, well-formed (readReply6 checks), within the least MTU.
func FuzzDHCP6(f *testing.F) {
	f.Add(solicit6())
	f.Add(message6(3, opt6(1, clientDUID...), opt6(2, serverDUID...), ia(3, "2001:db8:9::10"), ia(4, "2001:db8:77::5"), ia(25)))
	f.Add(message6(6, opt6(1, clientDUID...), ia(3, "2001:db8:77::5")))
	r := newRig(f, func(c *Config, _ *fwd.Config) { c.FQDN = "h.example.org" })
	f.Fuzz(func(t *testing.T, m []byte) {
		r.t, r.logs = t, nil
		if len(m) > 60000 {
			return
		}
		if len(m) > 3 {
			copy(m[1:], "\xab\xcd\xef")
		}
		r.dhcp6(m)
		if len(r.link.got) == 0 {
			return
		}
		x := r.readReply6()
		for _, o := range x.opts {
			switch o.code {
			case 3, 25:
				readOptions6(t, o.v[12:])
			case 4:
				readOptions6(t, o.v[4:])
			}
		}
	})
}
