package server_test

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lwio"
	"lwio/server"
	"lwio/vfs"
	"lwio/vfs/posix"
)

// directory has the users of a server, and their rights on its share "share".
type directory struct {
	mu     sync.Mutex
	users  server.Users
	rights map[string]vfs.Rights
	wrap   func(*posix.Dir) vfs.Backend // nil for the directory itself
}

func (d *directory) lookup(domain, user string) (name string, ntHash [16]byte, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.users.Lookup(domain, user)
}

func (d *directory) rightsOf(user string) vfs.Rights {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rights[user]
}

func (d *directory) change(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

// serve starts a server for alice and bob, with the file "f". dial connects a user over the named
// transport.
func (d *directory) serve(t *testing.T) (s *server.Server, dial func(user, provider string) *lwio.Client) {
	t.Helper()
	d.users = server.Users{"alice": "secret", "bob": "secret"}
	d.rights = map[string]vfs.Rights{"alice": vfs.ReadWrite, "bob": vfs.ReadWrite}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f"), make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	files, err := vfs.New(vfs.Config{
		Shares:        []vfs.Share{{Name: "share", Backend: d.backend(t, dir), Rights: d.rightsOf}},
		RevokeTimeout: time.Hour, // a close that waits for I/O is seen to wait
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err = server.New(server.Config{FS: files, Lookup: d.lookup, Providers: lwio.DefaultProviders()})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(context.Background(), l) }()
	t.Cleanup(func() {
		s.Close()
		<-served
		if err := files.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, func(user, provider string) *lwio.Client {
		t.Helper()
		u := url.URL{Scheme: lwio.Scheme, User: url.UserPassword(user, "secret"), Host: l.Addr().String(), Path: "/share", RawQuery: "provider=" + provider}
		c, err := lwio.Dial(context.Background(), u.String(), &lwio.Config{ReconnectTimeout: time.Second, Timeout: 20 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if c.Transport().Name != provider {
			t.Fatalf("connected over %v, want %s", c.Transport(), provider)
		}
		return c
	}
}

// backend returns the directory of the share.
func (d *directory) backend(t *testing.T, dir string) vfs.Backend {
	t.Helper()
	backend, err := posix.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if d.wrap == nil {
		return backend
	}
	return d.wrap(backend)
}

// onEachTransport runs a test over each RDMA provider that works here, and over SMB.
func onEachTransport(t *testing.T, run func(t *testing.T, provider string)) {
	transports := map[string]bool{"iwarp": true, "shm": runtime.GOOS == "linux", lwio.TransportSMB: true}
	for provider := range maps.Keys(transports) {
		if transports[provider] {
			t.Run(provider, func(t *testing.T) { run(t, provider) })
		}
	}
}

// No read of a removed user that begins after the end of Reauthorize succeeds, over RDMA too, and the
// RDMA connection ends. Another user is not disturbed.
func TestRemovedUserIsCutOff(t *testing.T) {
	onEachTransport(t, func(t *testing.T, provider string) {
		var d directory
		s, dial := d.serve(t)
		af, bf := open(t, dial("alice", provider), os.O_RDONLY), open(t, dial("bob", provider), os.O_RDONLY)
		var returned atomic.Bool
		reading, last := make(chan struct{}), make(chan bool, 1)
		go func() {
			p := make([]byte, 4096)
			for n := 0; ; n++ {
				late := returned.Load()
				if _, err := af.ReadAt(p, 0); err != nil || late {
					last <- err == nil
					return
				}
				if n == 10 {
					close(reading)
				}
			}
		}()
		<-reading
		d.change(func() { delete(d.users, "alice") })
		s.Reauthorize()
		returned.Store(true)
		if n := s.Stats().Sessions; n != 1 {
			t.Errorf("%d SMB sessions, want that of the other user", n)
		}
		if <-last {
			t.Error("the removed user reads after the end of Reauthorize")
		}
		eventually(t, "end of the RDMA connections of the removed user", func() bool { return connections(s, "alice") == 0 })
		if _, err := bf.ReadAt(make([]byte, 4096), 0); err != nil {
			t.Errorf("another user: %v", err)
		}
	})
}

// open opens the file "f".
func open(t *testing.T, c *lwio.Client, flag int) *lwio.File {
	t.Helper()
	f, err := c.OpenFile(t.Context(), "f", flag, 0)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no %s", what)
		}
	}
}

// silentDir is a directory whose reads wait until answer is closed.
type silentDir struct {
	*posix.Dir
	waiting atomic.Int32
	answer  chan struct{}
}

func (d *silentDir) Open(path string, how vfs.HandleMode) (vfs.Handle, error) {
	h, err := d.Dir.Open(path, how)
	return &silentFile{h, d}, err
}

// silentFile is a file of a silentDir. It has no descriptor and no cached data.
type silentFile struct {
	vfs.Handle
	dir *silentDir
}

func (f *silentFile) File() *os.File { return nil }

func (f *silentFile) ReadCached([]byte, int64) (int, bool, error) { return 0, false, nil }

func (f *silentFile) ReadAt(p []byte, off int64) (int, error) {
	f.dir.waiting.Add(1)
	<-f.dir.answer
	return f.Handle.ReadAt(p, off)
}

// A file system that does not answer delays no change of users and rights. When it answers at last,
// reads of a removed user, and of a user without the right, get no data.
func TestReauthorizeWithSilentFileSystem(t *testing.T) {
	onEachTransport(t, func(t *testing.T, provider string) {
		var dir *silentDir
		d := directory{wrap: func(posix *posix.Dir) vfs.Backend {
			dir = &silentDir{Dir: posix, answer: make(chan struct{})}
			return dir
		}}
		s, dial := d.serve(t)
		answer := sync.OnceFunc(func() { close(dir.answer) })
		t.Cleanup(answer)
		alice, bob := dial("alice", provider), dial("bob", provider)
		var done sync.WaitGroup
		wantNoRead := func(f *lwio.File) {
			if _, err := f.ReadAt(make([]byte, 4096), 0); err == nil {
				t.Error("a user without the right reads")
			}
		}
		removed, denied := open(t, alice, os.O_RDONLY), open(t, bob, os.O_RDONLY)
		var ended atomic.Bool // the read of the removed user
		done.Go(func() { wantNoRead(removed); ended.Store(true) })
		done.Go(func() { wantNoRead(denied) })
		writes := open(t, bob, os.O_RDWR)
		eventually(t, "reads in progress", func() bool { return dir.waiting.Load() == 2 })
		d.change(func() { delete(d.users, "alice"); delete(d.rights, "bob") })
		done.Go(s.Reauthorize)
		eventually(t, "refusal of a write", func() bool {
			_, err := writes.WriteAt(make([]byte, 4096), 0)
			return err != nil
		})
		eventually(t, "end of the session", func() bool {
			_, err := alice.Stat(t.Context(), "f")
			return err != nil
		})
		if provider != lwio.TransportSMB {
			eventually(t, "end of the RDMA connection, which follows the session", ended.Load)
		}
		answer()
		done.Wait()
	})
}

// connections counts the RDMA connections of a user.
func connections(s *server.Server, user string) (n int) {
	for _, c := range s.Connections() {
		if c.User == user {
			n++
		}
	}
	return n
}

// A user that loses the right to write keeps the session, and its reads. Files that it has open for
// writing are closed, over RDMA too.
func TestWithdrawnRightClosesOpens(t *testing.T) {
	onEachTransport(t, func(t *testing.T, provider string) {
		var d directory
		s, dial := d.serve(t)
		c := dial("alice", provider)
		writes, reads := open(t, c, os.O_RDWR), open(t, c, os.O_RDONLY)
		p := make([]byte, 4096)
		if _, err := writes.WriteAt(p, 0); err != nil {
			t.Fatal(err)
		}
		d.change(func() { d.rights["alice"] = vfs.ReadOnly })
		s.Reauthorize()
		p[0] = 1
		if _, err := writes.WriteAt(p, 0); err == nil {
			t.Error("a write after the right was withdrawn")
		}
		if n, err := reads.ReadAt(p, 0); err != nil || p[0] != 0 {
			t.Errorf("read: %d bytes, first is %d, %v", n, p[0], err)
		}
		if _, err := c.OpenFile(t.Context(), "f", os.O_RDWR, 0); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("open for writing: %v", err)
		}
		d.change(func() { delete(d.rights, "alice") })
		s.Reauthorize()
		if _, err := reads.ReadAt(p, 0); err == nil {
			t.Error("a read after the right was withdrawn")
		}
	})
}
