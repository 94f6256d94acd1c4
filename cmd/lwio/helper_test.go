package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// lockedBuffer is a buffer that several goroutines may write to.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// result is the output and the exit status of a run of the command.
type result struct {
	out, err string
	code     int
}

// runCommand runs the command in this process.
func runCommand(ctx context.Context, stdin io.Reader, args ...string) result {
	var out, err lockedBuffer
	a := &app{stdin: stdin, stdout: &out, stderr: &err, env: func(string) string { return "" }}
	code := a.run(ctx, args)
	return result{out.String(), err.String(), code}
}

// run runs the command, which is expected to return code.
func run(t *testing.T, code int, args ...string) result {
	t.Helper()
	r := runCommand(t.Context(), strings.NewReader(""), args...)
	if r.code != code {
		t.Fatalf("lwio %s: exit status %d, want %d\nstdout: %s\nstderr: %s", strings.Join(args, " "), r.code, code, r.out, r.err)
	}
	return r
}

// testServer is 'lwio serve' in this process.
type testServer struct {
	url  string // of the share
	dir  string
	stop func() // ends it, and waits
	log  *lockedBuffer
}

// startServer serves a directory as the share "data".
func startServer(t *testing.T, dir string, flags ...string) *testServer {
	t.Helper()
	s := startServe(t, append(flags, "data="+dir)...)
	s.dir = dir
	return s
}

// startServe runs 'lwio serve' with arguments, on a free port, until the end of the test. Its URL is the
// first that it prints.
func startServe(t *testing.T, args ...string) *testServer {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, w := io.Pipe()
	var log lockedBuffer
	done := make(chan int, 1)
	go func() {
		a := &app{stdin: strings.NewReader(""), stdout: w, stderr: &log, env: func(string) string { return "" }}
		done <- a.run(ctx, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...))
		w.Close()
	}()
	out := bufio.NewReader(r)
	stop := sync.OnceFunc(func() {
		cancel()
		go func() { _, _ = io.Copy(io.Discard, r) }()
		if code := <-done; code != exitOK {
			t.Errorf("serve: exit status %d\n%s", code, log.String())
		}
	})
	t.Cleanup(stop)
	line, err := out.ReadString('\n')
	if err != nil {
		t.Fatalf("serve printed nothing: %v\n%s", err, log.String())
	}
	go func() { _, _ = io.Copy(io.Discard, out) }() // the URLs of other shares
	return &testServer{url: strings.TrimSpace(line), stop: stop, log: &log}
}

// write makes a file and returns its name.
func write(t *testing.T, content []byte, elem ...string) string {
	t.Helper()
	name := filepath.Join(elem...)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, content, 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// writeSecret makes a file that only its owner may read, and returns its name.
func writeSecret(t *testing.T, content string, elem ...string) string {
	t.Helper()
	name := write(t, []byte(content), elem...)
	if err := os.Chmod(name, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// wantFile checks a file's content.
func wantFile(t *testing.T, name string, want []byte) {
	t.Helper()
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: %d bytes that differ from the %d wanted", name, len(got), len(want))
	}
}

// wantNames checks the names in a directory, hidden files included.
func wantNames(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("%s holds %q, want %q", dir, got, want)
	}
}
