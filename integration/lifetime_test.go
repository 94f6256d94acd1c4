package integration

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	client "lwio"
)

// transports are the transports within one host.
var transports = []string{"shm", "iwarp", "smb"}

// dial connects to a server by a transport.
func dial(t *testing.T, s *lwioServer, transport string, timeout time.Duration) (*client.Client, error) {
	u := *s.url
	u.RawQuery = "provider=" + transport
	return client.Dial(t.Context(), u.String(), &client.Config{
		Timeout: timeout, RequireRDMA: transport != client.TransportSMB,
	})
}

// footprint has the resources of a process: memory in RAM, in bytes, descriptors, mappings
// and threads.
type footprint struct{ resident, descriptors, mappings, threads int }

func footprintOf(t *testing.T, pid int) (f footprint) {
	t.Helper()
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	fds, err := os.ReadDir(filepath.Join(proc, "fd"))
	if err != nil {
		t.Fatal(err)
	}
	maps, err := os.ReadFile(filepath.Join(proc, "maps"))
	if err != nil {
		t.Fatal(err)
	}
	status, err := os.ReadFile(filepath.Join(proc, "status"))
	if err != nil {
		t.Fatal(err)
	}
	f.descriptors, f.mappings = len(fds), bytes.Count(maps, []byte("\n"))
	for line := range strings.Lines(string(status)) {
		var n int
		if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &n); err == nil {
			f.resident = n << 10
		} else if _, err := fmt.Sscanf(line, "Threads: %d", &n); err == nil {
			f.threads = n
		}
	}
	return f
}

// visit connects, reads a file, and disconnects.
func visit(t *testing.T, s *lwioServer, transport string, want []byte) {
	t.Helper()
	c, err := dial(t, s, transport, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	f, err := c.Open(t.Context(), "f")
	if err != nil {
		t.Fatal(err)
	}
	p := make([]byte, len(want))
	if n, err := f.ReadAt(p, 0); n != len(p) || err != nil || !bytes.Equal(p, want) {
		t.Fatal(n, err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestManyVisitsLeakNothing connects and disconnects 10,000 times: neither side keeps memory,
// descriptors, mappings or threads.
func TestManyVisitsLeakNothing(t *testing.T) {
	dir := t.TempDir()
	content := make([]byte, 5000)
	_, _ = rand.Read(content)
	if err := os.WriteFile(filepath.Join(dir, "f"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	s := serve(t, dir)
	visits := map[string]int{"shm": 4500, "iwarp": 4500, "smb": 1000}
	for transport := range visits {
		for range 200 {
			visit(t, s, transport, content)
		}
	}
	server, own := footprintOf(t, s.cmd.Process.Pid), footprintOf(t, os.Getpid())
	for transport, n := range visits {
		for range n - 200 {
			visit(t, s, transport, content)
		}
	}
	for _, side := range []struct {
		name   string
		pid    int
		before footprint
	}{{"server", s.cmd.Process.Pid, server}, {"client", os.Getpid(), own}} {
		after := footprintOf(t, side.pid)
		for end := time.Now().Add(time.Minute); after.grew(side.before) && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			after = footprintOf(t, side.pid) // the last visits may not be over yet
		}
		t.Logf("%s: %+v, then %+v", side.name, side.before, after)
		if after.grew(side.before) {
			t.Errorf("the %s grew", side.name)
		}
	}
}

// grew reports whether a process holds more than before, beyond the usual variation.
func (f footprint) grew(before footprint) bool {
	return f.resident > before.resident+16<<20 || f.descriptors > before.descriptors+8 ||
		f.mappings > before.mappings+32 || f.threads > before.threads+8
}

// TestFrozenServerLetsCallsEndAtTheirDeadline stops the server's process during I/O: each
// call ends at its deadline, and Close too.
//
// Source: [OP-113]
func TestFrozenServerLetsCallsEndAtTheirDeadline(t *testing.T) {
	const patience, slack = 300 * time.Millisecond, 2 * time.Minute
	for _, transport := range transports {
		t.Run(transport, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "f"), make([]byte, 1<<20), 0o600); err != nil {
				t.Fatal(err)
			}
			s := serve(t, dir)
			c, f := openSoon(t, s, transport, patience)
			freeze(t, s.cmd.Process)
			defer s.cmd.Process.Signal(syscall.SIGCONT)
			p := make([]byte, 1<<20)
			for name, call := range map[string]func(ctx context.Context) error{
				"small read":  func(ctx context.Context) error { _, err := f.ReadAtContext(ctx, p[:500], 0); return err },
				"large read":  func(ctx context.Context) error { _, err := f.ReadAtContext(ctx, p, 0); return err },
				"small write": func(ctx context.Context) error { _, err := f.WriteAtContext(ctx, p[:500], 0); return err },
				"large write": func(ctx context.Context) error { _, err := f.WriteAtContext(ctx, p, 0); return err },
				"open":        func(ctx context.Context) error { _, err := c.Open(ctx, "f"); return err },
				"stat":        func(ctx context.Context) error { _, err := c.Stat(ctx, "f"); return err },
			} {
				done := make(chan error, 1)
				go func() {
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					defer cancel()
					done <- call(ctx)
				}()
				select {
				case err := <-done:
					if err == nil {
						t.Errorf("%s: a frozen server answered", name)
					}
				case <-time.After(slack):
					t.Fatalf("%s: no end", name)
				}
			}
			done := make(chan error, 1)
			go func() {
				_ = f.Close() // fails, as the server does not answer
				done <- c.Close()
			}()
			select {
			case <-done:
			case <-time.After(slack):
				t.Error("Close: no end")
			}
		})
	}
}

// openSoon connects with short time limits. A slow server may miss them; then openSoon
// tries again.
func openSoon(t *testing.T, s *lwioServer, transport string, patience time.Duration) (*client.Client, *client.File) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		c, err := dial(t, s, transport, patience)
		if err == nil {
			var f *client.File
			if f, err = c.OpenFile(t.Context(), "f", os.O_RDWR, 0); err == nil {
				return c, f
			}
			_ = c.Close() // it may be as slow
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, context.DeadlineExceeded) || time.Now().After(end) {
			t.Fatal(err)
		}
		t.Log(err)
	}
}

// freeze stops a process, and returns when all of its threads are stopped.
func freeze(t *testing.T, p *os.Process) {
	t.Helper()
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	threads := filepath.Join("/proc", strconv.Itoa(p.Pid), "task", "*", "stat")
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		stats, err := filepath.Glob(threads)
		if err != nil || len(stats) == 0 {
			t.Fatalf("no threads of process %d: %v", p.Pid, err)
		}
		if !slices.ContainsFunc(stats, moves) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("process %d does not stop", p.Pid)
		}
	}
}

// moves reports whether the thread with this stat file is not stopped.
func moves(stat string) bool {
	b, err := os.ReadFile(stat)
	i := bytes.LastIndexByte(b, ')') // the end of the name
	return err == nil && i >= 0 && !bytes.HasPrefix(b[i:], []byte(") T"))
}
