package lwio_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"lwio"
	"lwio/internal/test/leakcheck"
	"lwio/lwiotest"
	"lwio/rdma"
	"lwio/rdma/rdmatest/fault"
)

// faultPatience is how long a call may take that meets a fault; without one it takes
// milliseconds.
const faultPatience = time.Minute

// dirtyPatience is how long a call may take if a fault may have corrupted its answer, so
// that the answer matches no call.
const dirtyPatience = 200 * time.Millisecond

// onEachFabric runs a test once for each default provider, and for each side that a
// hook is put around. wrap returns the providers of client and server.
func onEachFabric(t *testing.T, run func(t *testing.T, wrap func(*fault.Config) (client, server rdma.Provider))) {
	for i, p := range lwio.DefaultProviders() {
		for _, side := range []string{"client", "server"} {
			t.Run(p.Name()+"/"+side, func(t *testing.T) {
				run(t, func(cfg *fault.Config) (client, server rdma.Provider) {
					client, server = lwio.DefaultProviders()[i], lwio.DefaultProviders()[i]
					if side == "client" {
						return fault.Wrap(client, cfg), server
					}
					return client, fault.Wrap(server, cfg)
				})
			})
		}
	}
}

// session makes calls and checks their results: an error in time, or the right
// data.
type session struct {
	t      *testing.T
	dir    string
	dirty  bool // anything may come wrong, or not at all
	failed int  // calls
}

