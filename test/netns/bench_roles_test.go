// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"syscall"
	"time"
)

func init() {
	for name, f := range map[string]func([]string) error{
		"end":       roleEnd,
		"abort":     roleAbort,
		"mc-answer": roleMulticastAnswer,
		"mc-ask":    roleMulticastAsk,
		"udp-once":  roleUDPOnce,
		"ttl":       roleTTL,
		"udp-from":  roleUDPFrom,
		"tcp-from":  roleTCPFrom,
		"at-once":   roleAtOnce,
		"junk":      roleJunk,
	} {
		roles[name] = f
	}
}

// end ADDR: a server that reads each connection to its end and prints "reset" or "eof".
func roleEnd(a []string) error {
	return listen(a[0], func(c *net.TCPConn) error {
		n, err := io.Copy(io.Discard, c)
		switch {
		case errors.Is(err, syscall.ECONNRESET):
			fmt.Println("reset after", n)
			return nil
		case err == nil:
			fmt.Println("eof after", n)
		}
		return err
	})
}

// abort ADDR: connects, sends one byte, closes with SO_LINGER 0.
func roleAbort(a []string) error {
	c, err := dial(a[0])
	if err != nil {
		return err
	}
	_ = c.SetLinger(0)
	if _, err := c.Write([]byte{1}); err != nil {
		return err
	}
	return c.Close()
}

// mc-answer GROUP:PORT IFNAME: joins a group and answers each question from its own address and the same port.
func roleMulticastAnswer(a []string) error {
	group, err := net.ResolveUDPAddr("udp", a[0])
	if err != nil {
		return err
	}
	i, err := net.InterfaceByName(a[1])
	if err != nil {
		return err
	}
	c, err := net.ListenMulticastUDP("udp", i, group)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	buf := make([]byte, 2048)
	for {
		n, from, err := c.ReadFrom(buf)
		if err != nil {
			return err
		}
		fmt.Println("question from", from)
		if _, err := c.WriteTo(buf[:n], from); err != nil {
			fmt.Println(err)
		}
	}
}

// mc-ask GROUP:PORT LOCALPORT: sends one question and prints who answers.
func roleMulticastAsk(a []string) error {
	to, err := net.ResolveUDPAddr("udp", a[0])
	if err != nil {
		return err
	}
	c, err := net.ListenPacket("udp", ":"+a[1])
	if err != nil {
		return err
	}
	if _, err := c.WriteTo([]byte("M-SEARCH"), to); err != nil {
		return err
	}
	_ = c.SetReadDeadline(time.Now().Add(3 * time.Second))
	buf := make([]byte, 2048)
	n, from, err := c.ReadFrom(buf)
	if err != nil {
		return err
	}
	fmt.Printf("answer %s from %s\n", buf[:n], from)
	return nil
}

// udp-once ADDR: sends one datagram from an unconnected socket (broadcast allowed) and does not wait.
func roleUDPOnce(a []string) error {
	to, err := net.ResolveUDPAddr("udp", a[0])
	if err != nil {
		return err
	}
	c, err := net.ListenUDP("udp", nil)
	if err != nil {
		return err
	}
	_, err = c.WriteTo([]byte("once"), to)
	return err
}

// udp-from LOCAL ADDR: one datagram from a given address and port, prints who answers.
func roleUDPFrom(a []string) error {
	local, err := net.ResolveUDPAddr("udp", a[0])
	if err != nil {
		return err
	}
	to, err := net.ResolveUDPAddr("udp", a[1])
	if err != nil {
		return err
	}
	c, err := net.ListenUDP("udp", local)
	if err != nil {
		return err
	}
	if _, err := c.WriteTo([]byte("x"), to); err != nil {
		return err
	}
	_ = c.SetReadDeadline(time.Now().Add(3 * time.Second))
	_, from, err := c.ReadFrom(make([]byte, 100))
	if err != nil {
		return err
	}
	fmt.Println("answer from", from)
	return nil
}

// tcp-from LOCAL ADDR: one byte each way from a given local address and port.
func roleTCPFrom(a []string) error {
	local, err := net.ResolveTCPAddr("tcp", a[0])
	if err != nil {
		return err
	}
	d := net.Dialer{LocalAddr: local, Timeout: dialLimit}
	c, err := d.Dial("tcp", a[1])
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Write([]byte{7}); err != nil {
		return err
	}
	var b [1]byte
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := io.ReadFull(c, b[:]); err != nil {
		return err
	}
	fmt.Println("ok", c.LocalAddr(), c.RemoteAddr())
	return nil
}

// at-once ADDR...: connects without any waiting; an address in brackets is IPv6.
func roleAtOnce(a []string) error {
	for _, to := range a {
		c, err := net.DialTimeout("tcp", to, 900*time.Millisecond)
		if err != nil {
			return err
		}
		c.Close()
	}
	fmt.Println("ok")
	return nil
}

// ttl ADDR TTL [SIZE]: one UDP datagram with a hop limit; prints what the error queue says: offender, type, code, info.
func roleTTL(a []string) error {
	to, err := net.ResolveUDPAddr("udp", a[0])
	if err != nil {
		return err
	}
	ttl, _ := strconv.Atoi(a[1])
	size := 4
	if len(a) > 2 {
		size, _ = strconv.Atoi(a[2])
	}
	c, err := net.DialUDP("udp", nil, to)
	if err != nil {
		return err
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	v6 := to.IP.To4() == nil
	var fd int
	_ = raw.Control(func(f uintptr) { fd = int(f) })
	if v6 {
		err = errors.Join(syscall.SetsockoptInt(fd, syscall.IPPROTO_IPV6, syscall.IPV6_UNICAST_HOPS, ttl),
			syscall.SetsockoptInt(fd, syscall.IPPROTO_IPV6, syscall.IPV6_RECVERR, 1))
	} else {
		err = errors.Join(syscall.SetsockoptInt(fd, syscall.IPPROTO_IP, syscall.IP_TTL, ttl),
			syscall.SetsockoptInt(fd, syscall.IPPROTO_IP, syscall.IP_RECVERR, 1),
			syscall.SetsockoptInt(fd, syscall.IPPROTO_IP, syscall.IP_MTU_DISCOVER, syscall.IP_PMTUDISC_DO))
	}
	if err != nil {
		return err
	}
	if _, err := c.Write(make([]byte, size)); err != nil {
		fmt.Println("send:", err)
	}
	return printErrorQueue(fd)
}

func printErrorQueue(fd int) error {
	oob, buf := make([]byte, 512), make([]byte, 2048)
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		_, n, _, _, err := syscall.Recvmsg(fd, buf, oob, syscall.MSG_ERRQUEUE|syscall.MSG_DONTWAIT)
		if err != nil {
			continue
		}
		msgs, err := syscall.ParseSocketControlMessage(oob[:n])
		if err != nil {
			return err
		}
		for _, m := range msgs {
			if len(m.Data) < 32 {
				continue
			}
			// struct sock_extended_err, then the offender's socket address.
			off := net.IP(m.Data[20:24])
			if binary.NativeEndian.Uint16(m.Data[16:]) == syscall.AF_INET6 {
				off = net.IP(m.Data[24:40])
			}
			fmt.Printf("from %s origin %d type %d code %d info %d\n", off, m.Data[4], m.Data[5], m.Data[6], binary.NativeEndian.Uint32(m.Data[8:]))
		}
		return nil
	}
	return errors.New("no error within 3 s")
}
