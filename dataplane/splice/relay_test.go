// SPDX-License-Identifier: Apache-2.0

package splice

import (
	"os"
	"runtime"
	"strconv"
	"testing"

	"passt/internal/sys"
)

// TestRelay_Asked_RunsUntilKilled is the program behind the figures of docs/decisions/0004-splice-or-copy.md: it relays a port of
// loopback to another one, with the worker's scheme of waiting.
//
//	go test -c -o relay ./dataplane/splice
//	SPLICE_RELAY=copy|pipe|auto SPLICE_FROM=5301 SPLICE_TO=5201 GOMAXPROCS=1 GODEBUG=asyncpreemptoff=1 ./relay -test.run Relay -test.timeout 0
func TestRelay_Asked_RunsUntilKilled(t *testing.T) {
	which := os.Getenv("SPLICE_RELAY")
	if which == "" {
		t.Skip("measurements only: SPLICE_RELAY is not set")
	}
	to, _ := strconv.Atoi(os.Getenv("SPLICE_TO"))
	from, _ := strconv.Atoi(os.Getenv("SPLICE_FROM"))
	force := map[string]choice{"copy": chooseCopy, "pipe": choosePipe}[which]
	l := newLoopAt(t, from, to, force)
	close(l.stop)
	<-l.done
	runtime.GC()
	idle := false
	for {
		ms := 20
		if idle {
			ms = -1
		}
		idle = l.wait(ms, idle) == 0 && !l.env.Pending()
	}
}

// wait is once with the choice of the raw or the blocking call.
func (l *loop) wait(ms int, block bool) int {
	if l.env.Pending() {
		ms, block = 0, false
	}
	n, e := sys.EpollWait(l.env.Ep, l.evs[:], ms, block)
	if e != 0 {
		l.t.Error(e)
	}
	l.handle(n)
	return n
}
