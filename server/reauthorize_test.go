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
	backend, err := posix.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files, err := vfs.New(vfs.Config{Shares: []vfs.Share{{Name: "share", Backend: backend, Rights: d.rightsOf}}})
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

// onEachTransport runs a test over each RDMA provider that works here, and over SMB.
func onEachTransport(t *testing.T, run func(t *testing.T, provider string)) {
	transports := map[string]bool{"iwarp": true, "shm": runtime.GOOS == "linux", lwio.TransportSMB: true}
	for provider := range maps.Keys(transports) {
		if transports[provider] {
			t.Run(provider, func(t *testing.T) { run(t, provider) })
		}
	}
}

// A user that is removed reads no byte after Reauthorize has returned, over RDMA too, and its
// connections end. Another user is not disturbed.
func TestRemovedUserIsCutOff(t *testing.T) {
	onEachTransport(t, func(t *testing.T, provider string) {
		var d directory
		s, dial := d.serve(t)
		alice, bob := dial("alice", provider), dial("bob", provider)
		af, err := alice.Open(t.Context(), "f")
		if err != nil {
			t.Fatal(err)
		}
		bf, err := bob.Open(t.Context(), "f")
		if err != nil {
			t.Fatal(err)
		}
		reading, over := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(over)
			p := make([]byte, 4096)
			for n := 0; ; n++ {
				if _, err := af.ReadAt(p, 0); err != nil {
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
		if n := s.Stats().Sessions; n != 1 {
			t.Errorf("%d SMB sessions, want that of the other user", n)
		}
		if _, err := af.ReadAt(make([]byte, 4096), 0); err == nil {
			t.Error("the removed user still reads")
		}
		<-over
		for end := time.Now().Add(time.Minute); connections(s, "alice") > 0; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%d RDMA connections of the removed user are left", connections(s, "alice"))
			}
		}
		if _, err := bf.ReadAt(make([]byte, 4096), 0); err != nil {
			t.Errorf("another user: %v", err)
		}
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
		writes, err := c.OpenFile(t.Context(), "f", os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		reads, err := c.Open(t.Context(), "f")
		if err != nil {
			t.Fatal(err)
		}
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
