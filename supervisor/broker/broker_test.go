// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"passt/dataplane/fwd"
	"passt/internal/sys"
	"passt/ipc"
)

// readyLen is the body of a Ready message, bytes.
const readyLen = 4

// tell sends one packet as the worker.
func (s *session) tell(t *testing.T, k ipc.Kind, count, n int, fds ...sys.FD) {
	t.Helper()
	if e := s.w.Send(k, count, n, fds); e != 0 {
		t.Fatal(e)
	}
}

func (s *session) connect(t *testing.T, q ipc.Connect) {
	t.Helper()
	q.Put(s.w.Body(ipc.ConnectSize))
	s.tell(t, ipc.KindConnect, 1, ipc.ConnectSize)
}

func TestServe_BrokenProtocol_EndsTheWorker(t *testing.T) {
	needNS(t)
	ping := ipc.Connect{Op: ipc.OpPing, Dst: map4}
	for _, c := range []struct {
		name string
		side fwd.Pif
		act  func(s *session)
	}{
		{"connect before ready", fwd.PifHost, func(s *session) { s.connect(t, ping) }},
		{"pipe before ready", fwd.PifHost, func(s *session) { s.tell(t, ipc.KindPipe, 1, 16) }},
		{"ready twice", fwd.PifHost, func(s *session) { s.tell(t, ipc.KindReady, 1, readyLen); s.tell(t, ipc.KindReady, 1, readyLen) }},
		{"ready with a body", fwd.PifHost, func(s *session) { s.tell(t, ipc.KindReady, 1, readyLen+1) }},
		{"ready to the agent", fwd.PifSplice, func(s *session) { s.b.Ready = nil; s.tell(t, ipc.KindReady, 1, readyLen) }},
		{"log to the agent", fwd.PifSplice, func(s *session) { s.b.Log = nil; s.tell(t, ipc.KindLog, 1, 5) }},
		{"log too long", fwd.PifHost, func(s *session) { s.tell(t, ipc.KindLog, 1, ipc.MaxLog+1) }},
		{"boot", fwd.PifHost, func(s *session) { s.b.SetReady(); s.tell(t, ipc.KindBoot, 1, 100) }},
		{"control", fwd.PifHost, func(s *session) { s.b.SetReady(); s.tell(t, ipc.KindControl, 1, 2) }},
		{"grant", fwd.PifHost, func(s *session) { s.b.SetReady(); s.tell(t, ipc.KindGrant, 1, ipc.GrantSize) }},
		{"reply", fwd.PifHost, func(s *session) { s.b.SetReady(); s.tell(t, ipc.KindReply, 1, ipc.ReplySize) }},
		{"update", fwd.PifHost, func(s *session) { s.b.SetReady(); s.tell(t, ipc.KindUpdate, 1, ipc.UpdateSize) }},
		{"two pipes", fwd.PifHost, func(s *session) { s.b.SetReady(); s.tell(t, ipc.KindPipe, 2, 32) }},
		{"descriptor with connect", fwd.PifHost, func(s *session) {
			s.b.SetReady()
			ping.Put(s.w.Body(ipc.ConnectSize))
			s.tell(t, ipc.KindConnect, 1, ipc.ConnectSize, s.w.FD, s.w.FD)
		}},
		{"descriptor with ready", fwd.PifHost, func(s *session) { s.tell(t, ipc.KindReady, 1, readyLen, s.w.FD) }},
		{"unknown op", fwd.PifHost, func(s *session) { s.b.SetReady(); s.connect(t, ipc.Connect{Op: 8}) }},
		{"op 0", fwd.PifHost, func(s *session) { s.b.SetReady(); s.connect(t, ipc.Connect{}) }},
		{"tcp in the namespace", fwd.PifSplice, func(s *session) { s.b.SetReady(); s.connect(t, ipc.Connect{Op: ipc.OpTCP, Dst: map4, DstPort: 1}) }},
		{"udp in the namespace", fwd.PifSplice, func(s *session) { s.b.SetReady(); s.connect(t, ipc.Connect{Op: ipc.OpUDP, Dst: map4, DstPort: 1}) }},
		{"ping in the namespace", fwd.PifSplice, func(s *session) { s.b.SetReady(); s.connect(t, ping) }},
		{"listen in the namespace", fwd.PifSplice, func(s *session) {
			s.b.SetReady()
			s.connect(t, ipc.Connect{Op: ipc.OpUDPListen, Dst: ip("224.0.0.1"), SrcPort: 5353})
		}},
		{"good one before a bad one", fwd.PifHost, func(s *session) {
			s.b.SetReady()
			b := s.w.Body(3 * ipc.ConnectSize)
			u := ipc.Connect{Op: ipc.OpUDP, Dst: map4, DstPort: 9}
			u.Put(b)
			u.Put(b[ipc.ConnectSize:])
			(&ipc.Connect{Op: 9}).Put(b[2*ipc.ConnectSize:])
			s.tell(t, ipc.KindConnect, 3, len(b))
		}},
		{"replies not taken", fwd.PifHost, func(s *session) {
			s.b.SetReady()
			for range 100000 {
				s.connect(t, ipc.Connect{Op: ipc.OpTCP, Dst: lo4, DstPort: 9})
				if _, err := s.b.Serve(); err != nil {
					if !IsWorkerFault(err) {
						t.Errorf("replies not taken: %v", err)
					}
					s.connect(t, ipc.Connect{})
					return
				}
			}
		}},
	} {
		before := openFDs(t)
		s := newSession(t, c.side, usual(), hostRules, nsRules)
		s.b.Ready = func() error { return nil }
		s.b.Log = func([]byte) {}
		c.act(s)
		if _, err := s.b.Serve(); !IsWorkerFault(err) {
			t.Errorf("%s: %v", c.name, err)
		}
		s.close()
		if n := openFDs(t); n != before {
			t.Errorf("%s: %d descriptors left", c.name, n-before)
		}
	}
}

