package lwio_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lwio"
	"lwio/internal/test/faultconn"
	"lwio/lwiotest"
)

// The commands of SMB whose messages the tests lose.
const (
	smbNegotiate = 0x00
	smbLogon     = 0x01
	smbCreate    = 0x05
	smbClose     = 0x06
	smbFlush     = 0x07
	smbRead      = 0x08
	smbLock      = 0x0A
	smbQueryInfo = 0x10
	smbSetInfo   = 0x11
)

// onLink runs a test with a client on each transport whose SMB connections the test cuts.
func onLink(t *testing.T, run func(t *testing.T, s *lwiotest.Server, c *lwio.Client, link *faultconn.Link)) {
	for _, via := range transports() {
		t.Run(via.name, func(t *testing.T) {
			link, s := new(faultconn.Link), lwiotest.NewServer(t, nil)
			run(t, s, clientOn(s, link, via.cfg), link)
		})
	}
}

// clientOn is a client whose SMB connections go over link.
func clientOn(s *lwiotest.Server, link *faultconn.Link, cfg lwio.Config) *lwio.Client {
	cfg.DialContext, cfg.ReconnectTimeout = link.DialContext, faultPatience
	return s.Client(&cfg)
}

// once returns a rule that gives the n-th message with that command, counted from 0, a fate.
func once(command uint16, n int32, fate faultconn.Fate) func(uint16) faultconn.Fate {
	var seen atomic.Int32
	return func(c uint16) faultconn.Fate {
		if c == command && seen.Add(1)-1 == n {
			return fate
		}
		return faultconn.Pass
	}
}

// While there is no SMB connection, RDMA goes on, with locks, syncs and descriptions. Calls that need SMB wait for the next
// session, in which the open file and its locks are as before.
//
// Source: [OP-42], [OP-112], [OP-116]
func TestRDMAGoesOnWithoutSMB(t *testing.T) {
	onLink(t, func(t *testing.T, s *lwiotest.Server, c *lwio.Client, link *faultconn.Link) {
		if !c.Transport().RDMA() {
			return
		}
		ctx := t.Context()
		put(t, c, "f", random(100_000, 1))
		f := openRW(t, c)
		r := lwio.Range{Off: 10, Len: 10}
		must(t, f.Lock(ctx, r, lwio.LockExclusive))
		got := make([]byte, 1000)
		if _, err := f.ReadAt(got, 0); err != nil { // the file is registered
			t.Fatal(err)
		}
		link.Down()
		eventually(t, func() bool { return strings.Contains(c.Transport().Reason, "there is no SMB session") })
		for i := range 100 {
			p := random(1000, byte(i))
			if _, err := f.WriteAt(p, int64(i*1000)); err != nil {
				t.Fatal(err)
			}
			if _, err := f.ReadAt(got, int64(i*1000)); err != nil || !bytes.Equal(got, p) {
				t.Fatal(i, err)
			}
		}
		short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		defer cancel()
		if _, err := c.Stat(short, "f"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a call outlasts its deadline, or does not wait: %v", err)
		}
		other := lwio.Range{Off: 1 << 30, Len: 10}
		must(t, errors.Join(f.Sync(ctx), f.Lock(ctx, other, lwio.LockExclusive), f.Unlock(ctx, other)))
		if info, err := f.Stat(ctx); err != nil || info.Size() != 100_000 {
			t.Error(info, err)
		}
		if n := c.Stats().FileCalls; n != 4 {
			t.Errorf("%d file calls without SMB", n)
		}
		link.Up()
		must(t, f.Sync(ctx))
		blocks(t, openRW(t, s.Client(nil)), r, lwio.LockExclusive)
		must(t, f.Unlock(ctx, r))
		if _, err := f.Stat(ctx); err != nil {
			t.Error(err)
		}
		put(t, c, "g", []byte("g"))
		eventually(t, func() bool { return c.Stats().Reclaimed > 0 }) // no call needs the open file over SMB
		if st := c.Stats(); st.Lost != 0 || st.SMBReconnects != 1 || st.Reclaimed == 0 {
			t.Errorf("%+v", st)
		}
		if tr := c.Transport(); !tr.RDMA() || !strings.Contains(tr.Reason, "the SMB session was replaced 1 times") {
			t.Errorf("%+v", tr)
		}
	})
}

