// SPDX-License-Identifier: Apache-2.0

package ipc

import (
	"bytes"
	"errors"
	"math/rand"
	"reflect"
	"strings"
	"testing"

	"passt/dataplane/fwd"
	"passt/dataplane/wire"
)

// fill sets every field below v to a value that is not zero and differs from the one before; a kind of field that it does
// not know fails the test, so that a new field cannot be forgotten.
func fill(t *testing.T, v reflect.Value, path string, n *uint64) {
	*n++
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint((*n*2654435761 | 1) & (1<<v.Type().Bits() - 1))
	case reflect.String:
		v.SetString(strings.Repeat("x", int(*n%50)+1) + path)
	case reflect.Array:
		for i := range v.Len() {
			fill(t, v.Index(i), path, n)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fill(t, v.Index(i), path, n)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.Name != "_" {
				fill(t, v.Field(i), path+"."+f.Name, n)
			}
		}
	default:
		t.Fatalf("%s: kind %v has no encoding", path, v.Kind())
	}
}

func filledBoot(t *testing.T) *Boot {
	b := new(Boot)
	n := uint64(0)
	fill(t, reflect.ValueOf(b).Elem(), "Boot", &n)
	return b
}

func TestBoot_EveryFieldSet_RoundTrip(t *testing.T) {
	b := filledBoot(t)
	p, err := EncodeBoot(b)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseBoot(p)
	if err != nil {
		t.Fatal(err)
	}
	va, vb := reflect.ValueOf(b).Elem(), reflect.ValueOf(got).Elem()
	for i := range va.NumField() {
		if !reflect.DeepEqual(va.Field(i).Interface(), vb.Field(i).Interface()) {
			t.Errorf("%s: %v, want %v", va.Type().Field(i).Name, vb.Field(i), va.Field(i))
		}
	}
}

func TestParseBoot_TruncatedAtEachByteAndLonger_Refused(t *testing.T) {
	p, err := EncodeBoot(filledBoot(t))
	if err != nil {
		t.Fatal(err)
	}
	for n := range p {
		if _, err := ParseBoot(p[:n]); !errors.Is(err, ErrFormat) {
			t.Fatalf("cut to %d of %d: %v", n, len(p), err)
		}
	}
	if _, err := ParseBoot(append(p, 0)); !errors.Is(err, ErrFormat) {
		t.Errorf("one byte left over: %v", err)
	}
	p[0]++
	if _, err := ParseBoot(p); !errors.Is(err, ErrFormat) {
		t.Errorf("other version: %v", err)
	}
}

