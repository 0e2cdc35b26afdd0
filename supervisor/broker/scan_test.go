// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"passt/dataplane/fwd"
	"passt/internal/sys"
)

const sampleTCP = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 12345 1 0000000000000000 100 0 0 10 0
   1: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12346 1 0000000000000000 100 0 0 10 0
   2: 0A0200C0:A000 050071CB:01BB 01 00000000:00000000 00:00000000 00000000  1000        0 12347 1 0000000000000000 20 4 30 10 -1
1000003: 00000000:FFFF 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12348 1 0000000000000000 100 0 0 10 0
`

const sampleUDP6 = `  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
  200: 00000000000000000000000000000000:14E9 00000000000000000000000000000000:0000 07 00000000:00000000 00:00000000 00000000   110        0 4711 2 0000000000000000 0
  201: 00000000000000000000000001000000:0035 00000000000000000000000001000000:1234 01 00000000:00000000 00:00000000 00000000   110        0 4712 2 0000000000000000 0
`

func TestParseLines_Samples_PortsInUse(t *testing.T) {
	for _, c := range []struct {
		in, state string
		want      *Ports
	}{
		{sampleTCP, stateListen, ports(8080, 22, 65535)},
		{sampleUDP6, stateUDP, ports(5353)},
		{sampleTCP, stateUDP, ports()},
		{"", stateListen, ports()},
		{"\n\n\n", stateListen, ports()},
		{"0: 0:0016 0:0 0A\n", stateListen, ports(22)},
		{"0: 0:00016 0:0 0A\n0: 0:16 0:0 0A\n0: 0:00G6 0:0 0A\n0: 00000016 0:0 0A\n0: 0:0016 0A\n", stateListen, ports()},
	} {
		var s Ports
		if n := parseLines([]byte(c.in), c.state, &s); n != len(c.in) || s != *c.want {
			t.Errorf("%q: %d of %d bytes", c.in[:min(len(c.in), 40)], n, len(c.in))
		}
		// Cut anywhere: what is used ends with a line, and nothing new appears.
		for k := range len(c.in) {
			var cut Ports
			n := parseLines([]byte(c.in[:k]), c.state, &cut)
			if n > k || n > 0 && c.in[n-1] != '\n' {
				t.Fatalf("cut at %d: %d used", k, n)
			}
			for i := range cut {
				if cut[i]&^s[i] != 0 {
					t.Fatalf("cut at %d: a port that is not there", k)
				}
			}
		}
	}
}

func openRead(t *testing.T, name string) sys.FD {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Skip(err.Error())
	}
	t.Cleanup(func() { f.Close() })
	return sys.FD(f.Fd())
}

func TestScanner_LargeTable_WholeRead(t *testing.T) {
	var b strings.Builder
	b.WriteString(sampleTCP[:strings.Index(sampleTCP, "\n")+1])
	var want Ports
	for p := 1; p < 65536; p += 3 {
		fmt.Fprintf(&b, "%4d: 00000000:%04X 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12345 1 0000000000000000 100 0 0 10 0\n", p, p)
		want.Set(uint16(p))
	}
	name := filepath.Join(t.TempDir(), "tcp")
	if err := os.WriteFile(name, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	s := Scanner{TCP: openRead(t, name), TCP6: sys.NoFD, UDP: sys.NoFD, UDP6: sys.NoFD}
	for range 2 { // the second time from the start again
		var tcp, udp Ports
		s.Scan(&tcp, &udp)
		if tcp != want || udp != (Ports{}) {
			t.Fatal("ports are missing")
		}
	}
}

func TestScanner_Live_SeesServers(t *testing.T) {
	needNS(t)
	s := OpenScanner(func(path string) sys.FD {
		return openRead(t, strings.Replace(path, "/proc/net", "/proc/thread-self/net", 1))
	})
	var tcp0, udp0, tcp, udp Ports
	s.Scan(&tcp0, &udp0)
	_, t4 := server(t, sys.SockStream, lo4, 0)
	_, t6 := server(t, sys.SockStream, lo6, 0)
	_, u4 := server(t, sys.SockDgram, lo4, 0)
	_, u6 := server(t, sys.SockDgram, lo6, 0)
	s.Scan(&tcp, &udp)
	if !tcp.Has(t4) || !tcp.Has(t6) || !udp.Has(u4) || !udp.Has(u6) || tcp0.Has(t4) {
		t.Error("a server is missing")
	}
	none := OpenScanner(func(string) sys.FD { return sys.NoFD })
	none.Scan(&tcp, &udp)
	if tcp != (Ports{}) || udp != (Ports{}) {
		t.Error("ports out of nothing")
	}
}

func TestFollower_Changes_ReportedOnce(t *testing.T) {
	needNS(t)
	tb := newTable(t, fwd.PifHost, usual(), rule(fwd.ProtoTCP, 21400, 21400, nil))
	if err := tb.OpenAll(); err != nil {
		t.Fatal(err)
	}
	f := Follower{Listeners: tb.Listeners, Scanner: OpenScanner(func(path string) sys.FD { return openRead(t, path) })}
	sent := 0
	var last Ports
	send := func(tcp, _ *Ports) error { sent++; last = *tcp; return nil }
	look := func(want int) {
		t.Helper()
		if err := f.Scan(send); err != nil || sent != want {
			t.Fatalf("%v, %d reports, want %d", err, sent, want)
		}
	}
	look(0) // nobody asked
	f.Others = true
	look(1)
	if last.Has(21400) {
		t.Error("our own listener counts as a service")
	}
	look(1)
	fd, port := server(t, sys.SockStream, lo4, 0)
	look(2)
	if !last.Has(port) {
		t.Error("new server is missing")
	}
	stop(t, fd)
	look(3)
	if last.Has(port) || !f.NeedsTimer() {
		t.Error("old server is still there")
	}
}

func FuzzParseLines(f *testing.F) {
	f.Add([]byte(sampleTCP))
	f.Add([]byte(sampleUDP6))
	f.Fuzz(func(t *testing.T, b []byte) {
		var all, lines Ports
		n := parseLines(b, stateListen, &all)
		if n > len(b) || n > 0 && b[n-1] != '\n' || bytes.IndexByte(b[n:], '\n') >= 0 {
			t.Fatalf("%d of %d bytes used", n, len(b))
		}
		for _, l := range bytes.SplitAfter(b, []byte{'\n'}) {
			parseLines(l, stateListen, &lines)
		}
		if all != lines {
			t.Fatal("line by line gives other ports")
		}
	})
}
