package lwio_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lwio"
	"lwio/internal/test/skip"
	"lwio/lwiotest"
	"lwio/rdma"
	"lwio/rdma/rdmatest/fault"
	"lwio/server"
)

// sends counts the requests of each queue pair of a provider.
type sends struct {
	mu    sync.Mutex
	pairs map[uint64]int
}

func (s *sends) fault(a fault.Attempt) fault.Action {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pairs == nil {
		s.pairs = make(map[uint64]int)
	}
	s.pairs[a.Pair]++
	return fault.Pass()
}

// least is how many requests the idlest of n pairs made.
func (s *sends) least(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pairs) != n {
		return 0
	}
	least := 1 << 30
	for _, k := range s.pairs {
		least = min(least, k)
	}
	return least
}

// used is how many requests each pair made.
func (s *sends) used() map[uint64]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.pairs)
}

// One large read, and one large write, use all connections, and so do many small ones.
//
// Source: [OP-42b], [OP-109]
func TestAllConnectionsWork(t *testing.T) {
	for _, p := range lwio.DefaultProviders() {
		t.Run(p.Name(), func(t *testing.T) {
			const conns = 3
			s := lwiotest.NewServer(t, nil)
			want := random(6<<20, 1)
			if err := os.WriteFile(filepath.Join(s.Dir, "f"), want, 0o600); err != nil {
				t.Fatal(err)
			}
			var count sends
			c := s.Client(&lwio.Config{Connections: conns, RequireRDMA: true, Providers: []rdma.Provider{fault.Wrap(p, &fault.Config{Fault: count.fault})}})
			if tr := c.Transport(); tr.Connections != conns {
				t.Fatal(tr)
			}
			if st := c.Stats(); st.Connects != conns || c.MaxInFlight() != st.Credits || s.Server.Stats().Credits != st.Credits {
				t.Errorf("%+v", st)
			}
			f, err := c.OpenFile(t.Context(), "f", os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			got := make([]byte, len(want)+1000)
			for range 3 {
				if n, err := f.ReadAt(got[:len(want)], 0); n != len(want) || err != nil || !bytes.Equal(got[:n], want) {
					t.Fatal(n, err)
				}
			}
			if n := count.least(conns); n < 4 {
				t.Errorf("a connection made %d requests: %v", n, count.pairs)
			}
			if n, err := f.ReadAt(got, 0); n != len(want) || err == nil || err.Error() != "EOF" {
				t.Error(n, err)
			}
			for i := range want {
				want[i] ^= 1
			}
			if n, err := f.WriteAt(want, 0); n != len(want) || err != nil {
				t.Error(n, err)
			}
			if err := f.Sync(t.Context()); err != nil {
				t.Error(err)
			}
			if local, err := os.ReadFile(filepath.Join(s.Dir, "f")); err != nil || !bytes.Equal(local, want) {
				t.Error("wrong bytes at the server", err)
			}
			before := count.least(conns)
			for i := range 300 {
				if _, err := f.ReadAt(got[:10], int64(i)); err != nil {
					t.Fatal(err)
				}
			}
			if n := count.least(conns) - before; n < 90 {
				t.Errorf("a connection made %d of 300 requests", n)
			}
		})
	}
}

// Connections over all providers.
//
// Source: [OP-38b], [OP-109]
func TestAllProviders(t *testing.T) {
	if len(lwio.DefaultProviders()) < 2 {
		skip.Test(t, "one provider only")
	}
	s := lwiotest.NewServer(t, nil)
	var counts [2]sends
	var providers []rdma.Provider
	for i, p := range lwio.DefaultProviders() {
		providers = append(providers, fault.Wrap(p, &fault.Config{Fault: counts[i].fault}))
	}
	c := s.Client(&lwio.Config{Connections: 4, AllProviders: true, Providers: providers})
	if tr := c.Transport(); tr.Connections != 4 || len(tr.Skipped) != 0 {
		t.Error(tr)
	}
	put(t, c, "f", random(3<<20, 1))
	for i := range counts {
		if n := counts[i].least(2); n < 2 {
			t.Errorf("%s: %v", providers[i].Name(), counts[i].pairs)
		}
	}
}

// TestResumeOverTwoPaths cuts one of two connections at each of its operations: it is
// replaced alone, nothing fails, and every write is done exactly once.
//
// Source: [OP-112], [OP-115]
func TestResumeOverTwoPaths(t *testing.T) {
	onEachFabric(t, func(t *testing.T, wrap func(*fault.Config) (client, server rdma.Provider)) {
		var operations atomic.Uint64
		if stats, ok := resume(t, 2, func(a fault.Attempt) fault.Action {
			if a.Pair == 2 {
				operations.Store(a.N)
			}
			return fault.Pass()
		}, wrap); !ok || t.Failed() || stats.Lost != 0 {
			t.Fatalf("it fails without a fault: %+v", stats)
		}
		total := operations.Load()
		if total < 8 {
			t.Fatalf("the second connection makes %d requests", total)
		}
		step := 1 + total/20
		if testing.Short() || raceEnabled {
			step = 1 + total/5
		}
		for n := uint64(2); n <= total; n += step {
			stats, ok := resume(t, 2, func(a fault.Attempt) fault.Action {
				if a.Pair == 2 && a.N == n {
					return fault.Cut()
				}
				return fault.Pass()
			}, wrap)
			if !ok || stats.Lost > 1 {
				t.Errorf("%+v", stats)
			}
			if t.Failed() {
				t.Fatalf("the second connection was cut at operation %d of %d", n, total)
			}
		}
	})
}

// With its SMB session a client loses all its connections, at both ends, and its
// calls fail with the cause, if the server keeps no opens without a connection.
//
// Source: [OP-42], [OP-94f]
func TestSessionTakesAllConnections(t *testing.T) {
	for _, p := range lwio.DefaultProviders() {
		t.Run(p.Name(), func(t *testing.T) {
			s := lwiotest.NewServer(t, &lwiotest.Config{DurableTimeout: -1})
			var raw net.Conn
			c := s.Client(&lwio.Config{
				Connections: 3, RequireRDMA: true, Providers: []rdma.Provider{p},
				DialContext: func(ctx context.Context, network, addr string) (_ net.Conn, err error) {
					raw, err = new(net.Dialer).DialContext(ctx, network, addr)
					return raw, err
				},
			})
			put(t, c, "f", random(1000, 1))
			f, err := c.Open(t.Context(), "f")
			if err != nil {
				t.Fatal(err)
			}
			raw.Close()
			eventually(t, func() bool { return s.Server.Stats().Connections == 0 })
			eventually(t, func() bool { return c.Transport().Connections == 0 })
			if _, err := f.ReadAt(make([]byte, 10), 0); !errors.Is(err, net.ErrClosed) || !errors.Is(err, lwio.ErrNoRDMA) {
				t.Error(err)
			}
			_ = f.Close() // cannot succeed
		})
	}
}

// Calls on a server that does not come back wait for Config.ReconnectTimeout, and fail with the reason.
func TestServerThatIsGoneEndsCalls(t *testing.T) {
	s, err := lwiotest.Start(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c, err := lwio.Dial(t.Context(), s.URL(), &lwio.Config{ReconnectTimeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	f, err := c.Create(t.Context(), "f")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("x"), 0); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.ReadAt(make([]byte, 1), 0); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if _, err := f.WriteAt([]byte("y"), 0); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if tr := c.Transport(); tr.RDMA() {
		t.Error(tr)
	}
}

// A connection that the limit of the server excludes is made once there is a free place.
//
// Source: [OP-42b], [OP-108], [OP-109]
func TestSecondConnectionComesLater(t *testing.T) {
	for _, p := range lwio.DefaultProviders() {
		t.Run(p.Name(), func(t *testing.T) {
			s := lwiotest.NewServer(t, &lwiotest.Config{Limits: server.Limits{Connections: 2}})
			providers := []rdma.Provider{p}
			first, err := lwio.Dial(t.Context(), s.URL(), &lwio.Config{RequireRDMA: true, Providers: providers})
			if err != nil {
				t.Fatal(err)
			}
			defer first.Close()
			c := s.Client(&lwio.Config{Connections: 2, RequireRDMA: true, Providers: providers})
			if tr := c.Transport(); tr.Connections != 1 {
				t.Fatal(tr)
			}
			want := random(3<<20, 1)
			put(t, c, "f", want)
			if err := first.Close(); err != nil {
				t.Fatal(err)
			}
			eventually(t, func() bool { return c.Transport().Connections == 2 })
			f, err := c.Open(t.Context(), "f")
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			got := make([]byte, len(want))
			if n, err := f.ReadAt(got, 0); n != len(got) || err != nil || !bytes.Equal(got, want) {
				t.Error(n, err)
			}
			if tr := c.Transport(); tr.Connections != 2 {
				t.Error(tr)
			}
		})
	}
}

// While a connection is missing, however long, a read into a Buffer over another costs no
// allocation for that.
//
// Source: [OP-109], [OP-113]
func TestMissingConnectionCostsNothing(t *testing.T) {
	if raceEnabled {
		skip.Test(t, "the race detector allocates")
	}
	for _, p := range lwio.DefaultProviders() {
		t.Run(p.Name(), func(t *testing.T) {
			s := lwiotest.NewServer(t, &lwiotest.Config{Limits: server.Limits{Connections: 2}})
			var first float64
			for _, connections := range []int{1, 2} {
				c := s.Client(&lwio.Config{Connections: connections, RequireRDMA: true, Providers: []rdma.Provider{p}})
				if tr := c.Transport(); tr.Connections != 1 {
					t.Fatal(tr)
				}
				put(t, c, "f", random(1<<16, 1))
				f, err := c.Open(t.Context(), "f")
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				buf, err := c.Alloc(t.Context(), 1<<16)
				if err != nil {
					t.Fatal(err)
				}
				defer buf.Close()
				got := allocations(first, func() {
					if _, err := f.ReadAt(buf.Bytes(), 0); err != nil {
						t.Fatal(err)
					}
				})
				if connections == 1 {
					first = got
				} else if got > first {
					t.Errorf("%v allocations a read, %v without a second connection", got, first)
				}
			}
		})
	}
}

// A batch, and a call with segments, use all connections; a batch of few small operations
// stays on one.
//
// Source: [OP-109], [LWIO claim 16]
func TestBatchAndSegmentsOverAll(t *testing.T) {
	for _, p := range lwio.DefaultProviders() {
		for mode := lwio.Adaptive; mode <= lwio.Interrupt; mode++ {
			t.Run(p.Name()+"/"+mode.String(), func(t *testing.T) {
				const conns, size, n = 3, 64 << 10, 48
				s := lwiotest.NewServer(t, nil)
				var count sends
				c := s.Client(&lwio.Config{Connections: conns, Completion: mode, RequireRDMA: true, Providers: []rdma.Provider{fault.Wrap(p, &fault.Config{Fault: count.fault})}})
				f, err := c.Create(t.Context(), "f")
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				want, got := random(n*size, 1), make([]byte, n*size)
				b := c.NewBatch(n)
				defer b.Close()
				for i, do := range []func(f *lwio.File, p []byte, off int64, tag uint64) error{b.WriteAt, b.ReadAt} {
					before := count.least(conns)
					doAll(t, b, n, func(k int) error {
						return do(f, [][]byte{want, got}[i][k*size:][:size], int64(k*size), 0)
					})
					if n := count.least(conns) - before; n < 8 {
						t.Errorf("a connection made %d requests", n)
					}
					if err := f.Sync(t.Context()); err != nil {
						t.Error(err)
					}
				}
				if !bytes.Equal(got, want) {
					t.Error("wrong bytes by the batch")
				}
				clear(got)
				segs := [][]byte{got[:8192], got[8192 : 1<<20], got[1<<20:]}
				count.spread(t, conns, func() {
					if n, err := f.ReadVec(t.Context(), segs, 0); n != len(got) || err != nil || !bytes.Equal(got, want) {
						t.Errorf("%d, %v", n, err)
					}
				})
				count.spread(t, conns, func() {
					if n, err := f.WriteVec(t.Context(), [][]byte{want[:5], want[5:2_000_000], want[2_000_000:]}, 1); n != len(want) || err != nil {
						t.Errorf("%d, %v", n, err)
					}
				})
				if n, err := f.ReadVec(t.Context(), segs, 9); n != len(got)-8 || !errors.Is(err, io.EOF) || !bytes.Equal(got[:n], want[8:]) {
					t.Errorf("%d, %v", n, err)
				}
				used := count.used()
				doAll(t, b, 16, func(k int) error { return b.ReadAt(f, got[k*512:][:512], int64(k), 0) })
				busy := 0
				for pair, n := range count.used() {
					if n-used[pair] >= 8 { // fewer may be about credits
						busy++
					}
				}
				if busy != 1 {
					t.Errorf("small reads went over %d connections: %v, then %v", busy, used, count.used())
				}
			})
		}
	}
}

// spread repeats a call that uses all connections: a connection that is slow to begin has no
// part in it at times.
func (s *sends) spread(t *testing.T, conns int, do func()) {
	t.Helper()
	before := s.least(conns)
	for tries := 0; s.least(conns)-before < 2; tries++ {
		if tries == 200 {
			t.Fatal("a connection makes no requests")
		}
		do()
	}
}

// doAll does n operations of a batch.
func doAll(t *testing.T, b *lwio.Batch, n int, add func(k int) error) {
	t.Helper()
	for k := range n {
		if err := add(k); err != nil {
			t.Fatal(err)
		}
	}
	for left := n; left > 0; {
		list, err := b.Wait(t.Context(), min(left, 5))
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range list {
			if d.Err != nil {
				t.Errorf("%+v", d)
			}
		}
		left -= len(list)
	}
}
