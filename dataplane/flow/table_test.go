// SPDX-License-Identifier: Apache-2.0

package flow

import (
	"math/rand/v2"
	"testing"

	"passt/dataplane/fwd"
	"passt/dataplane/wire"
	"passt/internal/sys"
)

func newEnv(n int) *Env { return NewEnv(NewTable(n, [16]byte{1, 2, 3}), 1e9) }

func side(r *rand.Rand, pif fwd.Pif) Side {
	return Side{Our: wire.Addr4(192, 0, 2, byte(r.Uint32N(3))), Ep: wire.Addr4(198, 51, 100, byte(r.Uint32N(3))),
		OurPort: uint16(r.Uint32N(4)), EpPort: uint16(r.Uint32N(40)), Pif: pif}
}

// flow.md check 1.
func TestAlloc_TableFull_RefusesAndReusesLowest(t *testing.T) {
	e := newEnv(MaxFlows)
	for k := range MaxFlows {
		if i := e.Table.Alloc(KindTCP); int(i) != k {
			t.Fatalf("flow %d got index %d", k, i)
		}
	}
	if i := e.Table.Alloc(KindTCP); i != NoFlow {
		t.Fatalf("full table gave %d", i)
	}
	e.End(77777)
	e.EndTurn()
	if i := e.Table.Alloc(KindUDP); i != 77777 {
		t.Fatalf("after freeing 77777, Alloc gave %d", i)
	}
}

// flow.md check 2: random steps against a map.
func TestTable_RandomSteps_EqualsModel(t *testing.T) {
	e := newEnv(512)
	r := rand.New(rand.NewPCG(1, 2))
	type key struct {
		proto uint8
		s     Side
	}
	model := map[key]Index{}
	of := map[Index]key{}
	for range 1_000_000 {
		k := key{[]uint8{6, 17}[r.Uint32N(2)], side(r, fwd.Pif(1+r.Uint32N(3)))}
		i, sd, ok := e.Table.Lookup(k.proto, &k.s)
		want, have := model[k]
		if ok != have || ok && (i != want || sd != 0) {
			t.Fatalf("lookup %v: %d %v, model %d %v", k, i, ok, want, have)
		}
		switch {
		case !ok:
			if i = e.Table.Alloc(KindTCP); i == NoFlow {
				continue
			}
			row := &e.Table.Rows[i]
			row.Proto, row.Side[0] = k.proto, k.s
			e.Table.Insert(i, 0)
			model[k], of[i] = i, k
		case r.Uint32N(3) == 0:
			e.End(i)
			e.EndTurn()
			delete(model, of[i])
			delete(of, i)
		}
	}
	if e.Table.Used() != len(model) {
		t.Errorf("%d rows used, model has %d", e.Table.Used(), len(model))
	}
}

// flow.md check 3.
func TestLookup_OtherPifOrProtocol_Distinct(t *testing.T) {
	e := newEnv(8)
	r := rand.New(rand.NewPCG(3, 4))
	s := side(r, fwd.PifTap)
	i := e.Table.Alloc(KindTCP)
	e.Table.Rows[i].Proto, e.Table.Rows[i].Side[1] = 6, s
	e.Table.Insert(i, 1)
	if j, sd, ok := e.Table.Lookup(6, &s); !ok || j != i || sd != 1 {
		t.Fatalf("lookup gave %d side %d %v", j, sd, ok)
	}
	other := s
	other.Pif = fwd.PifHost
	if _, _, ok := e.Table.Lookup(6, &other); ok {
		t.Error("found under another interface kind")
	}
	if _, _, ok := e.Table.Lookup(17, &s); ok {
		t.Error("found under another protocol")
	}
}

// flow.md check 4: an ended flow is not found by its old generation, and its row is not reused in the same turn.
func TestEnd_SameTurn_StaleEventFindsNothing(t *testing.T) {
	e := newEnv(8)
	i := e.Table.Alloc(KindTCP)
	gen := e.Table.Rows[i].Gen
	if e.Table.Live(i, gen) == nil {
		t.Fatal("live flow not found")
	}
	e.End(i)
	e.End(i)
	if e.Table.Live(i, gen) != nil || e.Table.Live(i, gen+1) != nil {
		t.Error("ended flow is still live")
	}
	if j := e.Table.Alloc(KindTCP); j == i {
		t.Error("row reused before the end of the turn")
	}
	e.EndTurn()
	if j := e.Table.Alloc(KindTCP); j != i {
		t.Errorf("row %d not free after the turn, got %d", i, j)
	}
	if e.Table.Live(i, gen) != nil {
		t.Error("new flow is live under the old generation")
	}
}

