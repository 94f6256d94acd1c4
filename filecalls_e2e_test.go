package lwio_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"lwio"
	"lwio/lwiotest"
	"lwio/rdma"
	"lwio/rdma/rdmatest/fault"
)

// Locks, syncs and descriptions of an open file go over RDMA once the file is used there, with the results that SMB has.
//
// Source: [OP-116]
func TestFileCallsOverEachTransport(t *testing.T) {
	twoOnEachTransport(t, func(t *testing.T, a, b *lwio.File, ca *lwio.Client) {
		ctx := t.Context()
		if _, err := a.ReadAt(make([]byte, 10), 0); err != nil {
			t.Fatal(err)
		}
		before := ca.Stats().FileCalls
		r := lwio.Range{Off: 100, Len: 10}
		must(t, a.Lock(ctx, r, lwio.LockExclusive))
		if err := b.TryLock(ctx, r, lwio.LockShared); !errors.Is(err, lwio.ErrLocked) {
			t.Errorf("a second lock: %v", err)
		}
		must(t, errors.Join(a.TryLock(ctx, r, lwio.LockShared), a.Unlock(ctx, r), a.Unlock(ctx, r)))
		must(t, b.TryLock(ctx, r, lwio.LockExclusive))
		if err := a.TryLock(ctx, r, lwio.LockShared); !errors.Is(err, lwio.ErrLocked) {
			t.Errorf("a lock of a locked range: %v", err)
		}
		waiting, stop := context.WithCancel(ctx)
		asked := ca.Stats().FileCalls
		waited := make(chan error, 1)
		go func() { waited <- a.Lock(waiting, r, lwio.LockExclusive) }()
		if ca.Transport().RDMA() {
			waitUntil(t, func() bool { return ca.Stats().FileCalls > asked }) // and then it waits over SMB
		}
		stop()
		if err := <-waited; !errors.Is(err, context.Canceled) {
			t.Errorf("a lock of a locked range does not wait: %v", err)
		}
		if err := a.TryLock(ctx, r, lwio.LockExclusive); !errors.Is(err, lwio.ErrLocked) || !errors.Is(err, syscall.EAGAIN) {
			t.Errorf("a lock of a locked range: %v", err)
		}
		must(t, b.Unlock(ctx, r))
		if _, err := a.WriteAt([]byte("written"), 50); err != nil {
			t.Fatal(err)
		}
		must(t, errors.Join(a.Sync(ctx), a.Truncate(ctx, 1234)))
		got, err := a.Stat(ctx)
		if err != nil {
			t.Fatal(err)
		}
		want, err := ca.Stat(ctx, "f") // over SMB
		if err != nil {
			t.Fatal(err)
		}
		g, w := got.Sys().(*lwio.SMBInfo), want.Sys().(*lwio.SMBInfo)
		if got.Size() != 1234 || got.Size() != want.Size() || !got.ModTime().Equal(want.ModTime()) || got.Mode() != want.Mode() ||
			got.Name() != want.Name() || g.Attributes != w.Attributes || g.ID != w.ID || g.AllocationSize != w.AllocationSize ||
			!g.Created.Equal(w.Created) || !g.Changed.Equal(w.Changed) {
			t.Errorf("%+v %+v; SMB: %+v %+v", got, g, want, w)
		}
		over := uint64(9) // each call above, the lock before its wait over SMB too
		if !ca.Transport().RDMA() {
			over = 0
		}
		if n := ca.Stats().FileCalls - before; n != over {
			t.Errorf("%d calls over RDMA, want %d", n, over)
		}
	})
}

// A client that copies no small reads has memory for the description of a file.
//
// Source: [OP-116]
func TestFileCallsOfClientWithoutSmallReads(t *testing.T) {
	for _, p := range lwio.DefaultProviders() {
		t.Run(p.Name(), func(t *testing.T) {
			s := lwiotest.NewServer(t, nil)
			must(t, os.WriteFile(filepath.Join(s.Dir, "f"), random(1000, 1), 0o600))
			f := openRW(t, s.Client(&lwio.Config{RequireRDMA: true, Providers: []rdma.Provider{p}, CopyThreshold: 1}))
			if _, err := f.ReadAt(make([]byte, 10), 0); err != nil {
				t.Fatal(err)
			}
			for range 5 {
				if info, err := f.Stat(t.Context()); err != nil || info.Size() != 1000 {
					t.Fatalf("%v, %v", info, err)
				}
			}
		})
	}
}

