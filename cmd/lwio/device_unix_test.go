//go:build unix

package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A device and a named pipe are destinations of a file, and no file takes their place.
func TestCopyToDeviceAndPipe(t *testing.T) {
	s := startServer(t, t.TempDir())
	content := randomBytes(2*chunkSize + 5)
	write(t, content, s.dir, "f")
	run(t, exitOK, "cp", s.url+"/f", os.DevNull)
	if fi, err := os.Stat(os.DevNull); err != nil || fi.Mode().IsRegular() {
		t.Fatal(fi, err)
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	read := make(chan []byte)
	go func() {
		f, err := os.Open(pipe)
		if err != nil {
			t.Error(err)
		}
		defer f.Close()
		b, err := io.ReadAll(f)
		if err != nil {
			t.Error(err)
		}
		read <- b
	}()
	run(t, exitOK, "cp", s.url+"/f", pipe)
	if got := <-read; string(got) != string(content) {
		t.Errorf("%d bytes through the pipe", len(got))
	}
	if fi, err := os.Stat(pipe); err != nil || fi.Mode()&os.ModeNamedPipe == 0 {
		t.Error(fi, err)
	}
	for _, args := range [][]string{{"cp", "--verify", s.url + "/f", pipe}, {"cp", "--resume", s.url + "/f", os.DevNull}} {
		if r := run(t, exitFailure, args...); !strings.Contains(r.err, "cannot be read back") {
			t.Errorf("%q: %q", args, r.err)
		}
	}
	run(t, exitFailure, "cp", "-r", s.url, os.DevNull)
}

// The wait for the reader of a pipe ends with the context.
func TestOpenOfPipeWithoutReaderIsInterrupted(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if f, err := openDevice(ctx, pipe); f != nil || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, %v", f, err)
	}
	f, err := os.OpenFile(pipe, os.O_RDONLY|unix.O_NONBLOCK, 0) // the goroutine that waits ends
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
}
