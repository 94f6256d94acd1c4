package server

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"lwio"
	"lwio/rdma"
	"lwio/vfs"
)

// While there is I/O a limit of CPULatency is set, and at no other time.
func TestCPULatency(t *testing.T) { onEach(t, testCPULatency) }

func testCPULatency(t *testing.T, on string) {
	const limit, set, lifted = 100 * time.Microsecond, "\x64\x00\x00\x00", "\xff\xff\xff\x7f"
	device := filepath.Join(t.TempDir(), "device")
	if err := os.WriteFile(device, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), content(4096), 0o600); err != nil {
		t.Fatal(err)
	}
	s, addr, _ := newServer(t, context.Background(), Config{
		Lookup: Users{"alice": "secret"}.Lookup, Providers: []rdma.Provider{providers[on]()},
		CPULatency: limit, cpuDevice: device,
	}, dir)
	c, err := lwio.Dial(t.Context(), "lwio://alice:secret@"+addr.String()+"/share?provider="+on, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	f, err := c.Open(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	// On a machine that stands still for a while it may be lifted between two looks.
	told := func(least int) {
		t.Helper()
		b, err := os.ReadFile(device)
		if n := strings.Count(string(b), set+lifted); err != nil || n < least || n > 0 && least == 0 || len(b) != n*len(set+lifted) {
			t.Fatalf("the device was told %x, %v", b, err)
		}
	}
	told(0)
	for i := range 2 {
		eventually(t, "the limit is set", func() bool {
			if _, err := f.ReadAt(make([]byte, 4096), 0); err != nil {
				t.Fatal(err)
			}
			return s.Stats().CPULatencyHeld
		})
		if i == 0 {
			eventually(t, "the limit is lifted", func() bool { return !s.Stats().CPULatencyHeld })
		}
	}
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	if s.Stats().CPULatencyHeld {
		t.Error("a server that is closed holds the limit")
	}
	told(2)
}

// A limit that cannot be had is an error at once, which says why.
func TestCPULatencyRefused(t *testing.T) {
	files := oneShare(t)
	device := filepath.Join(t.TempDir(), "none")
	if _, err := New(Config{FS: files, CPULatency: time.Nanosecond, cpuDevice: device}); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), device) {
		t.Errorf("without a device: %v", err)
	}
	if _, err := New(Config{FS: files, CPULatency: -1}); err == nil || !strings.Contains(err.Error(), "negative") {
		t.Errorf("a limit below 0: %v", err)
	}
}

// That the system did not take a limit is logged, and an error of Shutdown too. The server may have been
// closed before it told the system, so that it takes some.
func TestCPULatencyNotTaken(t *testing.T) {
	files := oneShare(t)
	for range 100 {
		var log bytes.Buffer
		s, err := New(Config{
			FS: files, CPULatency: time.Nanosecond, cpuDevice: "/dev/full", Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		s.awake.Touch()
		if err = s.Shutdown(t.Context()); errors.Is(err, syscall.ENOSPC) && strings.Contains(err.Error(), "/dev/full") {
			if !strings.Contains(log.String(), "CPULatency is not kept") {
				t.Errorf("logged: %s", &log)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Error("no error of 100 servers")
}

// oneShare is a file system for servers that nobody uses.
func oneShare(t *testing.T) *vfs.FS {
	t.Helper()
	dir, err := vfs.NewDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	files, err := vfs.New(vfs.Config{Shares: []vfs.Share{{Name: "share", Backend: dir}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { files.Close() })
	return files
}