func TestServe_ReadyAndLog_CallbacksRun(t *testing.T) {
	s := newSession(t, fwd.PifHost, usual(), nil, nil)
	var lines []string
	readies := 0
	s.b.Log = func(b []byte) { lines = append(lines, string(b)) }
	s.b.Ready = func() error { readies++; return nil }
	s.tell(t, ipc.KindLog, 1, s.w.PutBytes([]byte("\x02before")))
	s.tell(t, ipc.KindReady, 1, readyLen)
	s.tell(t, ipc.KindLog, 1, s.w.PutBytes([]byte("\x02after")))
	if more, err := s.b.Serve(); !more || err != nil {
		t.Fatal(more, err)
	}
	if readies != 1 || len(lines) != 2 || lines[0] != "\x02before" || lines[1] != "\x02after" {
		t.Errorf("%d %q", readies, lines)
	}
	if more, err := s.b.Serve(); more || err != nil {
		t.Error(more, err)
	}
	failing := newSession(t, fwd.PifHost, usual(), nil, nil)
	own := errors.New("hand over")
	failing.b.Ready = func() error { return own }
	failing.tell(t, ipc.KindReady, 1, readyLen)
	if _, err := failing.b.Serve(); !errors.Is(err, own) || IsWorkerFault(err) {
		t.Errorf("our own fault: %v", err)
	}
}

func TestServe_WorkerClosed_Gone(t *testing.T) {
	s := newSession(t, fwd.PifHost, usual(), nil, nil)
	sys.Close(s.w.FD)
	s.w.FD = sys.NoFD
	if _, err := s.b.Serve(); !ipc.Gone(err) || IsWorkerFault(err) {
		t.Error(err)
	}
}

func TestServe_Garbage_ErrFormat(t *testing.T) {
	s := newSession(t, fwd.PifHost, usual(), nil, nil)
	if _, e := sys.Write(s.w.FD, []byte("garbage")); e != 0 {
		t.Fatal(e)
	}
	if _, err := s.b.Serve(); !errors.Is(err, ipc.ErrFormat) {
		t.Error(err)
	}
}

func TestServe_EndlessRequests_TurnEnds(t *testing.T) {
	needNS(t)
	s := newSession(t, fwd.PifHost, usual(), nil, nil)
	s.b.SetReady()
	sent := 0
	for range turnPackets + 20 {
		q := ipc.Connect{Op: ipc.OpTCP, Dst: lo4, DstPort: 9} // refused
		q.Put(s.w.Body(ipc.ConnectSize))
		if s.w.Send(ipc.KindConnect, 1, ipc.ConnectSize, nil) == 0 {
			sent++
		}
	}
	if more, err := s.b.Serve(); !more || err != nil || s.b.Served != turnPackets {
		t.Errorf("%v %v: %d of %d served", more, err, s.b.Served, sent)
	}
}

