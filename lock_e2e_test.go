package lwio_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
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

// twoOnEachTransport runs a test with two clients that have one file open, once for each via.
func twoOnEachTransport(t *testing.T, run func(t *testing.T, a, b *lwio.File, ca *lwio.Client)) {
	for _, via := range transports() {
		t.Run(via.name, func(t *testing.T) {
			s := lwiotest.NewServer(t, nil)
			if err := os.WriteFile(filepath.Join(s.Dir, "f"), random(4<<20, 1), 0o600); err != nil {
				t.Fatal(err)
			}
			open := func() (*lwio.Client, *lwio.File) {
				c := s.Client(&via.cfg)
				return c, openRW(t, c)
			}
			ca, a := open()
			_, b := open()
			run(t, a, b, ca)
		})
	}
}

func openRW(t *testing.T, c *lwio.Client) *lwio.File {
	t.Helper()
	f, err := c.OpenFile(t.Context(), "f", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// blocks is a lock that cannot be had now: it is waited for, and given up.
func blocks(t *testing.T, f *lwio.File, r lwio.Range, mode lwio.LockMode) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := f.Lock(ctx, r, mode); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v of %v does not wait: %v", mode, r, err)
	}
	err := f.TryLock(t.Context(), r, mode)
	if !errors.Is(err, lwio.ErrLocked) || !errors.Is(err, syscall.EAGAIN) {
		t.Errorf("%v of %v: %v", mode, r, err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A range that one client has locked, another cannot read or write, by any call.
//
// Source: [MS-SMB2 3.3.5.14], [OP-115]
func TestLockedRangeRefusesOtherClient(t *testing.T) {
	twoOnEachTransport(t, func(t *testing.T, a, b *lwio.File, _ *lwio.Client) {
		ctx := t.Context()
		r := lwio.Range{Off: 2 << 20, Len: 1000}
		must(t, a.Lock(ctx, r, lwio.LockExclusive))
		small, large := make([]byte, 100), make([]byte, 2<<20)
		calls := func(f *lwio.File, off int64) map[string]error {
			_, read := f.ReadAt(small, off)
			_, readLarge := f.ReadAt(large, off-1<<20)
			_, readVec := f.ReadVec(ctx, [][]byte{large[:50], large[50:4096]}, off)
			_, write := f.WriteAt(small, off)
			_, writeLarge := f.WriteAt(large, off-1<<20)
			_, writeVec := f.WriteVec(ctx, [][]byte{small[:50], small[50:]}, off)
			return map[string]error{"read": read, "large read": readLarge, "vectored read": readVec,
				"write": write, "large write": writeLarge, "vectored write": writeVec}
		}
		for what, err := range calls(b, 2<<20+500) {
			if !errors.Is(err, lwio.ErrLocked) {
				t.Errorf("%s: %v", what, err)
			}
		}
		for what, err := range calls(a, 2<<20+500) {
			if err != nil {
				t.Errorf("%s of the owner: %v", what, err)
			}
		}
		if _, err := b.ReadAt(small, 2<<20-100); err != nil {
			t.Errorf("read beside it: %v", err)
		}
		if _, err := b.WriteAt(small, 2<<20+1000); err != nil {
			t.Errorf("write beside it: %v", err)
		}
		blocks(t, b, r, lwio.LockShared)
		must(t, a.Unlock(ctx, r))
		for what, err := range calls(b, 2<<20+500) {
			if err != nil {
				t.Errorf("%s of a free range: %v", what, err)
			}
		}
		// Shared: every client reads, no client writes.
		must(t, errors.Join(a.Lock(ctx, r, lwio.LockShared), b.Lock(ctx, r, lwio.LockShared)))
		blocks(t, b, r, lwio.LockExclusive)
		for _, f := range []*lwio.File{a, b} {
			if _, err := f.ReadAt(small, 2<<20); err != nil {
				t.Errorf("read: %v", err)
			}
			if _, err := f.WriteAt(small, 2<<20); !errors.Is(err, lwio.ErrLocked) {
				t.Errorf("write: %v", err)
			}
			must(t, f.Unlock(ctx, r))
		}
	})
}

// Waits for locks, and the causes that end them.
//
// Source: [MS-SMB2 3.3.5.14.2], [MS-SMB2 3.3.5.10]
func TestUnlockCloseAndSessionEndReleaseLock(t *testing.T) {
	twoOnEachTransport(t, func(t *testing.T, a, b *lwio.File, ca *lwio.Client) {
		ctx := t.Context()
		all := lwio.Range{Len: math.MaxUint64}
		waiter := func(f *lwio.File) chan error {
			done := make(chan error, 1)
			go func() { done <- f.Lock(ctx, all, lwio.LockExclusive) }()
			return done
		}
		for _, end := range []struct {
			name string
			do   func() error
		}{
			{"unlock", func() error { return a.Unlock(ctx, all) }},
			{"close", func() error { return a.Close() }},
			{"end of the session", func() error { return ca.Close() }},
		} {
			if end.name == "end of the session" {
				a = openRW(t, ca)
			}
			must(t, a.Lock(ctx, all, lwio.LockExclusive))
			blocks(t, b, lwio.Range{Off: 5}, lwio.LockExclusive)
			done := waiter(b)
			must(t, end.do())
			if err := <-done; err != nil {
				t.Errorf("after %s: %v", end.name, err)
			}
			must(t, b.Unlock(ctx, all))
		}
		for what, err := range map[string]error{
			"unlock no lock": b.Unlock(ctx, all),
			"too far":        b.Lock(ctx, lwio.Range{Off: 2, Len: math.MaxUint64}, lwio.LockShared),
			"no mode":        b.TryLock(ctx, all, lwio.LockShared+1),
		} {
			if !errors.Is(err, fs.ErrInvalid) || errors.Is(err, lwio.ErrLocked) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if err := a.Lock(ctx, all, lwio.LockShared); !errors.Is(err, net.ErrClosed) {
			t.Errorf("lock without a session: %v", err)
		}
		must(t, b.Lock(ctx, all, lwio.LockExclusive))
		done := waiter(b) // for itself
		blocks(t, b, all, lwio.LockExclusive)
		must(t, b.Close())
		if err := <-done; !errors.Is(err, fs.ErrClosed) {
			t.Errorf("lock of a file that was closed: %v", err)
		}
		if err := b.Unlock(ctx, all); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("unlock of a file that was closed: %v", err)
		}
	})
}

// Many clients, over all transports at once, count in a file that each locks: nothing
// that was written before Unlock is missed by the next client that locks.
//
// Source: [OP-115]
func TestLockedCounterLosesNoUpdate(t *testing.T) {
	s := lwiotest.NewServer(t, nil)
	if err := os.WriteFile(filepath.Join(s.Dir, "f"), make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	const turns = 20
	var wg sync.WaitGroup
	var clients uint64
	for _, via := range transports() {
		cfg := via.cfg
		if !cfg.SMBOnly {
			cfg.Connections = 2
		}
		f := openRW(t, s.Client(&cfg))
		clients++
		wg.Go(func() {
			if err := count(t.Context(), f, turns); err != nil {
				t.Errorf("%s: %v", via.name, err)
			}
		})
	}
	wg.Wait()
	got, err := os.ReadFile(filepath.Join(s.Dir, "f"))
	if err != nil {
		t.Fatal(err)
	}
	if n := binary.LittleEndian.Uint64(got); n != turns*clients {
		t.Errorf("counted %d, want %d", n, turns*clients)
	}
}

// count adds 1 to two numbers far apart, which must be equal. The second is written while
// the first may be under way.
func count(ctx context.Context, f *lwio.File, turns int) error {
	r := lwio.Range{Len: 1 << 20}
	const far = 1<<20 - 8
	for range turns {
		if err := f.Lock(ctx, r, lwio.LockExclusive); err != nil {
			return err
		}
		var p, q [8]byte
		_, err1 := f.ReadAt(p[:], 0)
		_, err2 := f.ReadAt(q[:], far)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		if p != q {
			return fmt.Errorf("%v and %v", p, q)
		}
		binary.LittleEndian.PutUint64(p[:], binary.LittleEndian.Uint64(p[:])+1)
		over := make(chan error)
		go func() {
			_, err := f.WriteAt(p[:], far)
			over <- err
		}()
		_, err := f.WriteAt(p[:], 0)
		if err := errors.Join(err, <-over, f.Unlock(ctx, r)); err != nil {
			return err
		}
	}
	return nil
}

// A lock is the SMB session's: it outlives RDMA connections.
//
// Source: [MS-SMB2 3.3.5.14], [OP-113]
func TestLockOutlivesConnection(t *testing.T) {
	for _, p := range lwio.DefaultProviders() {
		t.Run(p.Name(), func(t *testing.T) {
			s := lwiotest.NewServer(t, nil)
			if err := os.WriteFile(filepath.Join(s.Dir, "f"), random(1<<20, 1), 0o600); err != nil {
				t.Fatal(err)
			}
			var armed atomic.Bool
			cut := func(fault.Attempt) fault.Action {
				if armed.CompareAndSwap(true, false) {
					return fault.Cut()
				}
				return fault.Pass()
			}
			c := s.Client(&lwio.Config{RequireRDMA: true, Providers: []rdma.Provider{fault.Wrap(p, &fault.Config{Fault: cut})}})
			a, b := openRW(t, c), openRW(t, s.Client(&lwio.Config{RequireRDMA: true, Providers: []rdma.Provider{p}}))
			r := lwio.Range{Off: 100, Len: 1000}
			must(t, a.Lock(t.Context(), r, lwio.LockExclusive))
			armed.Store(true)
			if _, err := a.WriteAt([]byte("mine"), 100); err != nil {
				t.Fatal(err)
			}
			if st := c.Stats(); st.Reconnects == 0 || armed.Load() {
				t.Fatalf("nothing was cut: %+v", st)
			}
			if _, err := b.ReadAt(make([]byte, 10), 105); !errors.Is(err, lwio.ErrLocked) {
				t.Error(err)
			}
			blocks(t, b, r, lwio.LockShared)
			must(t, a.Unlock(t.Context(), r))
			got := make([]byte, 4)
			if _, err := b.ReadAt(got, 100); err != nil || string(got) != "mine" {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}
