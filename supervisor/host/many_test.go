// SPDX-License-Identifier: Apache-2.0

package host

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// manyRoutes makes a host with n static routes of each family.
func manyRoutes(t testing.TB, n int) {
	t.Helper()
	sh(t, veth+`veth e0; ip a a 198.51.100.10/24 dev e0; ip r a default via 198.51.100.1
		ip a a 2001:db8::5/64 dev e0 nodad; ip -6 r a default via 2001:db8::1 dev e0`)
	var b4, b6 bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b4, "route add 10.%d.%d.0/24 via 198.51.100.%d\n", i>>8, i&255, 1+i%9)
		fmt.Fprintf(&b6, "route add 2001:db8:%x:%x::/64 via 2001:db8::%x dev e0\n", i>>8+1, i&255, 16+i%9)
	}
	dir := t.TempDir()
	for name, b := range map[string]*bytes.Buffer{"4": &b4, "6": &b6} {
		if err := os.WriteFile(dir+"/"+name, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		sh(t, "ip -"+name+" -batch "+dir+"/"+name)
	}
}

// TestManyRoutes_AllCopiedInBoundedTime is field bugs B064 and B066.
func TestManyRoutes_AllCopiedInBoundedTime(t *testing.T) {
	if !namespaced(t) {
		return
	}
	for _, n := range []int{0, 1, 10, 100, 400, 600, 2000, 20000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			fresh(t, func() {
				manyRoutes(t, n)
				start := time.Now()
				v4, v6, _, err := Discover(Choice{V4: true, V6: true})
				found := time.Since(start)
				if err != nil || v4 == nil || v6 == nil {
					t.Errorf("Discover: %v %v %v", v4, v6, err)
					return
				}
				c := copyConfig(v4, v6)
				start = time.Now()
				b, err := c.Marshal()
				if err == nil {
					c, err = UnmarshalNSConfig(b)
				}
				sent := time.Since(start)
				if err != nil {
					t.Errorf("Marshal: %v", err)
				}
				set, notes, r4, r6 := timedConfigure(t, c)
				if len(notes) > 0 {
					t.Errorf("notes %q", notes)
				}
				if r4 != n+2 || r6 != n+3 {
					t.Errorf("%d and %d routes in the namespace, want %d and %d", r4, r6, n+2, n+3)
				}
				t.Logf("%d routes of each family: Discover %v, through the pipe %v (%d bytes), Configure %v", n, found, sent, len(b), set)
			})
		})
	}
}

func timedConfigure(t testing.TB, c NSConfig) (took time.Duration, notes []string, routes4, routes6 int) {
	fresh(t, func() {
		tap, err := OpenTap(TapOptions{Name: "guest0"})
		if err != nil {
			t.Errorf("tap: %v", err)
			return
		}
		defer syscall.Close(tap.FD)
		c.IfIndex = tap.IfIndex
		start := time.Now()
		if notes, _, err = Configure(c); err != nil {
			t.Errorf("Configure: %v", err)
		}
		took = time.Since(start)
		routes4, routes6 = strings.Count(sh(t, "ip -4 r"), "\n"), strings.Count(sh(t, "ip -6 r"), "\n")
	})
	return took, notes, routes4, routes6
}

func BenchmarkDiscover(b *testing.B) {
	if !namespaced(b) {
		return
	}
	fresh(b, func() {
		manyRoutes(b, 1)
		b.ReportAllocs()
		for b.Loop() {
			if _, _, _, err := Discover(Choice{V4: true, V6: true}); err != nil {
				b.Error(err)
			}
		}
	})
}

func BenchmarkConfigure(b *testing.B) {
	if !namespaced(b) {
		return
	}
	fresh(b, func() {
		manyRoutes(b, 1)
		v4, v6, _, _ := Discover(Choice{V4: true, V6: true})
		c := copyConfig(v4, v6)
		b.ReportAllocs()
		for b.Loop() {
			tap, err := OpenTap(TapOptions{Name: "guest0"})
			if err != nil {
				b.Error(err)
				return
			}
			c.IfIndex = tap.IfIndex
			if _, _, err = Configure(c); err != nil {
				b.Error(err)
			}
			b.StopTimer()
			syscall.Close(tap.FD)
			b.StartTimer()
		}
	})
}
