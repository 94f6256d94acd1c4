package lwio_test

import (
	"fmt"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"lwio"
	"lwio/rdma"
	"lwio/server"
	"lwio/vfs"
	"lwio/vfs/posix"
)

// limited is a server with the users alice and bob, and limits.
type limited struct {
	t    *testing.T
	srv  *server.Server
	addr string
}

func newLimited(t *testing.T, limits server.Limits, files vfs.Config) *limited {
	t.Helper()
	backend, err := posix.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	files.Shares = []vfs.Share{{Name: "share", Backend: backend}}
	fs, err := vfs.New(files)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fs.Close() })
	s, err := server.New(server.Config{
		FS: fs, Lookup: server.Users{"alice": "password of alice", "bob": "password of bob"}.Lookup,
		Providers: lwio.DefaultProviders(), Limits: limits,
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(t.Context(), l) }()
	t.Cleanup(func() { s.Close(); <-served })
	return &limited{t: t, srv: s, addr: l.Addr().String()}
}

// dial connects as a user, in any spelling.
func (l *limited) dial(user, password string, cfg lwio.Config) (*lwio.Client, error) {
	cfg.User, cfg.Password = user, password
	c, err := lwio.Dial(l.t.Context(), "lwio://"+l.addr+"/share", &cfg)
	if err == nil {
		l.t.Cleanup(func() { c.Close() })
	}
	return c, err
}

// alice is the list of connections of one user: other transports, spellings and domains.
func (l *limited) alice() []*lwio.Client {
	l.t.Helper()
	var all []*lwio.Client
	add := func(user string, cfg lwio.Config) {
		l.t.Helper()
		c, err := l.dial(user, "password of alice", cfg)
		if err != nil {
			l.t.Fatal(err)
		}
		all = append(all, c)
	}
	add("alice", lwio.Config{SMBOnly: true})
	add("ALICE", lwio.Config{SMBOnly: true, Domain: "WORK"})
	for i, p := range lwio.DefaultProviders() {
		over := lwio.Config{RequireRDMA: true, Providers: []rdma.Provider{p}, Connections: 2}
		add([]string{"Alice", "aLICE"}[i%2], over)
		over.Domain = "work"
		add("ALICE", over)
	}
	return all
}

// bob connects as another user.
func (l *limited) bob() *lwio.Client {
	l.t.Helper()
	c, err := l.dial("bob", "password of bob", lwio.Config{SMBOnly: true})
	if err != nil {
		l.t.Fatal(err)
	}
	return c
}

// resource returns the use of a resource.
func (l *limited) resource(name string) server.Resource {
	l.t.Helper()
	for _, r := range l.srv.Resources() {
		if r.Name == name {
			return r
		}
	}
	l.t.Fatalf("no resource %s", name)
	return server.Resource{}
}

// full demands that one user holds all that a user may hold, and no other user anything.
func (l *limited) full(resource string) {
	l.t.Helper()
	if s := l.resource(resource); s.Held != s.UserHeld || s.UserHeld != s.UserLimit {
		l.t.Errorf("%+v", s)
	}
}

// turns calls f with each client in turn until all of them fail.
func turns(all []*lwio.Client, f func(c *lwio.Client, n int) error) (done int) {
	for failed := 0; failed < len(all); {
		failed = 0
		for _, c := range all {
			if f(c, done) != nil {
				failed++
			} else {
				done++
			}
		}
	}
	return done
}