// Calls of each kind go on after the loss of the connection, and open files keep their names, sizes and
// rights.
//
// Source: [MS-SMB2 3.3.5.9.12]
func TestCallsGoOnAfterLossOfSMB(t *testing.T) {
	onLink(t, func(t *testing.T, s *lwiotest.Server, c *lwio.Client, link *faultconn.Link) {
		ctx := t.Context()
		must(t, os.WriteFile(filepath.Join(s.Dir, "f"), random(5000, 1), 0o600))
		f := openRW(t, c)
		p, err := c.CreatePending(ctx, "p")
		must(t, err)
		d, err := c.FS(ctx).Open(".")
		must(t, err)
		defer d.Close()
		for name, call := range map[string]func() error{
			"read":     func() error { _, err := f.ReadAt(make([]byte, 100), 0); return err },
			"write":    func() error { _, err := f.WriteAt(make([]byte, 100), 0); return err },
			"sync":     func() error { return f.Sync(ctx) },
			"truncate": func() error { return f.Truncate(ctx, 4000) },
			"stat":     func() error { _, err := f.Stat(ctx); return err },
			"lock": func() error {
				r := lwio.Range{Len: 1}
				return errors.Join(f.Lock(ctx, r, lwio.LockExclusive), f.Unlock(ctx, r))
			},
			"open":           func() error { g, err := c.Open(ctx, "f"); return errors.Join(err, g.Close()) },
			"stat of name":   func() error { _, err := c.Stat(ctx, "f"); return err },
			"list":           func() error { _, err := c.ReadDir(ctx, "."); return err },
			"list an open":   func() error { _, err := d.(fs.ReadDirFile).ReadDir(-1); return err },
			"write file":     func() error { return errors.Join(c.WriteFile(ctx, "w", []byte("w")), c.Remove(ctx, "w")) },
			"read file":      func() error { _, err := c.ReadFile(ctx, "f"); return err },
			"mkdir":          func() error { return errors.Join(c.Mkdir(ctx, "d", 0), c.Remove(ctx, "d")) },
			"rename":         func() error { return errors.Join(c.Rename(ctx, "f", "h"), c.Rename(ctx, "h", "f")) },
			"write pending":  func() error { _, err := p.WriteAt([]byte("p"), 0); return err },
			"create pending": func() error { q, err := c.CreatePending(ctx, "q"); return errors.Join(err, q.Close()) },
		} {
			link.Cut()
			if err := call(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		link.Cut()
		must(t, p.Commit(ctx))
		if got, err := os.ReadFile(filepath.Join(s.Dir, "p")); string(got) != "p" {
			t.Errorf("%q, %v", got, err)
		}
		if st := c.Stats(); st.SMBReconnects < 10 {
			t.Errorf("%+v", st)
		}
		link.Cut()
		must(t, f.Close())
	})
}

// A request whose response is lost is sent again if that does no harm, or its outcome is asked for.
//
// Source: [MS-SMB2 3.3.5.9.10], [MS-SMB2 3.3.5.14]
func TestLostResponseIsNoFailure(t *testing.T) {
	s := lwiotest.NewServer(t, &lwiotest.Config{SMBOnly: true})
	for _, fate := range []faultconn.Fate{faultconn.LoseRequest, faultconn.LoseResponse} {
		link := new(faultconn.Link)
		c, ctx := clientOn(s, link, lwio.Config{}), t.Context()
		must(t, os.WriteFile(filepath.Join(s.Dir, "f"), random(5000, 1), 0o600))
		f := openRW(t, c)
		r := lwio.Range{Len: 1}
		writes := func(size int) error {
			must(t, os.WriteFile(filepath.Join(s.Dir, "w"), []byte("old"), 0o600))
			err := c.WriteFile(ctx, "w", random(size, 2))
			got, failed := os.ReadFile(filepath.Join(s.Dir, "w"))
			if !bytes.Equal(got, random(size, 2)) {
				t.Errorf("%d bytes are the content: %v", len(got), failed)
			}
			if left, _ := filepath.Glob(filepath.Join(s.Dir, ".lwio-*")); left != nil {
				t.Errorf("left behind: %q", left)
			}
			return errors.Join(err, os.Remove(filepath.Join(s.Dir, "w")))
		}
		small, large := func() error { return writes(4096) }, func() error { return writes(100_000) }
		for _, step := range []struct {
			name    string
			command uint16
			n       int32
			call    func() error
		}{
			{"read", smbRead, 0, func() error { _, err := f.ReadAt(make([]byte, 100), 0); return err }},
			{"sync", smbFlush, 0, func() error { return f.Sync(ctx) }},
			{"stat", smbQueryInfo, 0, func() error { _, err := f.Stat(ctx); return err }},
			{"lock", smbLock, 0, func() error { return f.Lock(ctx, r, lwio.LockExclusive) }},
			{"unlock", smbLock, 0, func() error { return f.Unlock(ctx, r) }},
			{"exclusive create", smbCreate, 0, func() error {
				g, err := c.OpenFile(ctx, "g", os.O_RDWR|os.O_CREATE|os.O_EXCL, 0)
				if err == nil {
					err = g.Close()
				}
				return errors.Join(err, os.Remove(filepath.Join(s.Dir, "g")))
			}},
			{"close", smbClose, 0, func() error {
				g, err := c.Open(ctx, "f")
				return errors.Join(err, g.Close())
			}},
			{"write small file: question", smbCreate, 0, small}, // whether the server can do it in one message
			{"write small file", smbCreate, 0, small},
			{"write large file: create", smbCreate, 1, large}, // behind the question for a directory
			{"write large file: rename", smbSetInfo, 0, large},
			{"write large file: close", smbClose, 0, large},
			{"read file", smbCreate, 0, func() error {
				b, err := c.ReadFile(ctx, "f")
				if err == nil && !bytes.Equal(b, random(5000, 1)) {
					err = errors.New("other content")
				}
				return err
			}},
			{"commit", smbSetInfo, 0, func() error {
				p, err := c.CreatePending(ctx, "p")
				return errors.Join(err, p.Commit(ctx), os.Remove(filepath.Join(s.Dir, "p")))
			}},
			{"list", smbCreate, 0, func() error { _, err := c.ReadDir(ctx, "."); return err }},
		} {
			if _, err := f.Stat(ctx); err != nil { // f has been reclaimed
				t.Fatal(err)
			}
			before := link.Dials()
			link.Judge(once(step.command, step.n, fate))
			if err := step.call(); err != nil {
				t.Errorf("fate %d: %s: %v", fate, step.name, err)
			}
			link.Judge(nil)
			if link.Dials() == before {
				t.Errorf("fate %d: %s: the connection was not lost", fate, step.name)
			}
		}
		if err := f.Unlock(ctx, r); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("fate %d: a lock was done twice, or not undone: %v", fate, err)
		}
		must(t, f.Close())
	}
}

// The size tells whether a Truncate is done whose response was lost. The outcome of another change of a
// name or of data is unknown.
func TestLostResponseOfChangeIsUncertain(t *testing.T) {
	s := lwiotest.NewServer(t, &lwiotest.Config{SMBOnly: true})
	link := new(faultconn.Link)
	c, ctx := clientOn(s, link, lwio.Config{}), t.Context()
	must(t, os.WriteFile(filepath.Join(s.Dir, "f"), random(5000, 1), 0o600))
	f := openRW(t, c)
	for name, call := range map[string]func() error{
		"write":  func() error { _, err := f.WriteAt(make([]byte, 100), 0); return err },
		"mkdir":  func() error { return c.Mkdir(ctx, "d", 0) },
		"remove": func() error { return c.Remove(ctx, "x") },
		"rename": func() error { return c.Rename(ctx, "y", "z") },
	} {
		command := uint16(smbCreate)
		if name == "write" {
			command = 0x09
		}
		if _, err := f.Stat(ctx); err != nil { // f has been reclaimed
			t.Fatal(err)
		}
		link.Judge(once(command, 0, faultconn.LoseResponse))
		if err := call(); !errors.Is(err, lwio.ErrUncertain) || !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
		link.Judge(nil)
	}
	if _, err := f.Stat(ctx); err != nil {
		t.Fatal(err)
	}
	link.Judge(once(smbSetInfo, 0, faultconn.LoseResponse))
	must(t, f.Truncate(ctx, 1000))
	link.Judge(once(smbSetInfo, 0, faultconn.LoseRequest))
	if err := f.Truncate(ctx, 2000); !errors.Is(err, lwio.ErrUncertain) {
		t.Errorf("truncate: %v", err)
	}
	link.Judge(nil)
	if fi, err := f.Stat(ctx); err != nil || fi.Size() != 1000 {
		t.Errorf("%v, %v", fi, err)
	}
}

// A lock whose owner is away is refused to others, and still when the owner is there again.
//
// Source: [MS-SMB2 3.3.5.14]
func TestLocksOutliveLossOfSMB(t *testing.T) {
	onLink(t, func(t *testing.T, s *lwiotest.Server, c *lwio.Client, link *faultconn.Link) {
		ctx := t.Context()
		must(t, os.WriteFile(filepath.Join(s.Dir, "f"), random(5000, 1), 0o600))
		f, other := openRW(t, c), openRW(t, s.Client(nil))
		r := lwio.Range{Off: 100, Len: 100}
		must(t, f.Lock(ctx, r, lwio.LockExclusive))
		for range 3 {
			link.Down()
			blocks(t, other, r, lwio.LockShared)
			link.Up()
			if _, err := f.Stat(ctx); err != nil {
				t.Fatal(err)
			}
			blocks(t, other, r, lwio.LockShared)
		}
		waits := make(chan error)
		go func() { waits <- other.Lock(ctx, r, lwio.LockExclusive) }()
		link.Cut()
		must(t, f.Unlock(ctx, r))
		must(t, <-waits)
		// A call that waits for a lock goes on waiting after the loss.
		go func() { waits <- f.Lock(ctx, r, lwio.LockExclusive) }()
		link.Cut()
		must(t, other.Unlock(ctx, r))
		must(t, <-waits)
		blocks(t, other, r, lwio.LockShared)
	})
}

// A lock that was given up without an answer is not held, whether the server has granted it or not.
func TestGivenUpLockIsReleasedAfterLoss(t *testing.T) {
	s := lwiotest.NewServer(t, &lwiotest.Config{SMBOnly: true})
	for _, fate := range []faultconn.Fate{faultconn.LoseRequest, faultconn.LoseResponse} {
		link := new(faultconn.Link)
		c, ctx := clientOn(s, link, lwio.Config{}), t.Context()
		must(t, os.WriteFile(filepath.Join(s.Dir, "f"), random(5000, 1), 0o600))
		f, other := openRW(t, c), openRW(t, s.Client(nil))
		r := lwio.Range{Off: 100, Len: 100}
		link.Judge(func(command uint16) faultconn.Fate {
			if command == smbLock {
				go link.Down()
				return fate
			}
			return faultconn.Pass
		})
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		if err := f.Lock(short, r, lwio.LockExclusive); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("fate %d: %v", fate, err)
		}
		cancel()
		link.Judge(nil)
		link.Up()
		must(t, other.Lock(ctx, r, lwio.LockExclusive))
		must(t, other.Unlock(ctx, r))
		must(t, f.Lock(ctx, r, lwio.LockExclusive))
		must(t, f.Close())
		must(t, other.Close())
	}
}

