// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"passt/internal/sys"
	"passt/internal/sys/priv"
)

// watch tells when the target namespace is gone: the process that stands for it ended, or its name was deleted.
type watch struct {
	fd   sys.FD
	pid  bool // fd is a pidfd
	name string
}

// openWatches prepares signals and, unless --no-netns-quit, the end of the namespace.
func (s *Supervisor) openWatches() error {
	s.watch.fd = sys.NoFD
	null, e := priv.OpenNull(false)
	if e != 0 {
		return fmt.Errorf("open /dev/null: %w", e)
	}
	s.null = null
	if err := s.watchSignals(); err != nil {
		return err
	}
	if s.launcher.Pid != 0 || s.opts.NoNetnsQuit {
		return nil
	}
	path := s.plan.Target.NetNS
	s.watch.name = path
	if pid, ok := procPid(path); ok {
		fd, e := priv.PidfdOpen(pid)
		if e != 0 {
			return fmt.Errorf("watch process %d: %w", pid, e)
		}
		s.watch.fd, s.watch.pid = fd, true
		return nil
	}
	fd, e := priv.WatchDir(filepath.Dir(path))
	if e != 0 {
		s.log.Warnf("cannot watch %s, will not notice when it is gone: %v", path, e)
		return nil
	}
	s.watch.fd, s.watch.name = fd, filepath.Base(path)
	return nil
}

// procPid takes the process out of a path like /proc/PID/ns/net.
func procPid(path string) (int, bool) {
	rest, ok := strings.CutPrefix(filepath.Clean(path), "/proc/")
	if !ok {
		return 0, false
	}
	num, _, _ := strings.Cut(rest, "/")
	pid, err := strconv.Atoi(num)
	return pid, err == nil
}

func (w *watch) gone() bool { return w.pid || priv.Deleted(w.fd, w.name) }
