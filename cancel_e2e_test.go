package lwio_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"lwio"
	"lwio/lwiotest"
	"lwio/server"
	"lwio/vfs"
	"lwio/vfs/posix"
)

// slowDisk is a directory of which nothing is in the cache, and whose reads wait until
// it is let go.
type slowDisk struct {
	vfs.Backend
	reading chan struct{} // gets one for each read that begins
	letGo   chan struct{}
}

type slowFile struct {
	vfs.Handle
	d *slowDisk
}

func (d *slowDisk) Open(path string, how vfs.HandleMode) (vfs.Handle, error) {
	h, err := d.Backend.Open(path, how)
	if err != nil {
		return nil, err
	}
	return &slowFile{h, d}, nil
}

func (f *slowFile) File() *os.File { return nil }

func (f *slowFile) ReadCached([]byte, int64) (int, bool, error) { return 0, false, nil }

func (f *slowFile) ReadAt(p []byte, off int64) (int, error) {
	f.d.reading <- struct{}{}
	<-f.d.letGo
	return f.Handle.ReadAt(p, off)
}

// Reads that are given up before the server has begun with them are not done, and their
// memory is never written: the connection lives on.
//
// Source: [LWIO §Cancel], [OP-94b], [OP-94c], [OP-113]
func TestCancelledReadsAreNotDone(t *testing.T) {
	for _, via := range transports() {
		if via.cfg.SMBOnly {
			continue
		}
		t.Run(via.name, func(t *testing.T) { testCancelledReads(t, via.cfg) })
	}
}

func testCancelledReads(t *testing.T, cfg lwio.Config) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f"), random(100_000, 1), 0o644); err != nil {
		t.Fatal(err)
	}
	disk, err := posix.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	d := &slowDisk{disk, make(chan struct{}, 64), make(chan struct{})}
	s := lwiotest.NewServer(t, &lwiotest.Config{Backend: d, Providers: lwio.DefaultProviders(), Limits: server.Limits{Workers: 1}})
	c := s.Client(&cfg)
	letGo := sync.OnceFunc(func() { close(d.letGo) })
	open := func() *lwio.File {
		f, err := c.Open(t.Context(), "f")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	f, g := open(), open()
	t.Cleanup(letGo) // else nothing ends
	var calls sync.WaitGroup
	calls.Go(func() {
		if _, err := g.ReadAt(make([]byte, 10), 0); err != nil {
			t.Error(err)
		}
	})
	<-d.reading // the only worker of the file is busy
	const queued = 8
	ctx, cancel := context.WithCancel(t.Context())
	for range queued {
		calls.Go(func() {
			if _, err := f.ReadAtContext(ctx, make([]byte, 5000), 0); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
	eventually(t, func() bool { return s.Server.Stats().ReadQueue == queued })
	cancel()
	eventually(t, func() bool { return s.Server.Stats().Cancelled == queued })
	letGo()
	calls.Wait()
	if n := len(d.reading); n != 0 {
		t.Errorf("%d reads were done after their calls had ended", n)
	}
	if n, err := f.ReadAt(make([]byte, 5000), 0); n != 5000 || err != nil {
		t.Error(n, err)
	}
	if st := c.Stats(); st.Lost != 0 || st.Cancels == 0 {
		t.Errorf("%+v", st)
	}
}

func eventually(t *testing.T, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not come to that")
		}
	}
}

// Calls that give up at any moment, beside others on the same files that do not, cost
// the others nothing: each other call has its bytes, and in the end all credits are back.
//
// Source: [LWIO §Cancel], [OP-66], [OP-94a], [OP-113]
func TestCancelAtAnyMoment(t *testing.T) {
	for _, via := range transports() {
		if via.cfg.SMBOnly {
			continue
		}
		t.Run(via.name, func(t *testing.T) { testCancelAtAnyMoment(t, via.cfg) })
	}
}

func testCancelAtAnyMoment(t *testing.T, cfg lwio.Config) {
	s := lwiotest.NewServer(t, &lwiotest.Config{Limits: server.Limits{Credits: 8, MaxCredits: 8}})
	c := s.Client(&cfg)
	const size = 1 << 20
	want := random(size, 9)
	var files []*lwio.File
	for _, name := range []string{"f", "g"} {
		put(t, c, name, want)
		f, err := c.OpenFile(t.Context(), name, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files = append(files, f)
	}
	var calls sync.WaitGroup
	for i := range 12 {
		calls.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 3))
			p := make([]byte, 1000)
			for range 150 {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.IntN(300))*time.Microsecond)
				f, off := files[r.IntN(2)], r.IntN(size-len(p))
				do := f.ReadAtContext
				if r.IntN(4) == 0 {
					copy(p, want[off:])
					do = f.WriteAtContext // of the same bytes
				}
				switch n, err := do(ctx, p, int64(off)); {
				case err == nil && (n != len(p) || !bytes.Equal(p, want[off:][:n])):
					t.Errorf("%d bytes at %d differ", n, off)
				case err != nil && !errors.Is(err, context.DeadlineExceeded):
					t.Error(err)
				}
				cancel()
			}
		})
	}
	for i := range 2 {
		calls.Go(func() {
			p := make([]byte, 900)
			for off := 0; off < size-len(p); off += 9000 {
				if n, err := files[i].ReadAt(p, int64(off)); n != len(p) || err != nil || !bytes.Equal(p, want[off:][:n]) {
					t.Errorf("%d bytes at %d, %v", n, off, err)
				}
			}
		})
	}
	calls.Wait()
	eventually(t, func() bool { return c.Stats().InFlight == 0 && s.Server.Connections()[0].Pending == 0 })
	t.Logf("%d cancels, %d cancelled", c.Stats().Cancels, s.Server.Stats().Cancelled)
	if st := c.Stats(); st.Lost != 0 || st.Credits != 8 {
		t.Errorf("%+v", st)
	}
	for _, f := range files { // all credits at once
		p := make([]byte, size)
		if n, err := f.ReadAt(p, 0); n != size || err != nil || !bytes.Equal(p, want) {
			t.Errorf("%d bytes, %v", n, err)
		}
	}
}