func TestSpend_Rate_EndsABrokenWorker(t *testing.T) {
	s := newSession(t, fwd.PifHost, usual(), nil, nil)
	b := s.b
	b.tokens, b.fillNs = 0, sys.NowNs()
	if err := b.spend(ipc.MaxBatch); !IsWorkerFault(err) {
		t.Errorf("empty bucket: %v", err)
	}
	b.tokens, b.fillNs = 0, sys.NowNs()-1e6 // a millisecond: 200 requests
	if err := b.spend(100); err != nil {
		t.Error(err)
	}
	if err := b.spend(1000); !IsWorkerFault(err) {
		t.Errorf("beyond the rate: %v", err)
	}
	b.tokens, b.fillNs = 0, sys.NowNs()-3600e9
	if err := b.spend(1); err != nil || b.tokens > rateBurst {
		t.Errorf("after an hour: %v, %d tokens", err, b.tokens)
	}
	b.tokens = rateBurst
	for range rateBurst / ipc.MaxBatch {
		if err := b.spend(ipc.MaxBatch); err != nil {
			t.Fatal(err)
		}
	}
}

func TestServe_Pipe_TwoEndsOfOne(t *testing.T) {
	s := newSession(t, fwd.PifHost, usual(), nil, nil)
	s.b.SetReady()
	before := openFDs(t)
	copy(s.w.Body(16), []byte{0, 0, 0, 3, 0, 0, 0, 4, 5, 0, 0, 0, 0, 0, 0, 0})
	s.tell(t, ipc.KindPipe, 1, 16)
	if _, err := s.b.Serve(); err != nil {
		t.Fatal(err)
	}
	var m ipc.Message
	if ok, err := s.w.Recv(&m); !ok || err != nil || len(m.FDs) != 2 {
		t.Fatal(ok, err, m)
	}
	var r ipc.Reply
	r.Parse(m.Record(0))
	if r.Flow != 3 || r.Gen != 4 || r.Slot != 5 || r.FDs != 2 || r.Errno != 0 {
		t.Errorf("%+v", r)
	}
	if _, e := sys.Write(m.FDs[1], []byte("x")); e != 0 {
		t.Error(e)
	}
	if n, e := sys.Read(m.FDs[0], make([]byte, 2)); n != 1 || e != 0 {
		t.Error(n, e)
	}
	if n, err := unix.FcntlInt(uintptr(m.FDs[0]), unix.F_GETPIPE_SZ, 0); err != nil || n < 65536 {
		t.Error(n, err)
	}
	if n := openFDs(t); n != before+2 {
		t.Errorf("%d descriptors, want %d", n, before+2)
	}
	sys.Close(m.FDs[0])
	sys.Close(m.FDs[1])
}

// TestServe_OutOfDescriptors_EMFILEAndGoesOn: the broker's own limit is reached in the middle of a batch.
func TestServe_OutOfDescriptors_EMFILEAndGoesOn(t *testing.T) {
	needNS(t)
	s := newSession(t, fwd.PifHost, usual(), nil, nil)
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	top, err := unix.FcntlInt(uintptr(s.w.FD), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(top)
	q := ipc.Connect{Op: ipc.OpUDP, Dst: map4, DstPort: 9}
	s.b.SetReady()
	body := s.w.Body(4 * ipc.ConnectSize)
	for i := range 4 {
		q.Put(body[i*ipc.ConnectSize:])
	}
	s.tell(t, ipc.KindConnect, 4, len(body))
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(top) + 2, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	_, err = s.b.Serve()
	if e := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); e != nil {
		t.Fatal(e)
	}
	if err != nil {
		t.Fatal(err)
	}
	var m ipc.Message
	if ok, err := s.w.Recv(&m); !ok || err != nil || len(m.FDs) > 2 {
		t.Fatal(ok, err, len(m.FDs))
	}
	full := 0
	for i := range 4 {
		var r ipc.Reply
		r.Parse(m.Record(i))
		if r.Errno == uint16(sys.EMFILE) {
			full++
		}
	}
	if full+len(m.FDs) != 4 || full < 2 {
		t.Errorf("%d without, %d with descriptor", full, len(m.FDs))
	}
	for _, f := range m.FDs {
		sys.Close(f)
	}
}
