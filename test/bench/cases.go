// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// benchCase is one line of the table; bin "" measures plain loopback.
type benchCase struct {
	name    string
	unit    string
	plain   bool // plain loopback is measured beside
	mtu     string
	streams int
	reverse bool
	path    string // tap, out (namespace loopback to host), in (host loopback to namespace)
	measure func(c *config, k *benchCase, bin string) (float64, error)
}

var cases = []benchCase{
	{name: "tap 65520 namespace to host, 1 stream", unit: "Gbit/s", plain: true, mtu: "65520", streams: 1, path: "tap", measure: bulk},
	{name: "tap 65520 namespace to host, 4 streams", unit: "Gbit/s", mtu: "65520", streams: 4, path: "tap", measure: bulk},
	{name: "tap 65520 host to namespace, 1 stream", unit: "Gbit/s", plain: true, mtu: "65520", streams: 1, reverse: true, path: "tap", measure: bulk},
	{name: "tap 65520 host to namespace, 4 streams", unit: "Gbit/s", mtu: "65520", streams: 4, reverse: true, path: "tap", measure: bulk},
	{name: "tap 1500 namespace to host", unit: "Gbit/s", mtu: "1500", streams: 1, path: "tap", measure: bulk},
	{name: "tap 1500 host to namespace", unit: "Gbit/s", mtu: "1500", streams: 1, reverse: true, path: "tap", measure: bulk},
	{name: "tap request-response", unit: "1/s", plain: true, mtu: "65520", path: "tap", measure: peer("rr")},
	{name: "tap connections per second, 1 client", unit: "1/s", plain: true, mtu: "65520", path: "tap", measure: peer("crr")},
	{name: "loopback out, 1 stream", unit: "Gbit/s", plain: true, streams: 1, path: "out", measure: bulk},
	{name: "loopback out, 4 streams", unit: "Gbit/s", streams: 4, path: "out", measure: bulk},
	{name: "loopback in, 1 stream", unit: "Gbit/s", streams: 1, path: "in", measure: bulk},
	{name: "loopback in, 4 streams", unit: "Gbit/s", streams: 4, path: "in", measure: bulk},
	{name: "loopback request-response", unit: "1/s", path: "out", measure: peer("rr")},
	{name: "loopback connections per second, 1 client", unit: "1/s", path: "out", measure: peer("crr")},
	{name: "retransmissions, namespace to host 65520", unit: "segments", mtu: "65520", streams: 1, path: "tap", measure: retransmissions},
	{name: "idle memory of all processes", unit: "MiB PSS", measure: idlePSS},
	{name: "idle wake-ups in 5 s", unit: "context switches", measure: idleSwitches},
}

const hostAddr = "192.0.2.254" // stands for the host's loopback in the namespace

// command runs argv as an ordinary user.
func (c *config) command(ctx context.Context, argv ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = c.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if os.Getuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: benchUID, Gid: benchUID}
	}
	cmd.WaitDelay = time.Second
	return cmd
}

// options of both programs for one case; port is where the server is.
func (k *benchCase) options(port string) []string {
	o := []string{"--config-net", "-q", "-4", "-a", "192.0.2.100", "-n", "24", "-g", hostAddr, "-u", "none", "-U", "none"}
	if k.mtu != "" {
		o = append(o, "-m", k.mtu)
	}
	switch k.path {
	case "out":
		return append(o, "-t", "none", "-T", port)
	case "in":
		return append(o, "-t", port, "-T", "none")
	}
	return append(o, "-t", "none", "-T", "none")
}

func (k *benchCase) target(bin string) string {
	if bin == "" || k.path != "tap" {
		return "127.0.0.1"
	}
	return hostAddr
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port), nil
}

// waitPort waits until something listens on a TCP port of the process's network namespace (pid 0: ours).
func waitPort(port string, pids func() []int) error {
	p, _ := strconv.Atoi(port)
	want := fmt.Sprintf(":%04X ", p)
	for range 500 {
		for _, pid := range pids() {
			for _, f := range []string{"tcp", "tcp6"} {
				b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, f))
				for l := range strings.Lines(string(b)) {
					if strings.Contains(l, want) && strings.Contains(l, " 0A ") {
						return nil
					}
				}
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("nothing listens on port %s", port)
}

func bulk(c *config, k *benchCase, bin string) (float64, error) {
	r, err := iperf(c, k, bin)
	if err != nil {
		return 0, err
	}
	return r.End.SumReceived.BitsPerSecond / 1e9, nil
}

func retransmissions(c *config, k *benchCase, bin string) (float64, error) {
	r, err := iperf(c, k, bin)
	if err != nil {
		return 0, err
	}
	return float64(r.End.SumSent.Retransmits), nil
}

type iperfReport struct {
	End struct {
		SumSent struct {
			Retransmits int `json:"retransmits"`
		} `json:"sum_sent"`
		SumReceived struct {
			BitsPerSecond float64 `json:"bits_per_second"`
		} `json:"sum_received"`
	} `json:"end"`
	Error string `json:"error"`
}

// iperf runs one iperf3 transfer through bin ("": plain loopback).
func iperf(c *config, k *benchCase, bin string) (*iperfReport, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(c.seconds+15)*time.Second)
	defer cancel()
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	server := []string{"iperf3", "-s", "-1", "-p", port}
	client := []string{"iperf3", "-J", "-c", k.target(bin), "-p", port, "-t", strconv.Itoa(c.seconds), "-P", strconv.Itoa(k.streams)}
	if k.reverse {
		client = append(client, "-R")
	}
	out, err := c.pair(ctx, k, bin, port, server, client)
	if err != nil {
		return nil, err
	}
	r := new(iperfReport)
	if err := json.Unmarshal(out, r); err != nil {
		return nil, fmt.Errorf("iperf3: %w: %.200s", err, out)
	}
	if r.Error != "" {
		return nil, fmt.Errorf("iperf3: %s", r.Error)
	}
	return r, nil
}

