package lwio_test

import (
	"sync/atomic"
	"testing"

	"lwio/rdma"
	"lwio/rdma/rdmatest/fault"
)

// TestResumeAtEveryOperation cuts the first connection at each of its operations in turn,
// on either side: nothing fails, and every write is done exactly once.
//
// Source: [OP-112], [OP-113]
func TestResumeAtEveryOperation(t *testing.T) {
	onEachFabric(t, func(t *testing.T, wrap func(*fault.Config) (client, server rdma.Provider)) {
		var operations atomic.Uint64
		if stats, ok := resume(t, 1, func(a fault.Attempt) fault.Action {
			operations.Store(a.N)
			return fault.Pass()
		}, wrap); !ok || t.Failed() || stats.Lost != 0 {
			t.Fatal("it fails without a fault")
		}
		total, step := operations.Load(), uint64(1)
		if testing.Short() || raceEnabled {
			step = 1 + total/10
		}
		var replayed uint64
		for n := uint64(1); n <= total; n += step {
			var cuts atomic.Uint64
			stats, ok := resume(t, 1, func(a fault.Attempt) fault.Action {
				if a.Pair == 1 && a.N == n {
					cuts.Add(1)
					return fault.Cut()
				}
				return fault.Pass()
			}, wrap)
			// How many operations there are varies; after the first half of them, a run may
			// need the connection no more.
			if ok && cuts.Load() > 0 && n < total/2 && stats.Reconnects == 0 {
				t.Error("the connection was not replaced")
			}
			replayed += stats.ReplayedWrites
			if t.Failed() {
				t.Fatalf("the connection was cut at operation %d of %d", n, total)
			}
		}
		if replayed == 0 {
			t.Error("no write was ever sent again")
		}
	})
}

// TestResumeOfAReconnection cuts a connection in the middle of a long write, and the one
// that takes its place at each of its first operations: AUTH, REGISTER, the replayed
// requests, and the later ones.
//
// Source: [OP-112]
func TestResumeOfAReconnection(t *testing.T) {
	onEachFabric(t, func(t *testing.T, wrap func(*fault.Config) (client, server rdma.Provider)) {
		step := uint64(1)
		if testing.Short() || raceEnabled {
			step = 4
		}
		for n := uint64(1); n <= 16; n += step {
			stats, ok := resume(t, 1, func(a fault.Attempt) fault.Action {
				if a.Pair == 1 && a.N == 8 || a.Pair > 1 && a.Pair < 4 && a.N == n {
					return fault.Cut()
				}
				return fault.Pass()
			}, wrap)
			if !ok || stats.Reconnects == 0 {
				t.Errorf("%+v", stats)
			}
			if t.Failed() {
				t.Fatalf("the second and the third connection were cut at operation %d", n)
			}
		}
	})
}

// TestResumeUnderFire cuts connection after connection at random.
//
// Source: [OP-112]
func TestResumeUnderFire(t *testing.T) {
	seeds := uint64(8)
	if testing.Short() || raceEnabled {
		seeds = 2
	}
	onEachFabric(t, func(t *testing.T, wrap func(*fault.Config) (client, server rdma.Provider)) {
		for seed := range seeds {
			random := fault.Random(seed, fault.Chances{Cut: 0.05})
			resume(t, 1, func(a fault.Attempt) fault.Action {
				if a.Pair == 1 && a.N < 5 {
					return fault.Pass()
				}
				return random(a)
			}, wrap)
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
	})
}
