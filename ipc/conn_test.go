// SPDX-License-Identifier: Apache-2.0

package ipc

import (
	"errors"
	"math/rand"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"passt/internal/sys"
)

func pair(t *testing.T) (a, b *Conn) {
	t.Helper()
	x, y, e := sys.SeqPair()
	if e != 0 {
		t.Fatal(e)
	}
	t.Cleanup(func() { sys.Close(x); sys.Close(y) })
	return NewConn(x), NewConn(y)
}

// openFDs counts the descriptors of this process.
func openFDs(t *testing.T) int {
	t.Helper()
	d, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no /proc: " + err.Error())
	}
	return len(d)
}

func devNull(t *testing.T) sys.FD {
	t.Helper()
	f, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return sys.FD(f.Fd())
}

func TestConn_Packets_InOrderWithSequence(t *testing.T) {
	a, b := pair(t)
	var m Message
	if ok, err := b.Recv(&m); ok || err != nil {
		t.Fatal(ok, err)
	}
	for i := range 5 {
		if e := a.Send(KindLog, 1, a.PutBytes([]byte{byte(i), 'x'}), nil); e != 0 {
			t.Fatal(e)
		}
	}
	for i := range 5 {
		ok, err := b.Recv(&m)
		if !ok || err != nil || m.Kind != KindLog || m.Seq != uint32(i) || string(m.Body) != string([]byte{byte(i), 'x'}) || len(m.FDs) != 0 {
			t.Fatalf("%v %v %+v", ok, err, m)
		}
	}
}

func TestConn_Records_EachInPlace(t *testing.T) {
	a, b := pair(t)
	body := a.Body(3 * ConnectSize)
	for i := range 3 {
		q := Connect{Flow: uint32(i), Op: OpUDP}
		q.Put(body[i*ConnectSize:])
	}
	if e := a.Send(KindConnect, 3, len(body), nil); e != 0 {
		t.Fatal(e)
	}
	var m Message
	if ok, err := b.Recv(&m); !ok || err != nil || m.Count != 3 {
		t.Fatal(ok, err)
	}
	for i := range 3 {
		var q Connect
		if !q.Parse(m.Record(i)) || q.Flow != uint32(i) {
			t.Errorf("record %d: %+v", i, q)
		}
	}
}

func TestConn_Descriptors_PassAndStayWithSender(t *testing.T) {
	a, b := pair(t)
	null := devNull(t)
	before := openFDs(t)
	fds := make([]sys.FD, MaxBatch)
	for i := range fds {
		fds[i] = null
	}
	if e := a.Send(KindReply, MaxBatch, len(a.Body(MaxBatch*ReplySize)), fds); e != 0 {
		t.Fatal(e)
	}
	var m Message
	ok, err := b.Recv(&m)
	if !ok || err != nil || len(m.FDs) != MaxBatch || int(m.Header.FDs) != MaxBatch {
		t.Fatal(ok, err, len(m.FDs))
	}
	if n := openFDs(t); n != before+MaxBatch {
		t.Errorf("%d descriptors, want %d", n, before+MaxBatch)
	}
	for _, f := range m.FDs {
		if fl, err := unix.FcntlInt(uintptr(f), unix.F_GETFD, 0); err != nil || fl&unix.FD_CLOEXEC == 0 {
			t.Errorf("descriptor %d: flags %#x %v", f, fl, err)
		}
		sys.Close(f)
	}
	if n := openFDs(t); n != before {
		t.Errorf("%d descriptors, want %d", n, before)
	}
}

// sendRaw sends bytes with descriptors, as a hostile peer might.
func sendRaw(t *testing.T, fd sys.FD, b []byte, fds ...int) {
	t.Helper()
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	if err := unix.Sendmsg(int(fd), b, oob, nil, unix.MSG_NOSIGNAL); err != nil {
		t.Fatal(err)
	}
}

func TestConnRecv_HostilePackets_RefusedAndDescriptorsClosed(t *testing.T) {
	null := int(devNull(t))
	many := func(n int) (fds []int) {
		for range n {
			fds = append(fds, null)
		}
		return fds
	}
	logHead := func(fds uint8, seq uint32) []byte {
		return packet(Header{Kind: KindLog, Count: 1, Len: 1, FDs: fds, Seq: seq}, 1)
	}
	for _, c := range []struct {
		name string
		b    []byte
		fds  []int
	}{
		{"wrong sequence", logHead(0, 1), nil},
		{"wrong sequence with descriptors", logHead(2, 1), many(2)},
		{"fewer announced", logHead(1, 0), many(2)},
		{"none announced", logHead(0, 0), many(1)},
		{"more announced", logHead(3, 0), many(2)},
		{"announced, none there", logHead(1, 0), nil},
		{"17 descriptors", logHead(17, 0), many(17)},
		{"17 descriptors, 16 announced", logHead(16, 0), many(17)},
		{"17 descriptors, none announced", logHead(0, 0), many(17)},
		{"253 descriptors", logHead(253, 0), many(253)},
		{"garbage", []byte("garbage"), many(3)},
		{"one byte", []byte{0}, nil},
		{"too long", make([]byte, HeaderSize+MaxBoot+1), many(2)},
	} {
		a, b := pair(t)
		before := openFDs(t)
		sendRaw(t, a.FD, c.b, c.fds...)
		var m Message
		ok, err := b.Recv(&m)
		if ok || !errors.Is(err, ErrFormat) || Gone(err) {
			t.Errorf("%s: %v %v", c.name, ok, err)
		}
		if n := openFDs(t); n != before {
			t.Errorf("%s: %d descriptors left open", c.name, n-before)
		}
	}
}