// Close of a client returns while the client tries to reconnect, and ends the calls that wait.
func TestCloseDuringReconnectReturns(t *testing.T) {
	onLink(t, func(t *testing.T, s *lwiotest.Server, c *lwio.Client, link *faultconn.Link) {
		put(t, c, "f", []byte("x"))
		f := openRW(t, c)
		link.Down()
		var calls sync.WaitGroup
		for range 4 {
			calls.Go(func() {
				if err := f.Sync(context.Background()); !errors.Is(err, net.ErrClosed) {
					t.Error(err)
				}
			})
		}
		eventually(t, func() bool {
			return c.Stats().SMBReconnects == 0 && strings.Contains(c.Transport().Reason, "no SMB session")
		})
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		calls.Wait()
	})
}

// A file that is closed while there is no connection is closed at the server once there is one.
func TestFileClosedWithoutSMBIsClosedLater(t *testing.T) {
	s := lwiotest.NewServer(t, &lwiotest.Config{SMBOnly: true})
	link := new(faultconn.Link)
	cfg := lwio.Config{DialContext: link.DialContext, ReconnectTimeout: time.Millisecond}
	c := s.Client(&cfg)
	put(t, c, "f", []byte("x"))
	f, err := c.OpenFile(t.Context(), "f", os.O_RDWR, 0)
	must(t, err)
	must(t, f.Lock(t.Context(), lwio.Range{Len: 1}, lwio.LockExclusive))
	link.Down()
	if err := f.Close(); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	link.Up()
	other := openRW(t, s.Client(nil))
	must(t, other.Lock(t.Context(), lwio.Range{Len: 1}, lwio.LockExclusive))
}