// A connection that is cut at any operation, on either side, costs no call, and each is done once: shared locks are
// counted, and a lock too many or too few is seen at the end.
//
// Source: [OP-112], [OP-116], [MS-SMB2 3.3.5.14]
func TestFileCallsAreDoneOnceThroughCuts(t *testing.T) {
	onEachFabric(t, func(t *testing.T, wrap func(*fault.Config) (client, server rdma.Provider)) {
		var operations atomic.Uint64
		callsThrough(t, wrap, func(a fault.Attempt) fault.Action {
			operations.Store(a.N)
			return fault.Pass()
		})
		total, step := operations.Load(), uint64(1)
		if testing.Short() || raceEnabled {
			step = 1 + total/8
		}
		for n := uint64(1); n <= total && !t.Failed(); n += step {
			callsThrough(t, wrap, func(a fault.Attempt) fault.Action {
				if a.Pair == 1 && a.N == n {
					return fault.Cut()
				}
				return fault.Pass()
			})
			if t.Failed() {
				t.Fatalf("the connection was cut at operation %d of %d", n, total)
			}
		}
	})
}

// callsThrough makes file calls while faults happen to the connections.
func callsThrough(t *testing.T, wrap func(*fault.Config) (client, server rdma.Provider), faults func(fault.Attempt) fault.Action) {
	t.Helper()
	client, server := wrap(&fault.Config{Fault: faults})
	s := lwiotest.NewServer(t, &lwiotest.Config{Providers: []rdma.Provider{server}})
	must(t, os.WriteFile(filepath.Join(s.Dir, "f"), random(1000, 1), 0o600))
	c := s.Client(&lwio.Config{Providers: []rdma.Provider{client}, ReconnectTimeout: faultPatience})
	f := openRW(t, c)
	ctx, r := t.Context(), lwio.Range{Off: 10, Len: 10}
	if _, err := f.ReadAt(make([]byte, 10), 0); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		must(t, errors.Join(f.Lock(ctx, r, lwio.LockShared), f.Truncate(ctx, int64(500+i)), f.Sync(ctx)))
		if info, err := f.Stat(ctx); err != nil || info.Size() != int64(500+i) {
			t.Errorf("%v, %v", info, err)
		}
	}
	other := openRW(t, s.Client(&lwio.Config{SMBOnly: true}))
	for range 3 {
		if err := other.TryLock(ctx, r, lwio.LockExclusive); !errors.Is(err, lwio.ErrLocked) {
			t.Errorf("a lock is missing: %v", err)
		}
		must(t, f.Unlock(ctx, r))
	}
	must(t, other.TryLock(ctx, r, lwio.LockExclusive))
	must(t, errors.Join(other.Close(), f.Close(), c.Close()))
}

// Locks that are given up, at any moment and on connections that are cut, are not left behind.
//
// Source: [OP-116]
func TestGivenUpLocksAreNotLeftBehind(t *testing.T) {
	onEachFabric(t, func(t *testing.T, wrap func(*fault.Config) (client, server rdma.Provider)) {
		chances := fault.Random(1, fault.Chances{Cut: 0.01})
		client, server := wrap(&fault.Config{Fault: func(a fault.Attempt) fault.Action {
			if a.Pair == 1 && a.N < 20 {
				return fault.Pass()
			}
			return chances(a)
		}})
		s := lwiotest.NewServer(t, &lwiotest.Config{Providers: []rdma.Provider{server}})
		must(t, os.WriteFile(filepath.Join(s.Dir, "f"), random(1000, 1), 0o600))
		f := openRW(t, s.Client(&lwio.Config{Providers: []rdma.Provider{client}, ReconnectTimeout: faultPatience}))
		if _, err := f.ReadAt(make([]byte, 10), 0); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for g := range 4 {
			wg.Go(func() {
				chance := rand.New(rand.NewPCG(uint64(g), 1))
				r := lwio.Range{Off: uint64(10 * g), Len: 10}
				for range 50 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(chance.IntN(300))*time.Microsecond)
					err := f.Lock(ctx, r, lwio.LockExclusive)
					cancel()
					if err != nil {
						continue
					}
					if err := f.Unlock(t.Context(), r); err != nil {
						t.Errorf("unlock: %v", err)
					}
				}
			})
		}
		wg.Wait()
		all := lwio.Range{Len: 100}
		other := openRW(t, s.Client(&lwio.Config{SMBOnly: true}))
		eventually(t, func() bool { return other.TryLock(t.Context(), all, lwio.LockExclusive) == nil })
		must(t, other.Unlock(t.Context(), all))
		must(t, errors.Join(f.Lock(t.Context(), all, lwio.LockExclusive), f.Unlock(t.Context(), all)))
	})
}
