package main

import (
	"os"
	"path/filepath"
	"testing"

	"lwio/internal/test/skip"
)

// TestCopyOfUnknownSize copies a file that reports size 0.
func TestCopyOfUnknownSize(t *testing.T) {
	const name = "/proc/version"
	content, err := os.ReadFile(name)
	if err != nil {
		skip.Test(t, "no /proc here", err)
	}
	s := startServer(t, t.TempDir())
	run(t, exitOK, "cp", "--verify", name, s.url)
	wantFile(t, filepath.Join(s.dir, "version"), content)
}