// call makes one call, and tells whether it succeeded.
func (s *session) call(what string, f func(ctx context.Context) error) bool {
	s.t.Helper()
	patience := faultPatience
	if s.dirty {
		patience = dirtyPatience
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := f(ctx)
	if errors.Is(err, context.DeadlineExceeded) && !s.dirty {
		s.t.Errorf("%s: does not end: %v", what, err)
	}
	if err != nil {
		s.failed++
	}
	return err == nil
}

// play connects and writes and reads a file, in pieces of many sizes.
func (s *session) play(url string, cfg *lwio.Config) {
	t := s.t
	var c *lwio.Client
	if !s.call("dial", func(ctx context.Context) (err error) { c, err = lwio.Dial(ctx, url, cfg); return err }) {
		return
	}
	defer func() {
		s.call("close", func(context.Context) error { return c.Close() })
	}()
	var f *lwio.File
	if !s.call("create", func(ctx context.Context) (err error) { f, err = c.Create(ctx, "file"); return err }) {
		return
	}
	content := random(300_000, 7)
	written := make(map[int]int) // acknowledged writes: offset and length
	for off, n := 0, 1; off < len(content); off, n = off+n, min(3*n, len(content)-off-n) {
		if s.call("write", func(ctx context.Context) error {
			_, err := f.WriteAtContext(ctx, content[off:off+n], int64(off))
			return err
		}) {
			written[off] = n
		}
		if n == 0 {
			break
		}
	}
	for off, n := range written {
		got := make([]byte, n)
		if s.call("read", func(ctx context.Context) error {
			_, err := f.ReadAtContext(ctx, got, int64(off))
			return err
		}) && !s.dirty && !bytes.Equal(got, content[off:off+n]) {
			t.Errorf("%d bytes at %d are read wrong", n, off)
		}
	}
	s.call("sync", f.Sync)
	s.call("close file", func(context.Context) error { return f.Close() })
	onDisk, err := os.ReadFile(filepath.Join(s.dir, "file"))
	if err != nil {
		t.Fatal(err)
	}
	for off, n := range written {
		if !s.dirty && (off+n > len(onDisk) || !bytes.Equal(onDisk[off:off+n], content[off:off+n])) {
			t.Errorf("%d bytes at %d were acknowledged, and are not in the file", n, off)
		}
	}
}

// meet plays one session with a fault function on one side, which spoils the data if
// dirty is set. It returns how many calls failed.
func meet(t *testing.T, dirty bool, decide func(fault.Attempt) fault.Action, wrap func(*fault.Config) (client, server rdma.Provider)) int {
	before := leakcheck.Take()
	client, server := wrap(&fault.Config{Fault: decide})
	srv, err := lwiotest.Start(&lwiotest.Config{Providers: []rdma.Provider{server}})
	if err != nil {
		t.Fatal(err)
	}
	s := &session{t: t, dir: srv.Dir, dirty: dirty}
	s.play(srv.URL(), &lwio.Config{Providers: []rdma.Provider{client}, RequireRDMA: true})
	if err := srv.Close(); err != nil {
		t.Errorf("close the server: %v", err)
	}
	if err := before.Err(); err != nil {
		t.Errorf("leak: %v", err)
	}
	return s.failed
}

// TestCutAtEveryOperation cuts the first connection at each of its operations in
// turn, on either side: every call ends with an error or with the right data, the
// acknowledged bytes are in the file, and nothing is left behind.
//
// Source: [LWIO §Close], [OP-92i]
func TestCutAtEveryOperation(t *testing.T) {
	onEachFabric(t, func(t *testing.T, wrap func(*fault.Config) (client, server rdma.Provider)) {
		var operations atomic.Uint64
		if failed := meet(t, false, func(a fault.Attempt) fault.Action {
			operations.Store(a.N)
			return fault.Pass()
		}, wrap); failed != 0 {
			t.Fatalf("%d calls fail without a fault", failed)
		}
		total, step := operations.Load(), uint64(1)
		if testing.Short() || raceEnabled {
			step = 1 + total/10
		}
		for n := uint64(1); n <= total; n += step {
			var cuts atomic.Uint64
			meet(t, false, func(a fault.Attempt) fault.Action {
				if a.Pair == 1 && a.N == n {
					cuts.Add(1)
					return fault.Cut()
				}
				return fault.Pass()
			}, wrap)
			if n < total/2 && cuts.Load() == 0 { // credits and the like vary the number a little
				t.Errorf("operation %d of %d is not reached", n, total)
			}
			if t.Failed() {
				t.Fatalf("the connection was cut at operation %d of %d", n, total)
			}
		}
	})
}

// TestFaultsFromSeed throws delays, failures and cuts at whole sessions, and then
// flips bits anywhere, as a peer can that obeys nothing.
func TestFaultsFromSeed(t *testing.T) {
	seeds := uint64(12)
	if testing.Short() || raceEnabled {
		seeds = 3
	}
	onEachFabric(t, func(t *testing.T, wrap func(*fault.Config) (client, server rdma.Provider)) {
		for seed := range seeds {
			meet(t, false, fault.Random(seed, fault.Chances{Cut: 0.02, Fail: 0.02, Delay: 0.2}), wrap)
			if seed < 3 {
				meet(t, true, fault.Random(seed, fault.Chances{Flip: 0.2}), wrap)
			}
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
	})
}

// TestFilesWorkInAnyCompletionOrder: nothing depends on an order that the rules do not give.
//
// Source: [ND QueuePair §Ordering]
func TestFilesWorkInAnyCompletionOrder(t *testing.T) {
	onEachFabric(t, func(t *testing.T, wrap func(*fault.Config) (client, server rdma.Provider)) {
		for seed := uint64(1); seed <= 3; seed++ {
			client, server := wrap(&fault.Config{Shuffle: seed})
			srv := lwiotest.NewServer(t, &lwiotest.Config{Providers: []rdma.Provider{server}})
			s := &session{t: t, dir: srv.Dir}
			// Status blocks need data in order, so that there are none here. [OP-88]
			s.play(srv.URL(), &lwio.Config{Providers: []rdma.Provider{client}, RequireRDMA: true, Completion: lwio.Interrupt})
			if s.failed != 0 {
				t.Errorf("seed %d: %d calls fail", seed, s.failed)
			}
		}
	})
}
