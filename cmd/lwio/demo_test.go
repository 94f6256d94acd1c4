package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"lwio"
	"lwio/internal/test/leakcheck"
)

// asCommand, set in the environment, makes the test program behave as the
// command, so that demo can start it as its server.
const asCommand = "LWIO_TEST_AS_COMMAND"

// asHung makes the test program behave as a server that does not stop.
const asHung = "LWIO_TEST_AS_HUNG"

func TestMain(m *testing.M) {
	if os.Getenv(asHung) != "" {
		signal.Ignore(os.Interrupt)
		fmt.Println("lwio://a:b@h/s")
		time.Sleep(time.Hour)
	}
	if at := os.Getenv(asSuccessor); at != "" {
		failAsSuccessor(at)
	}
	if os.Getenv(asCommand) != "" {
		main()
		return
	}
	leakcheck.Main(m)
}

// TestDemoWithinItsSource must not copy its own copies.
func TestDemoWithinItsSource(t *testing.T) {
	src := t.TempDir()
	write(t, []byte("content"), src, "dir", "file")
	r := run(t, exitFailure, "demo", "--src", src, "--dir", filepath.Join(src, "dir"))
	if !strings.Contains(r.err, "--dir") {
		t.Errorf("message %q", r.err)
	}
	wantNames(t, filepath.Join(src, "dir"), "file")
}

// TestInterruptedDemoLeavesNoFiles interrupts the demo and its server. No file is left, and
// the end of the server is not reported.
func TestInterruptedDemoLeavesNoFiles(t *testing.T) {
	t.Setenv(asCommand, "1")
	src, dir := t.TempDir(), t.TempDir()
	write(t, randomBytes(3*chunkSize), src, "file")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan result)
	go func() { done <- runCommand(ctx, strings.NewReader(""), "demo", "--src", src, "--dir", dir) }()
	for {
		if begun, _ := filepath.Glob(filepath.Join(dir, "*", "share", "files-*")); len(begun) > 0 {
			cancel()
		}
		select {
		case r := <-done:
			if strings.Contains(r.err, "badly") {
				t.Errorf("exit status %d, %s", r.code, r.err)
			}
			wantNames(t, dir)
			return
		case <-time.After(time.Millisecond):
		}
	}
}

// TestHungServerIsKilled kills a server that does not stop.
func TestHungServerIsKilled(t *testing.T) {
	t.Setenv(asHung, "1")
	s, err := startOwnServer(t.Context(), io.Discard, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s.patience = time.Millisecond
	if err := s.stop(); err == nil || s.cmd.ProcessState == nil || s.cmd.ProcessState.Success() {
		t.Errorf("it ended with %v: %v", s.cmd.ProcessState, err)
	} else if runtime.GOOS != "windows" && !strings.Contains(err.Error(), "was killed") {
		t.Error(err)
	}
}

// The demo of a small directory succeeds over each transport, and leaves no file.
func TestDemoLeavesNoFiles(t *testing.T) {
	t.Setenv(asCommand, "1")
	for _, provider := range []string{"iwarp", "smb", ""} {
		src, dir := t.TempDir(), t.TempDir()
		write(t, randomBytes(3*chunkSize), src, "sub", "big")
		write(t, randomBytes(10), src, "small")
		r := run(t, exitOK, "demo", "--src", src, "--dir", dir, "--provider", provider)
		want := []string{"every byte compared", provider}
		if provider == "" {
			for _, p := range lwio.DefaultProviders() {
				want = append(want, p.Name()+"\n")
			}
		}
		for _, w := range want {
			if !strings.Contains(r.out, w) {
				t.Errorf("demo printed no %q: %s", w, r.out)
			}
		}
		wantNames(t, dir)
	}
}