// A file whose time without a connection is over fails with ErrStale, and writes nothing. The client and its
// new files go on.
//
// Source: [MS-SMB2 3.3.5.9.12]
func TestFileReclaimedTooLateIsStale(t *testing.T) {
	for _, via := range transports() {
		t.Run(via.name, func(t *testing.T) {
			s := lwiotest.NewServer(t, &lwiotest.Config{DurableTimeout: 20 * time.Millisecond})
			link, ctx := new(faultconn.Link), t.Context()
			c := clientOn(s, link, via.cfg)
			put(t, c, "f", []byte("old"))
			f, err := c.OpenFile(ctx, "f", os.O_RDWR, 0)
			must(t, err)
			if _, err := f.ReadAt(make([]byte, 3), 0); err != nil { // the file is registered
				t.Fatal(err)
			}
			link.Down()
			eventually(t, func() bool { st := s.Server.Stats(); return st.SMBConnections+st.Suspended+st.Orphans+st.Files == 0 })
			link.Up()
			for name, err := range map[string]error{"sync": f.Sync(ctx), "truncate": f.Truncate(ctx, 1), "lock": f.Lock(ctx, lwio.Range{Len: 1}, lwio.LockExclusive)} {
				if !errors.Is(err, lwio.ErrStale) || !errors.Is(err, fs.ErrClosed) || errors.Is(err, lwio.ErrUncertain) {
					t.Errorf("%s: %v", name, err)
				}
			}
			if _, err := f.WriteAt([]byte("new"), 0); !errors.Is(err, lwio.ErrStale) || errors.Is(err, lwio.ErrUncertain) {
				t.Errorf("write: %v", err)
			}
			if err := f.Close(); !errors.Is(err, lwio.ErrStale) {
				t.Errorf("close: %v", err)
			}
			if got, err := os.ReadFile(filepath.Join(s.Dir, "f")); string(got) != "old" {
				t.Errorf("%q, %v", got, err)
			}
			put(t, c, "f", []byte("later"))
		})
	}
}

