// SPDX-License-Identifier: Apache-2.0

package local

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"passt/dataplane/fwd"
)

// TestAnswers_Tshark_WellFormed lets a decoder that is not ours read one of each answer.
func TestAnswers_Tshark_WellFormed(t *testing.T) {
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		t.Skip("tshark is not installed")
	}
	r := newRig(t, func(c *Config, f *fwd.Config) {
		c.Hostname, c.FQDN = "h", "h.example.org"
		c.Search = []string{"a.example.com", "b.example.com", "corp.example.net."}
		f.V4.Prefix = 32
	})
	id, ours := opt6(1, clientDUID...), opt6(2, serverDUID...)
	r.s.Probe()
	r.s.SetNeigh(ip("198.51.100.44"), mac44)
	r.s.SetNeigh(ip("2001:db8:9::44"), mac44)
	r.s.ARP(r.request(1, "198.51.100.10", "203.0.113.9"))
	r.s.NDP(r.fromGuest("fe80::2", "ff02::1:ff00:1", 58, solicit("2001:db8:9::1")))
	r.s.NDP(r.fromGuest("fe80::2", "ff02::2", 58, routerSolicit))
	for _, o := range [][]byte{{53, 1, 1}, {53, 1, 1, 80, 0}, {53, 1, 3}, {53, 1, 3, 50, 4, 10, 0, 0, 9}, {53, 1, 8}, nil} {
		r.dhcp4(discover(o...))
	}
	for _, m := range [][]byte{solicit6(), message6(3, id, ours, ia(3, "2001:db8:9::10")), message6(3, id, ours, ia(3, "2001:db8:77::5")),
		message6(4, id, ia(3, "2001:db8:77::5")), message6(6, id, ia(3, "2001:db8:77::5")), message6(8, id, ours), message6(11), message6(1, id, ia(25), ia(4))} {
		r.dhcp6(m)
	}
	frames := r.take()
	file := filepath.Join(t.TempDir(), "answers.pcap")
	if err := os.WriteFile(file, pcap(frames), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"-r", file, "-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE"}
	out, err := exec.Command(tshark, append(args, "-V")...).Output()
	if err != nil {
		t.Skipf("tshark: %v", err)
	}
	text := string(out)
	for _, bad := range []string{"Malformed", "[Expert Info (Error", "Bad checksum", "incorrect", "Invalid"} {
		if i := strings.Index(text, bad); i >= 0 {
			t.Errorf("%s", text[max(0, i-600):min(len(text), i+200)])
		}
	}
	for want, n := range map[string]int{
		"\nFrame ": len(frames) - 1, "Prefix: 2001:db8:9::\n": 1, "Domain Names: corp.example.net\n": 1, "List entry: corp.example.net.\n": 5,
		"198.51.100.1/32-0.0.0.0": 5, "Client name: h.example.org": 5, "Message Type (NAK)": 1, "Status Code: NotOnLink (4)": 3,
	} {
		if got := strings.Count(text, want); got != n {
			t.Errorf("%q %d times instead of %d", want, got, n)
		}
	}
}

// pcap gives a capture file of Ethernet frames (libpcap 2.4 format).
func pcap(frames [][]byte) []byte {
	le := binary.LittleEndian
	var b []byte
	for _, x := range []uint32{0xa1b2c3d4, 4<<16 | 2, 0, 0, 65535, 1} {
		b = le.AppendUint32(b, x)
	}
	for i, f := range frames {
		for _, x := range []int{i, 0, len(f), len(f)} {
			b = le.AppendUint32(b, uint32(x))
		}
		b = append(b, f...)
	}
	return b
}