// pair runs a server and a client on the two sides of bin and returns the client's output.
func (c *config) pair(ctx context.Context, k *benchCase, bin, port string, server, client []string) ([]byte, error) {
	serverIn := bin != "" && k.path == "in"
	sv, cl := server, client
	if bin != "" {
		through := append([]string{bin}, k.options(port)...)
		if serverIn {
			sv = append(append(through, "--"), server...)
		} else {
			cl = append(append(through, "--"), client...)
		}
	}
	s := c.command(ctx, sv...)
	if err := s.Start(); err != nil {
		return nil, err
	}
	defer func() {
		_ = syscall.Kill(-s.Process.Pid, syscall.SIGKILL)
		_ = s.Wait()
	}()
	if err := waitPort(port, func() []int { return append(below(s.Process.Pid), s.Process.Pid) }); err != nil {
		return nil, err
	}
	if serverIn {
		// The server listens in the namespace; pasta has bound the port on the host before it started the command.
		time.Sleep(50 * time.Millisecond)
	}
	var out, errb bytes.Buffer
	cmd := c.command(ctx, cl...)
	cmd.Stdout, cmd.Stderr = &out, &errb
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%v: %w: %.300s %.300s", cl, err, errb.String(), out.String())
	}
	return out.Bytes(), nil
}

// peer measures with this program's own roles: rr or crr.
func peer(role string) func(c *config, k *benchCase, bin string) (float64, error) {
	return func(c *config, k *benchCase, bin string) (float64, error) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(c.seconds+15)*time.Second)
		defer cancel()
		port, err := freePort()
		if err != nil {
			return 0, err
		}
		me := filepath.Join(c.dir, "peer")
		server := []string{"env", "BENCH_ROLE=server", me, "127.0.0.1:" + port}
		client := []string{"env", "BENCH_ROLE=" + role, me, k.target(bin) + ":" + port, strconv.Itoa(c.seconds)}
		out, err := c.pair(ctx, k, bin, port, server, client)
		if err != nil {
			return 0, err
		}
		return strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
	}
}

// idle starts an idle pasta and runs f on its processes (not the command's).
func idle(c *config, bin string, f func(pids []int) (float64, error)) (float64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cmd := c.command(ctx, bin, "--config-net", "-q", "-t", "none", "-u", "none", "-T", "none", "-U", "none", "--", "sleep", "25")
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	defer func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	}()
	ready := func() bool {
		for _, p := range below(cmd.Process.Pid) {
			if comm(p) == "sleep" {
				return true
			}
		}
		return false
	}
	for i := 0; !ready(); i++ {
		if i > 300 {
			return 0, fmt.Errorf("the command did not start")
		}
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(time.Second) // what start-up left over comes to rest
	pids := []int{cmd.Process.Pid}
	for _, p := range below(cmd.Process.Pid) {
		if comm(p) != "sleep" {
			pids = append(pids, p)
		}
	}
	return f(pids)
}

func idlePSS(c *config, _ *benchCase, bin string) (float64, error) {
	return idle(c, bin, func(pids []int) (float64, error) {
		kib := 0.0
		for _, p := range pids {
			b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", p))
			if err != nil {
				return 0, fmt.Errorf("%w (needs root: the processes hide themselves)", err)
			}
			for l := range strings.Lines(string(b)) {
				if v, ok := strings.CutPrefix(l, "Pss:"); ok {
					n, _ := strconv.ParseFloat(strings.Fields(v)[0], 64)
					kib += n
				}
			}
		}
		return kib / 1024, nil
	})
}

func idleSwitches(c *config, _ *benchCase, bin string) (float64, error) {
	return idle(c, bin, func(pids []int) (float64, error) {
		before := switches(pids)
		time.Sleep(5 * time.Second)
		return switches(pids) - before, nil
	})
}

func switches(pids []int) float64 {
	n := 0.0
	for _, p := range pids {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", p))
		for _, f := range files {
			b, _ := os.ReadFile(f)
			for l := range strings.Lines(string(b)) {
				if name, v, ok := strings.Cut(l, ":"); ok && strings.HasSuffix(name, "ctxt_switches") {
					x, _ := strconv.ParseFloat(strings.TrimSpace(v), 64)
					n += x
				}
			}
		}
	}
	return n
}

func comm(pid int) string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return strings.TrimSpace(string(b))
}

// below lists all processes below pid.
func below(pid int) []int {
	var out []int
	ents, _ := os.ReadDir("/proc")
	for _, e := range ents {
		p, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p))
		f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		if len(f) > 1 && f[1] == strconv.Itoa(pid) {
			out = append(append(out, p), below(p)...)
		}
	}
	return out
}
