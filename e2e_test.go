package lwio_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"lwio"
	"lwio/lwiotest"
	"lwio/rdma"
)

// transportCase is a transport and its completion mode.
type transportCase struct {
	name string
	cfg  lwio.Config
}

// transports lists every transport with every completion mode.
func transports() []transportCase {
	all := []transportCase{{"smb", lwio.Config{SMBOnly: true}}}
	for _, p := range lwio.DefaultProviders() {
		for m := lwio.Adaptive; m <= lwio.Interrupt; m++ {
			cfg := lwio.Config{RequireRDMA: true, Providers: []rdma.Provider{p}, Completion: m}
			all = append(all, transportCase{p.Name() + "/" + m.String(), cfg})
		}
		if p.Name() == "iwarp" {
			cfg := lwio.Config{RequireRDMA: true, Providers: []rdma.Provider{p}, RequireEncryption: true}
			all = append(all, transportCase{p.Name() + "/sealed", cfg})
		}
	}
	return all
}

// onEachTransport runs a test against a server of its own, once for each of transports.
func onEachTransport(t *testing.T, run func(t *testing.T, s *lwiotest.Server, c *lwio.Client)) {
	onEachTransportFor(t, 0, run)
}

// onEachTransportFor is onEachTransport for clients whose calls wait that long for another connection; 0 is
// the default.
func onEachTransportFor(t *testing.T, reconnect time.Duration, run func(t *testing.T, s *lwiotest.Server, c *lwio.Client)) {
	for _, via := range transports() {
		via.cfg.ReconnectTimeout = reconnect
		t.Run(via.name, func(t *testing.T) {
			s := lwiotest.NewServer(t, nil)
			c := s.Client(&via.cfg)
			if got := c.Transport(); !strings.HasPrefix(via.name, got.Name) {
				t.Fatalf("transport %v", got)
			}
			run(t, s, c)
		})
	}
}

func random(n int, seed byte) []byte {
	p := make([]byte, n)
	rand.NewChaCha8([32]byte{seed}).Read(p)
	return p
}

