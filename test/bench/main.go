// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// benchUID is the ordinary user where root runs the benchmark.
const benchUID = 61235

type config struct {
	ours, ref string
	pairs     int
	seconds   int
	dir       string // programs that everybody may execute
	json      *os.File
}

func main() {
	if role := os.Getenv("BENCH_ROLE"); role != "" {
		runRole(role, os.Args[1:])
		return
	}
	var c config
	flag.StringVar(&c.ours, "ours", "bin/pasta", "pasta under test")
	flag.StringVar(&c.ref, "ref", "", "pasta to compare with (default: the distribution's)")
	flag.IntVar(&c.pairs, "pairs", 5, "alternating pairs per case")
	flag.IntVar(&c.seconds, "seconds", 2, "seconds per run")
	cc := flag.String("cc", "cubic,bbr", "congestion controls, one pass each (changing it needs root)")
	only := flag.String("only", "", "regular expression of cases to run")
	out := flag.String("json", "", "append one JSON line per case to this file")
	flag.Parse()
	if err := c.prepare(*out); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	code := 0
	for _, name := range strings.Split(*cc, ",") {
		if err := c.pass(name, regexp.MustCompile(*only)); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			code = 1
		}
	}
	_ = os.RemoveAll(c.dir) // left in /tmp at worst
	os.Exit(code)
}

// prepare copies both programs to where an ordinary user may execute them.
func (c *config) prepare(jsonPath string) error {
	var err error
	if c.dir, err = os.MkdirTemp("/tmp", "pasta-bench-"); err != nil {
		return err
	}
	if err := os.Chmod(c.dir, 0o777); err != nil {
		return err
	}
	if c.ref == "" {
		for _, p := range []string{"/usr/bin/pasta", "/usr/local/bin/pasta"} {
			if _, err := os.Stat(p); err == nil {
				c.ref = p
				break
			}
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	copies := map[string]string{"ours/pasta": c.ours, "peer": self}
	if c.ref != "" {
		copies["ref/pasta"] = c.ref
	} else {
		fmt.Println("no other pasta found: ours is measured alone, against plain loopback")
	}
	for to, from := range copies {
		to = filepath.Join(c.dir, to)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		b, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		if err := os.WriteFile(to, b, 0o755); err != nil {
			return err
		}
	}
	// The C program executes a faster build of itself that lies beside it.
	if b, err := os.ReadFile(c.ref + ".avx2"); c.ref != "" && err == nil {
		if err := os.WriteFile(filepath.Join(c.dir, "ref/pasta.avx2"), b, 0o755); err != nil {
			return err
		}
	}
	if jsonPath != "" {
		c.json, err = os.OpenFile(jsonPath, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	}
	return err
}

const ccFile = "/proc/sys/net/ipv4/tcp_congestion_control"

// pass runs all cases under one congestion control and puts the old one back.
func (c *config) pass(cc string, only *regexp.Regexp) error {
	old, err := os.ReadFile(ccFile)
	if err != nil {
		return err
	}
	if strings.TrimSpace(string(old)) != cc {
		if err := os.WriteFile(ccFile, []byte(cc), 0); err != nil {
			return fmt.Errorf("pass under %s left out: %w", cc, err)
		}
		defer os.WriteFile(ccFile, old, 0)
	}
	fmt.Printf("\n## congestion control %s, %d pairs of %d s\n\n", cc, c.pairs, c.seconds)
	fmt.Printf("%-44s %-30s %-30s %-24s %s\n", "case", "ours: median (range)", "other", "plain loopback", "ratio")
	for i := range cases {
		if k := &cases[i]; only.MatchString(k.name) {
			c.run(k, cc)
		}
	}
	return nil
}

// series is the runs of one program in one case.
type series []float64

func (s series) median() float64 {
	if len(s) == 0 {
		return 0
	}
	t := slices.Sorted(slices.Values(s))
	return t[len(t)/2]
}

func (s series) String() string {
	if len(s) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.4g (%.4g..%.4g)", s.median(), slices.Min(s), slices.Max(s))
}

func (c *config) run(k *benchCase, cc string) {
	var ours, ref, plain series
	for range c.pairs {
		for _, p := range []struct {
			to  *series
			bin string
		}{{&ours, "ours/pasta"}, {&ref, "ref/pasta"}, {&plain, ""}} {
			if p.bin == "ref/pasta" && c.ref == "" || p.bin == "" && !k.plain {
				continue
			}
			bin := p.bin
			if bin != "" {
				bin = filepath.Join(c.dir, bin)
			}
			v, err := k.measure(c, k, bin)
			if err != nil {
				fmt.Fprintf(os.Stderr, "bench: %s: %s: %v\n", k.name, p.bin, err)
				continue
			}
			*p.to = append(*p.to, v)
		}
	}
	ratio := "-"
	if len(ours) > 0 && len(ref) > 0 {
		ratio = fmt.Sprintf("%.2f", ours.median()/ref.median())
		if slices.Min(ours) <= slices.Max(ref) && slices.Min(ref) <= slices.Max(ours) {
			ratio += " (ranges overlap)"
		}
	}
	if len(plain) > 0 && len(ours) > 0 {
		ratio += fmt.Sprintf("; of loopback %.2f", ours.median()/plain.median())
	}
	fmt.Printf("%-44s %-30s %-30s %-24s %s %s\n", k.name, ours, ref, plain, ratio, k.unit)
	if c.json != nil {
		b, _ := json.Marshal(map[string]any{"case": k.name, "cc": cc, "unit": k.unit, "ours": ours, "ref": ref, "loopback": plain})
		fmt.Fprintf(c.json, "%s\n", b)
	}
}
