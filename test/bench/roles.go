// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"
)

// runRole is one side of a request-response measurement. Raw blocking sockets: the Go poller would be measured too.
func runRole(role string, args []string) {
	var err error
	switch role {
	case "server":
		err = serve(args[0])
	case "rr", "crr":
		seconds, _ := strconv.Atoi(args[1])
		err = client(args[0], time.Duration(seconds)*time.Second, role == "crr")
	default:
		err = fmt.Errorf("no role %q", role)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, role+":", err)
		os.Exit(1)
	}
}

func sockaddr(addr string) (syscall.Sockaddr, error) {
	a, err := net.ResolveTCPAddr("tcp4", addr)
	if err != nil {
		return nil, err
	}
	return &syscall.SockaddrInet4{Port: a.Port, Addr: [4]byte(a.IP.To4())}, nil
}

// serve answers each byte with a byte, each connection in a thread of its own.
func serve(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	f, err := l.(*net.TCPListener).File()
	if err != nil {
		return err
	}
	fd := int(f.Fd())
	if err := syscall.SetNonblock(fd, false); err != nil {
		return err
	}
	for {
		c, _, err := syscall.Accept(fd)
		if err != nil {
			return err
		}
		go func() {
			defer syscall.Close(c)
			_ = syscall.SetsockoptInt(c, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1)
			var b [1]byte
			for {
				if n, err := syscall.Read(c, b[:]); n != 1 || err != nil {
					return
				}
				if _, err := syscall.Write(c, b[:]); err != nil {
					return
				}
			}
		}()
	}
}

func client(addr string, span time.Duration, reconnect bool) error {
	sa, err := sockaddr(addr)
	if err != nil {
		return err
	}
	fd := -1
	n := 0
	start := time.Now()
	for time.Since(start) < span {
		if fd < 0 {
			if fd, err = syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0); err != nil {
				return err
			}
			if err := syscall.Connect(fd, sa); err != nil {
				return fmt.Errorf("connect: %w", err)
			}
			_ = syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1)
		}
		var b [1]byte
		if _, err := syscall.Write(fd, b[:]); err != nil {
			return err
		}
		if k, err := syscall.Read(fd, b[:]); k != 1 || err != nil {
			return fmt.Errorf("read: %d bytes, %w", k, err)
		}
		n++
		if reconnect {
			syscall.Close(fd)
			fd = -1
		}
	}
	fmt.Printf("%.1f\n", float64(n)/time.Since(start).Seconds())
	return nil
}
