// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"testing"
)

func TestICMPErrorPut_BothFamilies_ParsesWithinLimit(t *testing.T) {
	for _, c := range []struct {
		src, dst   Addr
		proto      uint8
		kind, code uint8
		limit      int
	}{
		{fragA4, fragB4, ProtoICMP, ICMPUnreachable, ICMPFragNeeded, 576},
		{fragA6, fragB6, ProtoICMPv6, ICMP6TooBig, 0, 1280},
	} {
		for _, n := range []int{0, 1, 8, 2000} {
			e := ICMPError{From: c.dst, Src: c.src, Dst: c.dst, Proto: ProtoUDP, Type: c.kind, Code: c.code, MTU: 1400, Data: make([]byte, n)}
			f := make([]byte, EthSize+1280)
			PutEth(f, &MAC{2}, &MAC{4}, EtherTypeOf(&c.src))
			k := e.Put(f[EthSize:])
			if k > c.limit {
				t.Errorf("%d bytes", k)
			}
			var p Packet
			if d := p.Parse(f[:EthSize+k], &Vnet{}); d != DropNone || p.Proto != c.proto || p.Dst != c.src {
				t.Fatalf("%v %+v", d, p)
			}
			sum := Sum(p.L4, 0)
			if !c.src.Is4() {
				sum = Sum(p.L4, PseudoSum(&p.Src, &p.Dst, c.proto, len(p.L4)))
			}
			if Fold(sum) != 0xffff || binary.BigEndian.Uint16(p.L4[6:]) != 1400 {
				t.Errorf("% x", p.L4[:8])
			}
		}
	}
}

func TestICMPIsError_AllTypes_OnlyErrors(t *testing.T) {
	four, six := 0, 0
	for k := range 256 {
		if ICMPIsError(true, uint8(k)) {
			four++
		}
		if ICMPIsError(false, uint8(k)) {
			six++
		}
	}
	if four != 3 || six != 4 || ICMPIsError(true, 5) || ICMPIsError(false, 137) {
		t.Error(four, six)
	}
}
