// SPDX-License-Identifier: Apache-2.0

package logx

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"passt/internal/sys"
)

// lines runs f with a logger whose two destinations are pipes.
func lines(t *testing.T, f func(l *Logger)) (stderr, syslog string) {
	t.Helper()
	var w, r [2]*os.File
	for i := range w {
		var err error
		if r[i], w[i], err = os.Pipe(); err != nil {
			t.Fatal(err)
		}
		defer r[i].Close()
	}
	l := New("pasta")
	l.Stderr, l.Syslog = sys.FD(w[0].Fd()), sys.FD(w[1].Fd())
	f(l)
	var out [2]string
	for i := range w {
		w[i].Close()
		b := make([]byte, 65536)
		n, _ := r[i].Read(b)
		out[i] = string(b[:n])
	}
	return out[0], out[1]
}

func TestLogger_Levels_UpToItsOwn(t *testing.T) {
	for level := Error; level <= Trace; level++ {
		out, sysl := lines(t, func(l *Logger) {
			l.Level = level
			l.Errorf("e")
			l.Warnf("w")
			l.Infof("i")
			l.Debugf("d")
			l.Printf(Trace, "%s", "t")
		})
		want := "e\nw\ni\nd\nt\n"[:2*(int(level)+1)]
		if out != want || strings.Count(sysl, "\n") != int(level)+1 {
			t.Errorf("level %d: %q, syslog %q", level, out, sysl)
		}
	}
}

func TestLogger_Syslog_SeverityAndIdent(t *testing.T) {
	_, out := lines(t, func(l *Logger) {
		l.Level = Trace
		for v := Error; v <= Trace; v++ {
			l.Line(v, "x")
		}
	})
	if want := "<27> pasta: x\n<28> pasta: x\n<30> pasta: x\n<31> pasta: x\n<31> pasta: x\n"; out != want {
		t.Errorf("%q", out)
	}
}

func TestLogger_ControlCharacters_NoForgedLine(t *testing.T) {
	out, sysl := lines(t, func(l *Logger) { l.Line(Info, "a\nERROR b\r\x1b[2Jc\x00\x7f\xff") })
	if strings.Count(out, "\n") != 1 || strings.ContainsAny(out, "\r\x1b\x00\x7f") || strings.Count(sysl, "\n") != 1 {
		t.Errorf("%q %q", out, sysl)
	}
}

func TestLogger_Stamps_SecondsInFront(t *testing.T) {
	out, _ := lines(t, func(l *Logger) { l.Stamps = true; l.Infof("x %d", 1) })
	if !regexp.MustCompile(`^\d+\.\d{4}: x 1\n$`).MatchString(out) {
		t.Errorf("%q", out)
	}
}

func TestLogger_LevelBeyondTable_NoPanic(t *testing.T) {
	_, out := lines(t, func(l *Logger) { l.Level = 255; l.Line(200, "x") })
	if out != "<31> pasta: x\n" {
		t.Errorf("%q", out)
	}
}

func TestLogger_NoDestination_Silent(t *testing.T) {
	l := New("passt")
	l.Stderr = sys.NoFD
	l.Errorf("nowhere")
	if l.Syslog != sys.NoFD || l.Level != Info {
		t.Errorf("%+v", l)
	}
}
