// SPDX-License-Identifier: Apache-2.0

package local

import (
	"encoding/binary"
	"strings"

	"passt/dataplane/fwd"
	"passt/dataplane/wire"
)

// option4 is one option that may be part of a reply: opts[from:to] with code and length.
type option4 struct {
	from, to uint16
	code     uint8
	must     bool // its room is kept: optional ones never push it out
}

// options4 are all options of replies, ascending by code.
type options4 struct {
	list [16]option4
	n    int
	blob []byte
}

func (o *options4) add(code uint8, must bool, value []byte) {
	if len(value) > 255 {
		return
	}
	from := uint16(len(o.blob))
	o.blob = append(append(o.blob, code, byte(len(value))), value...)
	o.list[o.n] = option4{from, uint16(len(o.blob)), code, must}
	o.n++
}

// build lists the options of spec services 3.6 in ascending order. The message type's value is set while answering.
func (o *options4) build(c *Config, f *fwd.Family, search []string) {
	var mask [4]byte
	binary.BigEndian.PutUint32(mask[:], ^uint32(0)<<(32-min(32, int(f.Prefix))))
	gw := f.Gateway.V4()
	our := f.Our.V4()
	o.add(wire.DHCP4OptMask, true, mask[:])
	o.add(wire.DHCP4OptRouter, true, gw[:])
	if c.SendDNS && len(c.DNS4) > 0 {
		var v []byte
		for _, a := range c.DNS4 {
			v = append(v, a[12:]...)
		}
		o.add(wire.DHCP4OptDNS, true, v)
	}
	if c.Hostname != "" {
		o.add(wire.DHCP4OptHost, false, []byte(c.Hostname))
	}
	if c.MTU > 0 {
		o.add(wire.DHCP4OptMTU, true, binary.BigEndian.AppendUint16(nil, uint16(min(c.MTU, 65535))))
	}
	o.add(wire.DHCP4OptLease, true, []byte{0xff, 0xff, 0xff, 0xff})
	o.add(wire.DHCP4OptType, true, []byte{0})
	o.add(wire.DHCP4OptServer, true, our[:])
	o.add(wire.DHCP4OptRapid, true, nil)
	var name [wire.MaxNameWire]byte
	if n := wire.PutName(name[:], c.FQDN); n > 0 {
		o.add(wire.DHCP4OptFQDN, false, append([]byte{4, 0xff, 0xff}, name[:n]...))
	}
	if v := compressed(search); len(v) > 0 {
		o.add(wire.DHCP4OptSearch, false, v)
	}
	if !f.Gateway.InPrefix(&f.Guest, int(f.Prefix)) {
		v := append([]byte{32}, gw[:]...)
		v = append(v, 0, 0, 0, 0, 0)
		o.add(wire.DHCP4OptRoutes, true, append(v, gw[:]...))
	}
}

// compressed gives the value of option 119: as many names as fit 255 bytes, tails shared by pointers (RFC 3397 s.2, RFC 1035
// s.4.1.4).
func compressed(names []string) []byte {
	type tail struct {
		name string
		at   int
	}
	var out []byte
	var tails []tail
	var whole [wire.MaxNameWire]byte
names:
	for _, s := range names {
		s = strings.TrimSuffix(s, ".")
		if wire.PutName(whole[:], s) == 0 {
			continue
		}
		v := out
		var fresh []tail
		end := []byte{0}
	labels:
		for rest := s; rest != ""; {
			for _, t := range tails {
				if t.name == rest {
					end = []byte{0xc0 | byte(t.at>>8), byte(t.at)}
					break labels
				}
			}
			fresh = append(fresh, tail{rest, len(v)})
			label, after, _ := strings.Cut(rest, ".")
			v = append(append(v, byte(len(label))), label...)
			rest = after
		}
		if len(v)+len(end) > 255 {
			continue names
		}
		out = append(v, end...)
		tails = append(tails, fresh...)
	}
	return out
}

// write puts the options of a reply into b (DHCP4Options bytes): the type first, then what the client asked for in its order, then
// the rest ascending. Optional ones that do not fit are left out whole.
//
//	in:     d, the request; kind, type of the reply; use, which of list may be sent (bit per index)
//	out:    bytes written
//	source: spec services 3.7; some clients find the type only in first place
func (o *options4) write(b []byte, d wire.DHCP4, kind uint8, use uint32) int {
	n, kept := 0, 0
	for i := range o.n {
		if e := &o.list[i]; e.must && use>>i&1 != 0 {
			kept += int(e.to - e.from)
		}
	}
	put := func(i int) {
		e := &o.list[i]
		size := int(e.to - e.from)
		use &^= 1 << i
		if e.must {
			kept -= size
		} else if n+size+kept > len(b) {
			return
		}
		copy(b[n:], o.blob[e.from:e.to])
		if e.code == wire.DHCP4OptType {
			b[n+2] = kind
		}
		n += size
	}
	if i := o.index(wire.DHCP4OptType); use>>i&1 != 0 {
		put(i)
	}
	for at := wire.DHCP4Head; ; {
		code, v, next := d.Next(at)
		if next == 0 {
			break
		}
		at = next
		if code != wire.DHCP4OptParams {
			continue
		}
		for _, c := range v {
			if i := o.index(c); i >= 0 && use>>i&1 != 0 {
				put(i)
			}
		}
	}
	for i := range o.n {
		if use>>i&1 != 0 {
			put(i)
		}
	}
	return n
}

// index finds an option by code, -1 when it is not sent at all.
func (o *options4) index(code uint8) int {
	for i := range o.n {
		if o.list[i].code == code {
			return i
		}
	}
	return -1
}
