// SPDX-License-Identifier: Apache-2.0

package splice

import (
	"io"
	"net"
	"syscall"
	"testing"
)

func TestChoice_ByCongestionControl_AsMeasured(t *testing.T) {
	const tcpCongestion = 13 // tcp(7)
	for name, want := range map[string]choice{"bbr": chooseCopy, "cubic": choosePipe, "reno": choosePipe} {
		t.Run(name, func(t *testing.T) {
			port, _ := server(t, func(c *net.TCPConn) { defer c.Close(); _, _ = io.Copy(c, c) })
			l := newLoop(t, port, chooseNone)
			// Accepted sockets inherit it from the listener.
			if err := syscall.SetsockoptString(int(l.fd), syscall.IPPROTO_TCP, tcpCongestion, name); err != nil {
				t.Skip("the kernel does not have " + name + " here: " + err.Error())
			}
			c := dial(t, l.addr())
			_, _ = c.Write([]byte("small"))
			_, _ = io.ReadFull(c, make([]byte, 5))
			l.ask(func() {
				if x := l.s.conns[first(l)].choice; x != chooseNone {
					t.Errorf("choice %d was made for a small connection", x)
				}
			})
			go func() { _, _ = c.Write(make([]byte, 4<<20)) }()
			_, _ = io.ReadFull(c, make([]byte, 4<<20))
			l.ask(func() {
				if x := l.s.conns[first(l)].choice; x != want {
					t.Errorf("choice %d", x)
				}
				if (l.pipes > 0) != (want == choosePipe) {
					t.Errorf("%d pipes", l.pipes)
				}
			})
		})
	}
}

func TestAccept_NoTarget_ClientSeesReset(t *testing.T) {
	port, _ := server(t, func(c *net.TCPConn) {})
	l := newLoop(t, port, chooseNone)
	l.ask(func() {
		l.env.HostRules[0].To = 0 // not usable: refused before a row is taken
	})
	c, err := net.Dial("tcp4", l.addr())
	if err == nil {
		_, err = c.Read(make([]byte, 1))
		c.Close()
	}
	if err == nil || err == io.EOF {
		t.Errorf("no reset: %v", err)
	}
	l.ask(func() {
		if l.s.live != 0 || l.env.Table.Used() != 0 {
			t.Error("a row was taken")
		}
	})
}