func put(t *testing.T, c *lwio.Client, name string, data []byte) {
	t.Helper()
	f, err := c.Create(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := f.WriteAt(data, 0); n != len(data) || err != nil {
		t.Fatal(n, err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestFS(t *testing.T) {
	onEachTransport(t, func(t *testing.T, s *lwiotest.Server, c *lwio.Client) {
		var want []string
		for i, name := range []string{"a", "b c", "ä😀", "dir/x", "dir/sub/y", "dir/sub/z.", "empty", "big"} {
			full := filepath.Join(s.Dir, name)
			if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
				t.Fatal(err)
			}
			size := 100 * i
			switch name {
			case "big":
				size = 9000 // fstest reads it byte by byte, several times
			case "empty":
				size = 0
			}
			if err := os.WriteFile(full, random(size, byte(i)), 0o644); err != nil {
				t.Fatal(err)
			}
			want = append(want, name)
		}
		if err := os.Mkdir(filepath.Join(s.Dir, "emptydir"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := fstest.TestFS(c.FS(t.Context()), append(want, "emptydir")...); err != nil {
			t.Fatal(err)
		}
		for _, name := range want {
			local, err := os.ReadFile(filepath.Join(s.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if remote, err := fs.ReadFile(c.FS(t.Context()), name); err != nil || !bytes.Equal(remote, local) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestPathCallsAndTheirErrors(t *testing.T) {
	onEachTransport(t, func(t *testing.T, s *lwiotest.Server, c *lwio.Client) {
		ctx := t.Context()
		check := func(what string, err, want error) {
			t.Helper()
			if want == nil && err != nil || !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", what, err, want)
			}
			var e *lwio.Error
			if err != nil && !errors.As(err, &e) {
				t.Errorf("%s: %T", what, err)
			}
		}
		_, err := c.Open(ctx, "missing")
		check("open a missing file", err, fs.ErrNotExist)
		if err == nil || !strings.HasPrefix(err.Error(), "lwio: open missing: no such file") {
			t.Error(err)
		}
		_, err = c.Open(ctx, "missing/file")
		check("open in a missing directory", err, fs.ErrNotExist)
		check("mkdir", c.Mkdir(ctx, "d", 0o755), nil)
		check("mkdir twice", c.Mkdir(ctx, "d", 0o755), fs.ErrExist)
		_, err = c.Open(ctx, "d")
		check("open a directory", err, syscall.EISDIR)
		put(t, c, "d/f", []byte("one"))
		put(t, c, "d/g", []byte("three"))
		_, err = c.OpenFile(ctx, "d/f", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		check("create twice", err, fs.ErrExist)
		check("remove a full directory", c.Remove(ctx, "d"), syscall.ENOTEMPTY)
		check("rename over a file", c.Rename(ctx, "d/f", "d/g"), nil)
		_, err = c.Stat(ctx, "d/f")
		check("stat the old name", err, fs.ErrNotExist)
		info, err := c.Stat(ctx, "d/g")
		check("stat", err, nil)
		if info.Size() != 3 || info.IsDir() || info.Name() != "g" {
			t.Errorf("%v", info)
		}
		if sys, ok := info.Sys().(*lwio.SMBInfo); !ok || sys.Created.IsZero() {
			t.Errorf("%+v", info.Sys())
		}
		if info, err := c.Stat(ctx, "."); err != nil || !info.IsDir() || info.Name() != "." {
			t.Errorf("%v, %v", info, err)
		}
		if info, err := c.Stat(ctx, "d/"); err != nil || !info.IsDir() || info.Name() != "d" {
			t.Errorf("%v, %v", info, err)
		}
		list, err := c.ReadDir(ctx, "d")
		check("readdir", err, nil)
		if len(list) != 1 || list[0].Name() != "g" {
			t.Errorf("%v", list)
		}
		_, err = c.ReadDir(ctx, "d/g")
		check("readdir of a file", err, syscall.ENOTDIR)
		check("remove", c.Remove(ctx, "d/g"), nil)
		check("remove twice", c.Remove(ctx, "d/g"), fs.ErrNotExist)
		check("remove an empty directory", c.Remove(ctx, "d"), nil)
		if c.Remove(ctx, ".") == nil || c.Rename(ctx, ".", "x") == nil || c.Rename(ctx, "x", "") == nil {
			t.Error("the root was removed or renamed")
		}
		for _, name := range []string{`a\b`, "a:b", "a*", "a?", "../a", "/a", "a\x01", "a\xff"} {
			_, err := c.Create(ctx, name)
			check("create "+name, err, fs.ErrInvalid)
		}
		_, err = c.OpenFile(ctx, "f", os.O_APPEND|os.O_WRONLY, 0)
		check("append", err, errors.ErrUnsupported)
		if left, err := os.ReadDir(s.Dir); err != nil || len(left) != 0 {
			t.Errorf("left at the server: %v, %v", left, err)
		}
	})
}

func TestFileReadsBackWrittenBytes(t *testing.T) {
	onEachTransport(t, func(t *testing.T, s *lwiotest.Server, c *lwio.Client) {
		ctx := t.Context()
		f, err := c.Create(ctx, "f")
		if err != nil {
			t.Fatal(err)
		}
		want := random(5<<20+123, 1)
		if n, err := f.WriteAt(want, 0); n != len(want) || err != nil {
			t.Fatal(n, err)
		}
		if err := f.Sync(ctx); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(s.Dir, "f")); err != nil || !bytes.Equal(got, want) {
			t.Fatal("wrong bytes at the server", err)
		}
		again, err := c.Open(ctx, "f")
		if err != nil {
			t.Fatal(err)
		}
		if fi := again.OpenInfo(); fi.Name() != "f" || fi.Size() != int64(len(want)) || fi.IsDir() {
			t.Error("the open found", fi)
		}
		if err := again.Close(); err != nil {
			t.Error(err)
		}
		got := make([]byte, len(want)+1)
		if n, err := f.ReadAt(got, 0); n != len(want) || err != io.EOF { //nolint:errorlint // the contract says bare
			t.Fatal(n, err)
		}
		if !bytes.Equal(got[:len(want)], want) {
			t.Fatal("wrong bytes")
		}
		if tr := f.Transport(); tr.Name != c.Transport().Name {
			t.Errorf("the file goes over %v", tr)
		}
		if err := f.Truncate(ctx, 10); err != nil {
			t.Fatal(err)
		}
		if info, err := f.Stat(ctx); err != nil || info.Size() != 10 || info.Name() != "f" {
			t.Errorf("%v, %v", info, err)
		}
		if n, err := f.ReadAt(got[:20], 5); n != 5 || err != io.EOF { //nolint:errorlint // the contract says bare
			t.Errorf("%d, %v", n, err)
		}
		if err := f.Truncate(ctx, -1); !errors.Is(err, fs.ErrInvalid) {
			t.Error(err)
		}
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		if _, err := f.ReadAtContext(ctx, got[:10], 0); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		for what, err := range map[string]error{
			"close": f.Close(), "sync": f.Sync(t.Context()), "truncate": f.Truncate(t.Context(), 1),
			"read": second(f.ReadAt(got[:1], 0)), "write": second(f.WriteAt(got[:1], 0)),
		} {
			if !errors.Is(err, fs.ErrClosed) {
				t.Errorf("%s after close: %v", what, err)
			}
		}
		st := c.Stats()
		used, unused := st.RDMA, st.SMB
		if !c.Transport().RDMA() {
			used, unused = unused, used
		}
		if used.WrittenBytes != uint64(len(want)) || used.ReadBytes != uint64(len(want)+5) || unused != (lwio.Traffic{}) {
			t.Errorf("stats %+v", st)
		}
	})
}

func second(_ int, err error) error { return err }

// The refusal of a read-only share comes back as fs.ErrPermission.
func TestReadOnlyShareRefusesChanges(t *testing.T) {
	for _, via := range transports() {
		t.Run(via.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "f"), []byte("hello"), 0o644); err != nil {
				t.Fatal(err)
			}
			s := lwiotest.NewServer(t, &lwiotest.Config{Dir: dir, ReadOnly: true})
			c := s.Client(&via.cfg)
			if _, err := c.Create(t.Context(), "g"); !errors.Is(err, fs.ErrPermission) {
				t.Error(err)
			}
			if err := c.Remove(t.Context(), "f"); !errors.Is(err, fs.ErrPermission) {
				t.Error(err)
			}
			f, err := c.Open(t.Context(), "f")
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.WriteAt([]byte("x"), 0); !errors.Is(err, fs.ErrPermission) || errors.Is(err, lwio.ErrUncertain) {
				t.Error(err)
			}
			p := make([]byte, 5)
			if _, err := f.ReadAt(p, 0); err != nil || string(p) != "hello" {
				t.Error(err)
			}
		})
	}
}

func TestConcurrentCallersReadTheirOwnBytes(t *testing.T) {
	onEachTransport(t, func(t *testing.T, _ *lwiotest.Server, c *lwio.Client) {
		const callers, region = 16, 100_000
		shared, err := c.Create(t.Context(), "shared")
		if err != nil {
			t.Fatal(err)
		}
		defer shared.Close()
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				own, err := c.Create(t.Context(), fmt.Sprintf("own%d", i))
				if err != nil {
					t.Error(err)
					return
				}
				defer own.Close()
				r := rand.New(rand.NewPCG(1, uint64(i)))
				for round := range 10 {
					data := random(1+r.IntN(region), byte(i*16+round))
					got := make([]byte, len(data))
					for f, off := range map[*lwio.File]int64{shared: int64(i * region), own: 0} {
						if _, err := f.WriteAt(data, off); err != nil {
							t.Error(err)
						}
						if _, err := f.ReadAt(got, off); err != nil || !bytes.Equal(got, data) {
							t.Errorf("caller %d: %v", i, err)
						}
					}
				}
			})
		}
		wg.Wait()
	})
}

func TestFallsBackToSMBUnlessRDMARequired(t *testing.T) {
	s := lwiotest.NewServer(t, &lwiotest.Config{SMBOnly: true})
	c := s.Client(nil)
	if tr := c.Transport(); tr.Name != lwio.TransportSMB || tr.Reason == "" {
		t.Errorf("transport %v", tr)
	}
	put(t, c, "f", []byte("hello"))
	best := lwio.DefaultProviders()[0].Name()
	for _, url := range []string{s.URL(), s.URL() + "?provider=iwarp", s.URL() + "?provider=" + best} {
		cfg := &lwio.Config{RequireRDMA: url == s.URL()}
		if _, err := lwio.Dial(t.Context(), url, cfg); !errors.Is(err, lwio.ErrNoRDMA) {
			t.Errorf("%v", err)
		}
	}

	s = lwiotest.NewServer(t, nil)
	for url, want := range map[string]string{
		s.URL(): best, s.URL() + "?provider=" + best: best, s.URL() + "?provider=iwarp": "iwarp", s.URL() + "?provider=smb": "smb",
	} {
		c, err := lwio.Dial(t.Context(), url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Transport().Name; got != want {
			t.Errorf("%s", c.Transport())
		}
		c.Close()
	}
	if _, err := lwio.Dial(t.Context(), s.URL()+"?provider=ib", nil); !errors.Is(err, lwio.ErrNoRDMA) {
		t.Error(err)
	}
	if _, err := lwio.Dial(t.Context(), s.URL(), &lwio.Config{Completion: 9}); !errors.Is(err, fs.ErrInvalid) {
		t.Error(err)
	}
}

func TestDialErrorsNameTheCause(t *testing.T) {
	s := lwiotest.NewServer(t, nil)
	if _, err := lwio.Dial(t.Context(), strings.Replace(s.URL(), s.Password(), "wrong", 1), nil); !errors.Is(err, fs.ErrPermission) ||
		!strings.Contains(err.Error(), "wrong user name or password") || strings.Contains(err.Error(), s.Password()) {
		t.Errorf("wrong password: %v", err)
	}
	if _, err := lwio.Dial(t.Context(), strings.Replace(s.URL(), "/share", "/other", 1), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("unknown share: %v", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "lwio://a:b@" + l.Addr().String() + "/share"
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := lwio.Dial(ctx, url, nil)
		done <- err
	}()
	silent, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("silent server: %v", err)
	}
	silent.Close()
	l.Close()
	if _, err := lwio.Dial(t.Context(), url, nil); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("no listener: %v", err)
	}
}

// Every call on a closed client names the closed client as the cause, not a closed file.
func TestClosedClient(t *testing.T) {
	onEachTransport(t, func(t *testing.T, _ *lwiotest.Server, c *lwio.Client) {
		put(t, c, "f", random(10, 1))
		f, err := c.Open(t.Context(), "f")
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(c.Close(), c.Close()); err != nil {
			t.Error(err)
		}
		_, open := c.Open(t.Context(), "f")
		_, stat := c.Stat(t.Context(), "f")
		_, list := c.ReadDir(t.Context(), "")
		for what, err := range map[string]error{
			"open": open, "stat": stat, "list": list, "mkdir": c.Mkdir(t.Context(), "d", 0), "read": second(f.ReadAt(make([]byte, 1), 0)),
		} {
			if !errors.Is(err, net.ErrClosed) || errors.Is(err, fs.ErrClosed) {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

// A request that the client itself refuses is not reported as a refusal of the server.
//
// Source: [OP-92c]
func TestRefusalByClientIsNotServerError(t *testing.T) {
	onEachTransport(t, func(t *testing.T, _ *lwiotest.Server, c *lwio.Client) {
		put(t, c, "f", random(10, 1))
		f, err := c.OpenFile(t.Context(), "f", os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		ctx, p := t.Context(), make([]byte, 8)
		b := c.NewBatch(1)
		defer b.Close()
		if err := b.ReadAt(f, p, -1, 0); err != nil {
			t.Fatal(err)
		}
		done, err := b.Wait(ctx, 1)
		if err != nil {
			t.Fatal(err)
		}
		for what, err := range map[string]error{
			"read": second(f.ReadAt(p, -1)), "write": second(f.WriteAt(p, -1)), "batch": done[0].Err,
			"read vec": second(f.ReadVec(ctx, [][]byte{p}, -1)), "write vec": second(f.WriteVec(ctx, [][]byte{p}, -1)),
			"read behind all": second(f.ReadAt(p, math.MaxInt64-7)), "write behind all": second(f.WriteAt(p, math.MaxInt64-7)),
			"truncate": f.Truncate(ctx, -1), "lock": f.Lock(ctx, lwio.Range{}, lwio.LockShared+1),
		} {
			var e *lwio.Error
			if !errors.Is(err, fs.ErrInvalid) || !errors.As(err, &e) || e.Remote || e.Status != 0 {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

// The server goes away in the middle of everything.
func TestCallsFailWhenServerIsGone(t *testing.T) {
	onEachTransportFor(t, time.Second, func(t *testing.T, s *lwiotest.Server, c *lwio.Client) {
		t.Parallel() // each waits for another connection
		put(t, c, "f", random(1<<20, 1))
		f, err := c.OpenFile(t.Context(), "f", os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		started := make(chan struct{})
		var once sync.Once
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				p := make([]byte, 100_000)
				for {
					_, err := f.ReadAt(p, 0)
					once.Do(func() { close(started) })
					if err != nil {
						if !errors.Is(err, net.ErrClosed) {
							t.Errorf("%v", err)
						}
						return
					}
				}
			})
		}
		<-started
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		wg.Wait()
		if _, err := f.WriteAt([]byte("x"), 0); !errors.Is(err, net.ErrClosed) && !errors.Is(err, lwio.ErrNoRDMA) {
			t.Errorf("write: %v", err)
		}
		if err := f.Close(); err == nil {
			t.Error("close said nothing")
		}
	})
}

// The text's own authentication, without the key of the session.
//
// Source: [LWIO §Connection Authentication], [OP-46b]
func TestMD5Only(t *testing.T) {
	s := lwiotest.NewServer(t, &lwiotest.Config{AllowMD5: true})
	c := s.Client(&lwio.Config{RequireRDMA: true})
	if !c.Transport().Keyed {
		t.Error("a server that allows MD5 no longer signs with the key")
	}
}

func TestReadDirOfManyFiles(t *testing.T) {
	s := lwiotest.NewServer(t, nil)
	var want []string
	for i := range 3000 {
		name := fmt.Sprintf("file with a long name so that the answer needs several messages %04d", i)
		if err := os.WriteFile(filepath.Join(s.Dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		want = append(want, name)
	}
	list, err := s.Client(nil).ReadDir(t.Context(), ".")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range list {
		got = append(got, e.Name())
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d names, want %d", len(got), len(want))
	}
}
