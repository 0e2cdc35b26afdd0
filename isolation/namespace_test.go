// SPDX-License-Identifier: Apache-2.0

package isolation

import (
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"passt/internal/sys"
)

// A pipe without a writer once held the start up for ever, in the background with nobody left to end it.
func TestOpenNamespace_NoNamespace_IsRefusedAtOnce(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{fifo, dir, "/dev/null"} {
		fd, err := OpenNamespace(path)
		if err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want an error with the path", path, err)
		}
		sys.Close(fd)
	}
	fd, err := OpenNamespace("/proc/self/ns/net")
	if err != nil {
		t.Errorf("a namespace: %v", err)
	}
	sys.Close(fd)
}