// The limits of a user hold for all its connections together: over SMB and over RDMA, in all
// spellings of its name, and with any domain. Another user has a part of its own.
func TestLimitsOfAUserHoldOnAllConnections(t *testing.T) {
	open := func(c *lwio.Client, n int) error {
		f, err := c.OpenFile(t.Context(), fmt.Sprintf("f%d", n%4), os.O_RDWR|os.O_CREATE, 0)
		if err == nil {
			t.Cleanup(func() { f.Close() })
			_, err = f.WriteAt([]byte("data"), 0)
		}
		return err
	}
	t.Run("opens", func(t *testing.T) {
		l := newLimited(t, server.Limits{}, vfs.Config{MaxOpens: 32})
		if n := turns(l.alice(), open); n != 24 {
			t.Errorf("%d files were opened", n)
		}
		l.full("open_files")
		if err := open(l.bob(), 0); err != nil {
			t.Error(err)
		}
	})
	t.Run("registrations", func(t *testing.T) {
		l := newLimited(t, server.Limits{Registrations: 16}, vfs.Config{})
		turns(l.alice()[2:], open)
		l.full("registrations")
		c, err := l.dial("bob", "password of bob", lwio.Config{RequireRDMA: true, Connections: 1})
		if err == nil {
			err = open(c, 0)
		}
		if err != nil {
			t.Error(err)
		}
	})
	t.Run("locks", func(t *testing.T) {
		l := newLimited(t, server.Limits{}, vfs.Config{MaxLocks: 32})
		files := map[*lwio.Client]*lwio.File{}
		file := func(c *lwio.Client) *lwio.File {
			if files[c] == nil {
				f, err := c.OpenFile(t.Context(), "locked", os.O_RDWR|os.O_CREATE, 0)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { f.Close() })
				files[c] = f
			}
			return files[c]
		}
		lock := func(c *lwio.Client, n int) error {
			return file(c).TryLock(t.Context(), lwio.Range{Off: uint64(n), Len: 1}, lwio.LockExclusive)
		}
		if n := turns(l.alice(), lock); n != 24 {
			t.Errorf("%d locks were granted", n)
		}
		l.full("locks")
		if err := lock(l.bob(), 100); err != nil {
			t.Error(err)
		}
	})
	t.Run("connections", func(t *testing.T) {
		l := newLimited(t, server.Limits{ConnectionsPerUser: 2 * len(lwio.DefaultProviders()) * 2}, vfs.Config{})
		before := int64(len(l.alice()))
		eventually(t, func() bool { s := l.resource("rdma_connections"); return s.Held == s.UserLimit })
		for _, p := range lwio.DefaultProviders() {
			over := lwio.Config{RequireRDMA: true, Providers: []rdma.Provider{p}, Domain: "OTHER"}
			if _, err := l.dial("alIce", "password of alice", over); err == nil {
				t.Errorf("one more connection over %s", p.Name())
			}
		}
		l.full("rdma_connections")
		eventually(t, func() bool { return l.resource("smb_connections").Held == before })
		smb := lwio.Config{SMBOnly: true, Domain: "OTHER"}
		for n := before; n < l.resource("smb_connections").UserLimit; n++ {
			if _, err := l.dial("alIce", "password of alice", smb); err != nil {
				t.Fatal(err)
			}
		}
		l.full("smb_connections")
		for _, user := range []string{"alice", "ALICE", "Alice"} {
			if _, err := l.dial(user, "password of alice", smb); err == nil {
				t.Errorf("%s has one more connection", user)
			}
		}
		l.bob()
	})
	t.Run("memory", func(t *testing.T) { testMemoryOfAUser(t) })
	t.Run("requests", func(t *testing.T) {
		// Requests that count together take this long at least, however busy the machine is.
		l := newLimited(t, server.Limits{RequestRate: server.MinRequestRate}, vfs.Config{})
		const each = server.MinRequestRate
		all := l.alice()
		var calls sync.WaitGroup
		start := time.Now()
		for i, c := range all {
			calls.Go(func() {
				f, err := c.OpenFile(t.Context(), fmt.Sprintf("r%d", i), os.O_RDWR|os.O_CREATE, 0)
				if err != nil {
					t.Error(err)
					return
				}
				defer f.Close()
				for range each {
					if _, err := f.WriteAt([]byte("data"), 0); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		calls.Wait()
		// One user alone, with its burst, may take a second less than its requests have.
		if took, least := time.Since(start), time.Duration(len(all)-1)*time.Second; took < least {
			t.Errorf("%d requests took %v, want %v at least", len(all)*each, took, least)
		}
	})
}

// All connections of a user read and write large blocks at a time. The user never holds more
// memory than a user may, and another user is served.
func testMemoryOfAUser(t *testing.T) {
	l := newLimited(t, server.Limits{SMBMemory: server.MinSMBMemory, CreditBudget: 1024, ReadBufferBytes: 4 << 20}, vfs.Config{})
	all := l.alice()
	bob := l.bob()
	const credit = 1 << 20 // the largest; a connection has one beyond the limit of its user
	data := random(1<<20, 1)
	var calls sync.WaitGroup
	for i, c := range all {
		f, err := c.OpenFile(t.Context(), fmt.Sprintf("m%d", i), os.O_RDWR|os.O_CREATE, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		for range 3 {
			calls.Go(func() {
				got := make([]byte, len(data))
				for range 5 {
					if _, err := f.WriteAt(data, 0); err != nil {
						t.Error(err)
					}
					if _, err := f.ReadAt(got, 0); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	ended := make(chan struct{})
	go func() { calls.Wait(); close(ended) }()
	for n := 0; ; n++ {
		for _, resource := range []string{"smb_memory_bytes", "rdma_write_memory_bytes", "rdma_read_memory_bytes"} {
			s := l.resource(resource)
			held, most := s.UserHeld, s.UserLimit
			if resource != "smb_memory_bytes" { // which bob has too
				held = s.Held
			}
			if resource == "rdma_write_memory_bytes" {
				most += int64(len(all)) * 2 * credit
			}
			if held > most || s.Held > s.Limit {
				calls.Wait()
				t.Fatalf("%+v", s)
			}
		}
		select {
		case <-ended:
			if n == 0 {
				put(t, bob, "of bob", data)
			}
			return
		default:
			if n == 0 {
				put(t, bob, "of bob", data)
			}
		}
	}
}