// flow.md check 8: tuples that differ little, as a guest would choose them, spread like random ones.
func TestHash_SequentialTuples_ProbesStayShort(t *testing.T) {
	tb := NewTable(MaxFlows, [16]byte{9})
	for k := range MaxFlows {
		i := tb.Alloc(KindTCP)
		r := &tb.Rows[i]
		r.Proto = 6
		r.Side[0] = Side{Our: wire.Addr4(192, 0, 2, 1), Ep: wire.Addr4(10, 0, 0, 1), OurPort: uint16(k >> 16), EpPort: uint16(k), Pif: fwd.PifTap}
		tb.Insert(i, 0)
	}
	probes := 0
	for b, x := range tb.buckets {
		if x != 0 {
			probes += int((uint32(b)-uint32(x>>32)&tb.mask)&tb.mask) + 1
		}
	}
	if avg := float64(probes) / MaxFlows; avg > 1.5 {
		t.Errorf("average probe length %.2f at a quarter load", avg)
	}
}

func TestSipHash_ReferenceKeyAndLength_Stable(t *testing.T) {
	tb := NewTable(1, [16]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})
	a := tb.Hash(6, &Side{Our: wire.Addr4(192, 0, 2, 1), Pif: fwd.PifTap})
	b := tb.Hash(6, &Side{Our: wire.Addr4(192, 0, 2, 2), Pif: fwd.PifTap})
	if a == b || a == 0 {
		t.Errorf("hashes %x and %x", a, b)
	}
}

// The wheel against a plain list of deadlines, with a clock that jumps.
func TestWheel_RandomDeadlines_FireOnceInTime(t *testing.T) {
	e := newEnv(256)
	r := rand.New(rand.NewPCG(5, 6))
	due := map[Index]int64{}
	for range 256 {
		e.Table.Alloc(KindTCP)
	}
	spans := []int64{1, 3, 70, 5000, 300_000, 20_000_000, 2_000_000_000}
	fired := 0
	for range 200_000 {
		switch i := Index(r.Uint32N(256)); r.Uint32N(4) {
		case 0, 1:
			d := e.NowMs + r.Int64N(spans[r.Uint32N(uint32(len(spans)))])
			e.Arm(i, d)
			due[i] = d
		case 2:
			e.Disarm(i)
			delete(due, i)
		case 3:
			e.NowMs += r.Int64N(spans[r.Uint32N(4)])
			if r.Uint32N(50) == 0 {
				e.NowMs += r.Int64N(spans[6])
			}
			if at, ok := e.NextTimer(); ok {
				for _, d := range due {
					if d > e.wheel.now && at > d {
						t.Fatalf("next look at %d, a timer is due at %d", at, d)
					}
				}
			} else if len(due) > 0 {
				t.Fatal("nothing armed, but timers are due")
			}
			e.RunTimers(func(i Index) {
				d, ok := due[i]
				if !ok || d > e.NowMs {
					t.Fatalf("timer of %d fired at %d, due %d (%v)", i, e.NowMs, d, ok)
				}
				delete(due, i)
				fired++
			})
			for i, d := range due {
				if d < e.NowMs {
					t.Fatalf("timer of %d due %d did not fire at %d", i, d, e.NowMs)
				}
			}
		}
	}
	if fired < 1000 {
		t.Errorf("only %d timers fired", fired)
	}
}

func TestAgain_EndedFlow_DoesNotRun(t *testing.T) {
	e := newEnv(8)
	a, b := e.Table.Alloc(KindTCP), e.Table.Alloc(KindTCP)
	e.Again(a)
	e.Again(a)
	e.Again(b)
	e.End(a)
	e.EndTurn()
	var ran []Index
	e.RunAgain(func(i Index) { ran = append(ran, i); e.Again(i) })
	if len(ran) != 1 || ran[0] != b || !e.Pending() {
		t.Errorf("ran %v, pending %v", ran, e.Pending())
	}
}

func TestHotPath_NoAllocation(t *testing.T) {
	e := newEnv(64)
	s := Side{Our: wire.Addr4(192, 0, 2, 1), Pif: fwd.PifTap}
	fire := func(Index) {}
	n := testing.AllocsPerRun(100, func() {
		i := e.Table.Alloc(KindTCP)
		e.Table.Rows[i].Proto, e.Table.Rows[i].Side[0] = 6, s
		e.Table.Insert(i, 0)
		e.Table.Lookup(6, &s)
		e.Arm(i, e.NowMs+5)
		e.NowMs += 10
		e.RunTimers(fire)
		e.Ask(&Request{Flow: i})
		e.TakeRequests()
		e.End(i)
		e.EndTurn()
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
	_ = sys.NoFD
}