func TestConnRecv_RandomPackets_NoLeakNoPanic(t *testing.T) {
	r := rand.New(rand.NewSource(7))
	null := int(devNull(t))
	a, _ := pair(t)
	_, b := pair(t)
	before := 0
	for i := range 3000 {
		if i == 0 {
			before = openFDs(t)
		}
		x, y, e := sys.SeqPair()
		if e != 0 {
			t.Fatal(e)
		}
		a.FD, b.FD = x, y
		b.got = 0
		p := make([]byte, r.Intn(200))
		r.Read(p)
		if len(p) >= HeaderSize && r.Intn(2) == 0 {
			PutHeader(p, Header{Kind: Kind(r.Intn(12)), Count: uint16(r.Intn(3)), Len: uint32(len(p) - HeaderSize), FDs: uint8(r.Intn(3))})
		}
		var fds []int
		for range r.Intn(4) {
			fds = append(fds, null)
		}
		if len(p) == 0 {
			p = []byte{1}
		}
		sendRaw(t, x, p, fds...)
		var m Message
		if ok, err := b.Recv(&m); ok {
			for _, f := range m.FDs {
				sys.Close(f)
			}
		} else if !errors.Is(err, ErrFormat) {
			t.Fatalf("%x: %v", p, err)
		}
		sys.Close(x)
		sys.Close(y)
	}
	if n := openFDs(t); n != before {
		t.Errorf("%d descriptors, %d before", n, before)
	}
}

func TestConn_OtherSideClosed_Gone(t *testing.T) {
	a, b := pair(t)
	if e := a.Send(KindLog, 1, 1, nil); e != 0 {
		t.Fatal(e)
	}
	if e := sys.Shutdown(a.FD, sys.ShutWr); e != 0 {
		t.Fatal(e)
	}
	var m Message
	if ok, err := b.Recv(&m); !ok || err != nil {
		t.Fatal("what was sent before comes first:", ok, err)
	}
	if ok, err := b.Recv(&m); ok || !Gone(err) {
		t.Errorf("%v %v", ok, err)
	}
	sys.Shutdown(b.FD, sys.ShutRd)
	if e := a.Send(KindLog, 1, 1, nil); e != sys.EPIPE {
		t.Errorf("send to nobody: %v", e)
	}
}

func TestConnSend_Full_EAGAINAndSequenceKept(t *testing.T) {
	a, b := pair(t)
	sent := 0
	for ; sent < 100000; sent++ {
		if e := a.Send(KindLog, 1, MaxLog, nil); e != 0 {
			if e != sys.EAGAIN {
				t.Fatal(e)
			}
			break
		}
	}
	var m Message
	for range sent {
		if ok, err := b.Recv(&m); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	if e := a.Send(KindLog, 1, 1, nil); e != 0 {
		t.Fatal(e)
	}
	if ok, err := b.Recv(&m); !ok || err != nil || int(m.Seq) != sent {
		t.Errorf("%v %v: the refused packet counted", ok, err)
	}
}

func TestConnSend_LargestBoot_Passes(t *testing.T) {
	a, b := pair(t)
	if e := a.Send(KindBoot, 1, MaxBoot, nil); e != 0 {
		t.Fatal(e)
	}
	var m Message
	if ok, err := b.Recv(&m); !ok || err != nil || len(m.Body) != MaxBoot {
		t.Error(ok, err)
	}
}

// TestConnRecv_OutOfDescriptors_MessageWithoutThem: the receiver's limit is reached; the channel lives on. In a process of
// its own, for the limit.
func TestConnRecv_OutOfDescriptors_MessageWithoutThem(t *testing.T) {
	if os.Getenv("IPC_TEST_NOFILE") == "" {
		cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), "IPC_TEST_NOFILE=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	a, b := pair(t)
	null := devNull(t)
	top, err := unix.FcntlInt(uintptr(null), unix.F_DUPFD_CLOEXEC, 0) // the lowest free number
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(top)
	free := 2
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(top + free), Max: uint64(top + free)}); err != nil {
		t.Fatal(err)
	}
	if e := a.Send(KindReply, 3, 3*ReplySize, []sys.FD{null, null, null}); e != 0 {
		t.Fatal(e)
	}
	var m Message
	ok, rerr := b.Recv(&m)
	if !ok || rerr != nil || m.Header.FDs != 3 || len(m.FDs) > free || m.Count != 3 {
		t.Fatalf("%v %v %+v", ok, rerr, m)
	}
	for _, f := range m.FDs {
		sys.Close(f)
	}
	if e := a.Send(KindReply, 1, ReplySize, []sys.FD{null}); e != 0 {
		t.Fatal(e)
	}
	if ok, err := b.Recv(&m); !ok || err != nil || len(m.FDs) != 1 {
		t.Fatalf("afterwards: %v %v", ok, err)
	}
}
