package survive

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lwio"
	"lwio/integration/internal/lossyfs"
	"lwio/integration/internal/sandbox"
	"lwio/integration/internal/supervise"
	"lwio/internal/test/skip"
)

// serverLog keeps the standard error of a server.
type serverLog struct {
	t    *testing.T
	mu   sync.Mutex // guards text
	text strings.Builder
}

func (l *serverLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// expect waits for a text since the last call.
func (l *serverLog) expect(text string) {
	l.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(retry) {
		l.mu.Lock()
		got := l.text.String()
		found := strings.Contains(got, text)
		if found {
			l.text.Reset()
		}
		l.mu.Unlock()
		switch {
		case found:
			return
		case time.Now().After(end):
			l.t.Fatalf("the log of the server has no %q: %q", text, got)
		}
	}
}

// stateServer starts a server with a state in a directory, and returns its log.
func stateServer(t *testing.T, dir, state string) (*supervise.Server, *serverLog) {
	t.Helper()
	log := &serverLog{t: t}
	s, err := supervise.New(supervise.Config{Binary: lwioBin, Dir: dir, Flags: []string{"--state", state}, Log: log})
	if err != nil {
		t.Fatal(err, log.text.String())
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, log
}

// visitor is a client with a file that it has locked.
type visitor struct {
	wires
	c *lwio.Client
	f *lwio.File
}

// visit connects, and makes and uses a file.
func visit(t *testing.T, s *supervise.Server, transport, name string) *visitor {
	t.Helper()
	v := new(visitor)
	var err error
	if v.c, err = lwio.Dial(t.Context(), s.URL(""), v.config(transport)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = v.c.Close() })
	if v.f, err = v.c.OpenFile(t.Context(), name, os.O_RDWR|os.O_CREATE, 0); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(v.f.TryLock(t.Context(), lockedRange, lwio.LockShared), v.f.Unlock(t.Context(), lockedRange), v.uses(1)); err != nil {
		t.Fatal(err)
	}
	return v
}

// uses writes to the file and reads it.
func (v *visitor) uses(b byte) error {
	p := []byte{b}
	if _, err := v.f.WriteAt(p, 0); err != nil {
		return err
	}
	if _, err := v.f.ReadAt(p, 0); err != nil || p[0] != b {
		return fmt.Errorf("%v, %w", p, err)
	}
	return nil
}

// lasts expects that the file outlives its connections, or not. It makes a call that goes over SMB.
func (v *visitor) lasts(t *testing.T, want bool) {
	t.Helper()
	v.cutSMB()
	if err := v.f.Truncate(t.Context(), 1); (err == nil) != want || !want && !errors.Is(err, lwio.ErrStale) && !errors.Is(err, net.ErrClosed) {
		t.Errorf("a file after the loss of its connection: %v", err)
	}
}

// tmpfs mounts a small disk in memory.
func tmpfs(t *testing.T, options string) string {
	t.Helper()
	if !sandbox.Inside() {
		skip.Test(t, "no right to make namespaces")
	}
	dir := t.TempDir()
	if err := unix.Mount("state", dir, "tmpfs", 0, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fill fills a disk. remove makes the space free again.
func fill(t *testing.T, dir string) (remove func()) {
	t.Helper()
	name := filepath.Join(dir, "filling")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size := int64(0)
	for page := make([]byte, 4096); err == nil; size += 4096 {
		_, err = f.Write(page)
	}
	if err := f.Truncate(size - 4096); err != nil { // the last write failed
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(name); err != nil {
			t.Error(err)
		}
	}
}

// TestServerServesOnWithoutItsState starts a server whose state is damaged, or cannot be read or written. The client
// of before gets an error for its file, which is not opened again without its lock. A new client uses files, which end
// with their connection. Nothing is changed in the directory.
func TestServerServesOnWithoutItsState(t *testing.T) {
	if !sandbox.Inside() {
		skip.Test(t, "no right to make namespaces")
	}
	log := func(state string) string { return filepath.Join(state, "log.1") }
	edit := func(name string, change func(b []byte) []byte) error {
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(name, change(b), 0o600)
	}
	for name, c := range map[string]struct {
		breaks func(t *testing.T, state string) error
		says   string
	}{
		"a bit": {func(_ *testing.T, state string) error {
			return edit(log(state), func(b []byte) []byte { b[100] ^= 4; return b })
		}, "damaged at offset 72: checksum"},
		"a shorter file": {func(_ *testing.T, state string) error {
			return edit(log(state), func(b []byte) []byte { return b[:150] })
		}, "damaged at offset 72: end of the file"},
		"other bytes": {func(_ *testing.T, state string) error {
			return edit(log(state), func(b []byte) []byte { return bytes.Repeat([]byte("x"), len(b)) })
		}, "header of the file"},
		"no boot id": {func(_ *testing.T, state string) error { return os.Remove(filepath.Join(state, "boot")) }, "the file is missing"},
		"read-only": {func(t *testing.T, state string) error {
			t.Cleanup(func() { _ = unix.Unmount(state, unix.MNT_DETACH) }) // a failed test
			return errors.Join(unix.Mount(state, state, "", unix.MS_BIND, ""),
				unix.Mount("", state, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""))
		}, "read-only file system"},
	} {
		t.Run(name, func(t *testing.T) {
			state := filepath.Join(tmpfs(t, "size=8m,mode=0700"), "state")
			s, says := stateServer(t, t.TempDir(), state)
			before := visit(t, s, "shm", "file")
			if err := errors.Join(s.Kill(), c.breaks(t, state)); err != nil {
				t.Fatal(err)
			}
			content, err := os.ReadFile(log(state))
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Start(); err != nil {
				t.Fatal(err)
			}
			says.expect(c.says)
			if err := before.uses(2); !errors.Is(err, lwio.ErrStale) {
				t.Errorf("the file of before: %v", err)
			}
			for _, transport := range transports {
				v := visit(t, s, transport, "new-"+transport)
				if err := v.f.Sync(t.Context()); err != nil {
					t.Error(err)
				}
				v.lasts(t, false)
			}
			if now, err := os.ReadFile(log(state)); err != nil || !bytes.Equal(now, content) {
				t.Errorf("the file of the state was changed: %v", err)
			}
		})
	}
}

// TestFullDiskOfTheState fills the disk of the state, at the start of a server and while it runs. Meanwhile files are
// used without a promise, and locks of earlier ones are refused. With space everything is as before.
func TestFullDiskOfTheState(t *testing.T) {
	state := tmpfs(t, "size=1088k,mode=0700") // the first chunk of the log fits, the second does not
	s, says := stateServer(t, t.TempDir(), state)
	early := visit(t, s, "iwarp", "early")
	ctx := t.Context()
	empty := fill(t, state)
	var err error
	for n := uint64(0); err == nil && n < 50_000; n++ { // up to the end of the chunk
		err = early.f.TryLock(ctx, lwio.Range{Off: 1 << 20, Len: 1}, lwio.LockShared)
		if err == nil {
			err = early.f.Unlock(ctx, lwio.Range{Off: 1 << 20, Len: 1})
		}
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("locks on a full disk: %v", err)
	}
	late := visit(t, s, "iwarp", "late")
	says.expect("open files are not kept")
	if err := errors.Join(early.uses(2), late.uses(3)); err != nil {
		t.Error(err)
	}
	late.lasts(t, false)
	early.lasts(t, true)
	empty()
	if err := errors.Join(early.f.TryLock(ctx, lwio.Range{Off: 1 << 20, Len: 1}, lwio.LockShared), s.Kill()); err != nil {
		t.Fatal(err)
	}
	logs, err := filepath.Glob(filepath.Join(state, "log.*"))
	for _, name := range logs {
		err = errors.Join(err, os.Remove(name))
	}
	if err != nil {
		t.Fatal(err)
	}
	defer fill(t, state)()
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	says.expect("no space left on device")
	visit(t, s, "shm", "new").lasts(t, false)
}

// TestStateOnAFailingDisk keeps the state on a disk whose calls fail, one kind after the other, at the start of the
// server and while it runs. The server serves on.
func TestStateOnAFailingDisk(t *testing.T) {
	disk, state := lossyDisk(t)
	s, says := stateServer(t, t.TempDir(), state)
	for i, c := range []struct {
		op    lossyfs.Op
		errno syscall.Errno
		first bool // before the directory has files
		says  string
	}{
		{lossyfs.Create, syscall.EROFS, true, "read-only file system"},
		{lossyfs.Create, syscall.ENOSPC, true, "no space left on device"},
		{lossyfs.Write, syscall.EIO, true, "input/output error"},
		{lossyfs.Sync, syscall.EIO, true, "input/output error"},
		{lossyfs.Read, syscall.EIO, false, "input/output error"},
	} {
		v := visit(t, s, "shm", fmt.Sprint("file", i))
		if err := s.Kill(); err != nil {
			t.Fatal(err)
		}
		if c.first {
			disk.Clear()
		}
		disk.Fail(c.op, c.errno, lossyfs.Always)
		if err := s.Start(); err != nil {
			t.Fatal(c, err)
		}
		says.expect(c.says)
		if err := v.uses(2); !errors.Is(err, lwio.ErrStale) {
			t.Errorf("%v: %v", c, err)
		}
		visit(t, s, "iwarp", fmt.Sprint("new", i)).lasts(t, false)
		disk.Heal()
		if err := errors.Join(s.Kill(), s.Start()); err != nil {
			t.Fatal(err)
		}
		visit(t, s, "iwarp", fmt.Sprint("healed", i)).lasts(t, true)
	}
}