func TestEncodeBoot_Limits_Refused(t *testing.T) {
	many := func(n int) []fwd.Rule { return make([]fwd.Rule, n) }
	for name, b := range map[string]*Boot{
		"host rules": {Host: many(fwd.MaxRules + 1)}, "namespace rules": {Ns: many(70000)},
		"resolvers": {DNS4: make([]wire.Addr, MaxDNS+1)}, "resolvers 6": {DNS6: make([]wire.Addr, MaxDNS+1)},
		"search": {Search: make([]string, MaxSearch+1)}, "search length": {Search: []string{strings.Repeat("x", 1025)}},
		"hostname": {Hostname: strings.Repeat("x", MaxName+1)}, "fqdn": {FQDN: strings.Repeat("x", 65536+3)},
	} {
		if _, err := EncodeBoot(b); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
	full := &Boot{Host: many(fwd.MaxRules), Ns: many(fwd.MaxRules), DNS4: make([]wire.Addr, MaxDNS), DNS6: make([]wire.Addr, MaxDNS),
		Hostname: strings.Repeat("h", MaxName), FQDN: strings.Repeat("f", MaxName)}
	for range MaxSearch {
		full.Search = append(full.Search, strings.Repeat("s", 1024))
	}
	p, err := EncodeBoot(full)
	if err != nil {
		t.Fatalf("the largest boot: %v", err)
	}
	if got, err := ParseBoot(p); err != nil || !reflect.DeepEqual(got, full) {
		t.Errorf("the largest boot does not come back: %v", err)
	}
}

func TestRecords_EveryFieldSet_RoundTrip(t *testing.T) {
	garbage := func(n int) []byte { return bytes.Repeat([]byte{0xee}, n+1) }
	check := func(name string, in, out any, b []byte, size int) {
		t.Helper()
		if !reflect.DeepEqual(in, out) {
			t.Errorf("%s: %+v, want %+v", name, out, in)
		}
		if b[size] != 0xee {
			t.Errorf("%s wrote beyond %d bytes", name, size)
		}
	}
	n := uint64(0)
	var c, c2 Connect
	fill(t, reflect.ValueOf(&c).Elem(), "Connect", &n)
	for c.Op = OpTCP; c.Op <= OpUDPListen; c.Op++ {
		b := garbage(ConnectSize)
		c.Put(b)
		if !c2.Parse(b) {
			t.Errorf("op %d refused", c.Op)
		}
		check("connect", c, c2, b, ConnectSize)
	}
	var r, r2 Reply
	fill(t, reflect.ValueOf(&r).Elem(), "Reply", &n)
	b := garbage(ReplySize)
	r.Put(b)
	r2.Parse(b)
	check("reply", r, r2, b, ReplySize)
	var g, g2 Grant
	fill(t, reflect.ValueOf(&g).Elem(), "Grant", &n)
	b = garbage(GrantSize)
	g.Put(b)
	g2.Parse(b)
	check("grant", g, g2, b, GrantSize)
	var u, u2 Update
	fill(t, reflect.ValueOf(&u).Elem(), "Update", &n)
	b = garbage(UpdateSize)
	u.Put(b)
	u2.Parse(b)
	check("update", u, u2, b, UpdateSize)
}

func TestConnectParse_UnknownOpOrReserved_Refused(t *testing.T) {
	var b [ConnectSize]byte
	q := Connect{Op: OpTCP}
	for op := range 256 {
		q.Put(b[:])
		b[8] = byte(op)
		var got Connect
		if ok := got.Parse(b[:]); ok != (op >= int(OpTCP) && op <= int(OpUDPListen)) {
			t.Errorf("op %d: %v", op, ok)
		}
	}
	for _, at := range []int{11, 52, 53, 60, 63} {
		q.Put(b[:])
		b[at] = 1
		var got Connect
		if got.Parse(b[:]) {
			t.Errorf("reserved byte %d is accepted", at)
		}
	}
}

// packet builds a whole packet.
func packet(h Header, body int) []byte {
	b := make([]byte, HeaderSize+body)
	PutHeader(b, h)
	return b
}

func TestParseHeader_ExactLengths_OthersRefused(t *testing.T) {
	for _, k := range []Kind{KindGrant, KindRevoke, KindConnect, KindReply, KindPipe, KindUpdate} {
		size := RecordSize(k)
		for count := range MaxBatch + 2 {
			for _, d := range []int{-1, 0, 1} {
				n := count*size + d
				if n < 0 {
					continue
				}
				h := Header{Kind: k, Count: uint16(count), Len: uint32(n), Seq: 7}
				got, body, err := ParseHeader(packet(h, n), 0)
				want := d == 0 && count >= 1 && count <= MaxBatch
				if (err == nil) != want || want && (got != h || len(body) != n) || !want && !errors.Is(err, ErrFormat) {
					t.Errorf("kind %d, %d records, %d bytes: %v", k, count, n, err)
				}
			}
		}
	}
	for _, k := range []Kind{KindBoot, KindLog, KindReady, KindControl} {
		for count := range 3 {
			_, _, err := ParseHeader(packet(Header{Kind: k, Count: uint16(count), Len: 5}, 5), 0)
			if (err == nil) != (count == 1) {
				t.Errorf("kind %d, count %d: %v", k, count, err)
			}
		}
	}
	good := Header{Kind: KindLog, Count: 1, Len: 3, FDs: 2}
	for name, c := range map[string]struct {
		b   []byte
		fds int
	}{
		"short":            {packet(good, 3)[:15], 2},
		"empty":            {nil, 0},
		"length too large": {packet(Header{Kind: KindLog, Count: 1, Len: 4}, 3), 0},
		"length too small": {packet(Header{Kind: KindLog, Count: 1, Len: 2}, 3), 0},
		"length 2^32-1":    {packet(Header{Kind: KindLog, Count: 1, Len: 1<<32 - 1}, 3), 0},
		"descriptor count": {packet(good, 3), 1},
		"none announced":   {packet(Header{Kind: KindLog, Count: 1, Len: 3}, 3), 1},
		"kind 0":           {packet(Header{Count: 1}, 0), 0},
		"kind 11":          {packet(Header{Kind: 11, Count: 1}, 0), 0},
		"reserved":         {append(packet(good, 3)[:13], 1, 0, 0, 0, 0, 0), 2},
	} {
		if _, _, err := ParseHeader(c.b, c.fds); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzParseHeader(f *testing.F) {
	f.Add(packet(Header{Kind: KindConnect, Count: 2, Len: 2 * ConnectSize}, 2*ConnectSize), 0)
	f.Add(packet(Header{Kind: KindLog, Count: 1, Len: 3, FDs: 2}, 3), 2)
	f.Add([]byte{}, 0)
	f.Fuzz(func(t *testing.T, b []byte, fds int) {
		h, body, err := ParseHeader(b, fds)
		if err != nil {
			if !errors.Is(err, ErrFormat) || len(err.Error()) > 200 {
				t.Fatalf("%v", err)
			}
			return
		}
		if len(body) != len(b)-HeaderSize || int(h.Len) != len(body) || int(h.FDs) != fds || h.Kind < KindBoot || h.Kind > KindControl {
			t.Fatalf("%+v of %x", h, b)
		}
		if n := RecordSize(h.Kind); n > 0 && (int(h.Count)*n != len(body) || h.Count == 0 || h.Count > MaxBatch) {
			t.Fatalf("%+v of %d bytes", h, len(body))
		}
		again := make([]byte, HeaderSize)
		PutHeader(again, h)
		if !bytes.Equal(again, b[:HeaderSize]) {
			t.Fatalf("%x became %x", b[:HeaderSize], again)
		}
		var c Connect
		if h.Kind == KindConnect && c.Parse(body) {
			var w [ConnectSize]byte
			c.Put(w[:])
			if !bytes.Equal(w[:], body[:ConnectSize]) {
				t.Fatalf("%x became %x", body[:ConnectSize], w)
			}
		}
	})
}

func FuzzParseBoot(f *testing.F) {
	empty, _ := EncodeBoot(&Boot{})
	f.Add(empty)
	some, _ := EncodeBoot(&Boot{Mode: ModePasta, Host: make([]fwd.Rule, 3), Search: []string{"example.com"}, Hostname: "h", DNS4: make([]wire.Addr, 1)})
	f.Add(some)
	r := rand.New(rand.NewSource(1))
	for range 5 {
		b := bytes.Clone(some)
		b[r.Intn(len(b))] ^= 1 << r.Intn(8)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		b, err := ParseBoot(p)
		if err != nil {
			return
		}
		again, err := EncodeBoot(b)
		if err != nil || !bytes.Equal(again, p) {
			t.Fatalf("%v: %x became %x", err, p, again)
		}
	})
}
