// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sort"
	"strconv"
	"syscall"
	"time"
)

// roles are the peers that the test binary can be. Each prints what the test looks at and returns an error.
var roles = map[string]func(args []string) error{
	"connect":    roleConnect,
	"send":       roleSend,
	"receive":    roleReceive,
	"exchange":   roleExchange,
	"short":      roleShort,
	"many":       roleMany,
	"stalls":     roleStalls,
	"echo":       roleEcho,
	"sink":       roleSink,
	"udp":        roleUDP,
	"udp-echo":   roleUDPEcho,
	"halfclose":  roleHalfClose,
	"reset":      roleReset,
	"peer-reset": rolePeerReset,
	"hold":       roleHold,
}

func runRole(name string, args []string) int {
	f := roles[name]
	if f == nil {
		fmt.Fprintf(os.Stderr, "no role %q\n", name)
		return 99
	}
	if err := f(args); err != nil {
		fmt.Fprintf(os.Stderr, "%s %v: %v\n", name, args, err)
		return 1
	}
	return 0
}

const dialLimit = 10 * time.Second

func dial(addr string) (*net.TCPConn, error) {
	c, err := net.DialTimeout("tcp", addr, dialLimit)
	if err != nil {
		return nil, err
	}
	return c.(*net.TCPConn), nil
}

// data is a stream of n bytes that is the same on both sides.
func data(n int64) io.Reader {
	return io.LimitReader(&stream{rand.NewChaCha8([32]byte{1})}, n)
}

type stream struct{ r *rand.ChaCha8 }

func (s *stream) Read(p []byte) (int, error) { return s.r.Read(p) }

func hashOf(n int64) string {
	h := sha256.New()
	_, _ = io.Copy(h, data(n))
	return hex.EncodeToString(h.Sum(nil))
}

// pausing reads everything, resting a second at several points, and returns length and hash.
func pausing(c io.Reader, every int64) (int64, string, error) {
	h := sha256.New()
	buf := make([]byte, 64<<10)
	var n, next int64
	next = every
	for {
		k, err := c.Read(buf)
		h.Write(buf[:k])
		n += int64(k)
		if every > 0 && n >= next {
			next += every
			time.Sleep(time.Second) // the pause is the test
		}
		if err == io.EOF {
			return n, hex.EncodeToString(h.Sum(nil)), nil
		}
		if err != nil {
			return n, "", err
		}
	}
}

// connect ADDR: prints "ok" or the error's name.
func roleConnect(a []string) error {
	start := time.Now()
	c, err := dial(a[0])
	switch {
	case err == nil:
		c.Close()
		fmt.Println("ok")
	case errors.Is(err, syscall.ECONNREFUSED):
		fmt.Println("refused", time.Since(start).Milliseconds())
	default:
		fmt.Println("error", err)
	}
	return nil
}

// send ADDR BYTES: sends, half-closes, prints what the server says back.
func roleSend(a []string) error {
	c, err := dial(a[0])
	if err != nil {
		return err
	}
	n, _ := strconv.ParseInt(a[1], 10, 64)
	if _, err := io.Copy(c, data(n)); err != nil {
		return err
	}
	if err := c.CloseWrite(); err != nil {
		return err
	}
	b, err := io.ReadAll(c)
	fmt.Print(string(b))
	return err
}

// receive ADDR EVERY: reads to the end with pauses, prints length and hash.
func roleReceive(a []string) error {
	c, err := dial(a[0])
	if err != nil {
		return err
	}
	every, _ := strconv.ParseInt(a[1], 10, 64)
	n, h, err := pausing(c, every)
	fmt.Println(n, h)
	return err
}

// exchange ADDR TEXT: sends a text and prints the answer to its end.
func roleExchange(a []string) error {
	c, err := dial(a[0])
	if err != nil {
		return err
	}
	if _, err := c.Write([]byte(a[1])); err != nil {
		return err
	}
	if err := c.CloseWrite(); err != nil {
		return err
	}
	b, err := io.ReadAll(c)
	fmt.Printf("%s\nlocal %s remote %s\n", b, c.LocalAddr(), c.RemoteAddr())
	return err
}

// short ADDR COUNT: connections in a row, one byte each way.
func roleShort(a []string) error {
	count, _ := strconv.Atoi(a[1])
	for i := range count {
		c, err := dial(a[0])
		if err != nil {
			return fmt.Errorf("connection %d: %w", i, err)
		}
		b := []byte{byte(i)}
		if _, err := c.Write(b); err != nil {
			return fmt.Errorf("connection %d: %w", i, err)
		}
		if _, err := io.ReadFull(c, b); err != nil || b[0] != byte(i) {
			return fmt.Errorf("connection %d: %d %w", i, b[0], err)
		}
		c.Close()
	}
	fmt.Println("ok")
	return nil
}

// many ADDR COUNT: opens all, then asks each for an answer.
func roleMany(a []string) error {
	count, _ := strconv.Atoi(a[1])
	conns := make([]*net.TCPConn, count)
	for i := range conns {
		c, err := dial(a[0])
		if err != nil {
			return fmt.Errorf("connection %d: %w", i, err)
		}
		conns[i] = c
	}
	fmt.Println("open", count)
	var b [4]byte
	for i, c := range conns {
		binary.BigEndian.PutUint32(b[:], uint32(i))
		if _, err := c.Write(b[:]); err != nil {
			return fmt.Errorf("connection %d: %w", i, err)
		}
	}
	for i, c := range conns {
		_ = c.SetReadDeadline(time.Now().Add(30 * time.Second))
		if _, err := io.ReadFull(c, b[:]); err != nil || binary.BigEndian.Uint32(b[:]) != uint32(i) {
			return fmt.Errorf("connection %d answers %x: %w", i, b, err)
		}
	}
	fmt.Println("ok")
	return nil
}