// The loss of a session is final if the server keeps no opens without a connection, or if the client is not to
// replace connections.
func TestLossOfSMBIsFinalWithoutPersistentHandles(t *testing.T) {
	for name, c := range map[string]struct {
		timeout   time.Duration
		reconnect time.Duration
	}{"server": {-1, faultPatience}, "client": {0, -1}} {
		t.Run(name, func(t *testing.T) {
			s := lwiotest.NewServer(t, &lwiotest.Config{SMBOnly: true, DurableTimeout: c.timeout})
			link := new(faultconn.Link)
			c := s.Client(&lwio.Config{DialContext: link.DialContext, ReconnectTimeout: c.reconnect})
			put(t, c, "f", []byte("x"))
			f := openRW(t, c)
			link.Cut()
			for range 2 {
				if err := f.Sync(t.Context()); !errors.Is(err, net.ErrClosed) {
					t.Error(err)
				}
			}
			if n := link.Dials(); n != 1 {
				t.Errorf("%d connections", n)
			}
		})
	}
}

// A call whose context ends when the connection is lost fails with the error of the context, not with the
// loss.
func TestGivenUpCallIsNoLoss(t *testing.T) {
	link, s := new(faultconn.Link), lwiotest.NewServer(t, nil)
	c := clientOn(s, link, lwio.Config{SMBOnly: true})
	put(t, c, "f", []byte("f"))
	f := openRW(t, c)
	for range 30 {
		ctx, cancel := context.WithCancel(t.Context())
		link.Judge(func(command uint16) faultconn.Fate {
			if command != smbLock {
				return faultconn.Pass
			}
			cancel()
			return faultconn.LoseRequest
		})
		if err := f.TryLock(ctx, lwio.Range{Off: 1, Len: 1}, lwio.LockShared); !errors.Is(err, context.Canceled) || errors.Is(err, net.ErrClosed) {
			t.Errorf("the error of a call that was given up: %v", err)
		}
		link.Judge(func(uint16) faultconn.Fate { return faultconn.Pass })
		must(t, f.Sync(t.Context()))
	}
}