// stalls ADDR BYTES COUNT: transfers to the server, prints the median and the slowest in microseconds.
func roleStalls(a []string) error {
	n, _ := strconv.ParseInt(a[1], 10, 64)
	count, _ := strconv.Atoi(a[2])
	buf, _ := io.ReadAll(data(n))
	var took []int
	for range count {
		start := time.Now()
		c, err := dial(a[0])
		if err != nil {
			return err
		}
		if _, err := io.Copy(c, bytes.NewReader(buf)); err != nil {
			return err
		}
		if err := c.CloseWrite(); err != nil {
			return err
		}
		if _, err := io.ReadAll(c); err != nil {
			return err
		}
		took = append(took, int(time.Since(start).Microseconds()))
		c.Close()
	}
	sort.Ints(took)
	fmt.Println(took[len(took)/2], took[len(took)-1])
	return nil
}

// listen opens a listener, prints that it is ready and serves each connection.
func listen(addr string, f func(*net.TCPConn) error) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Println("ready", l.Addr())
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			if err := f(c.(*net.TCPConn)); err != nil {
				fmt.Println("error", err)
			}
			c.Close()
		}()
	}
}

// echo ADDR: a server that sends back what it gets.
func roleEcho(a []string) error {
	return listen(a[0], func(c *net.TCPConn) error {
		fmt.Println("peer", c.RemoteAddr(), "at", c.LocalAddr())
		_, err := io.Copy(c, struct{ io.Reader }{c})
		return err
	})
}

// sink ADDR EVERY: a server that reads to the end with pauses and answers with length and hash.
func roleSink(a []string) error {
	every, _ := strconv.ParseInt(a[1], 10, 64)
	return listen(a[0], func(c *net.TCPConn) error {
		n, h, err := pausing(c, every)
		if err == nil {
			_, err = fmt.Fprintf(c, "%d %s\n", n, h)
		}
		return err
	})
}

// udp ADDR SIZE COUNT [LOCALPORT]: sends datagrams to an echo server one by one, prints "ok N".
func roleUDP(a []string) error {
	size, _ := strconv.Atoi(a[1])
	count, _ := strconv.Atoi(a[2])
	d := net.Dialer{}
	if len(a) > 3 {
		port, _ := strconv.Atoi(a[3])
		d.LocalAddr = &net.UDPAddr{Port: port}
	}
	c, err := d.Dial("udp", a[0])
	if err != nil {
		return err
	}
	buf, got := make([]byte, size), make([]byte, 65536)
	_, _ = io.ReadFull(data(int64(size)), buf)
	for i := range count {
		if size > 0 {
			buf[0] = byte(i)
		}
		if _, err := c.Write(buf); err != nil {
			return fmt.Errorf("datagram %d: %w", i, err)
		}
		_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
		n, err := c.Read(got)
		if err != nil {
			return fmt.Errorf("datagram %d: %w", i, err)
		}
		if !bytes.Equal(got[:n], buf) {
			return fmt.Errorf("datagram %d: %d bytes came back, or others", i, n)
		}
	}
	fmt.Println("ok", count, c.LocalAddr())
	return nil
}

// udp-echo ADDR: sends each datagram back.
func roleUDPEcho(a []string) error {
	c, err := net.ListenPacket("udp", a[0])
	if err != nil {
		return err
	}
	fmt.Println("ready", c.LocalAddr())
	buf := make([]byte, 65536)
	for {
		n, from, err := c.ReadFrom(buf)
		if err != nil {
			return err
		}
		fmt.Println("peer", from, n)
		if _, err := c.WriteTo(buf[:n], from); err != nil {
			return err
		}
	}
}

// halfclose ADDR: the server closes first, the client sends afterwards and closes.
func roleHalfClose(a []string) error {
	c, err := dial(a[0])
	if err != nil {
		return err
	}
	b, err := io.ReadAll(c)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(c, "got %s", b); err != nil {
		return err
	}
	if err := c.CloseWrite(); err != nil {
		return err
	}
	fmt.Println("ok")
	return c.Close()
}

// reset ADDR: sends one byte and aborts.
func roleReset(a []string) error {
	c, err := dial(a[0])
	if err != nil {
		return err
	}
	if _, err := c.Write([]byte{1}); err != nil {
		return err
	}
	var b [1]byte
	if _, err := io.ReadFull(c, b[:]); err != nil {
		return err
	}
	_ = c.SetLinger(0)
	return c.Close()
}

// peer-reset ADDR: waits for the server's reset, prints what it got.
func rolePeerReset(a []string) error {
	c, err := dial(a[0])
	if err != nil {
		return err
	}
	if _, err := c.Write([]byte{1}); err != nil {
		return err
	}
	_, err = io.ReadAll(c)
	switch {
	case errors.Is(err, syscall.ECONNRESET):
		fmt.Println("reset")
	default:
		fmt.Println("end", err)
	}
	return nil
}

// hold: prints that it runs and waits to be killed.
func roleHold([]string) error {
	fmt.Println("ready")
	time.Sleep(time.Hour)
	return nil
}
