//go:build linux

package shm_test

import (
	"testing"

	"lwio/rdma"
	"lwio/rdma/rdmatest"
	"lwio/rdma/shm"
)

// The gaps of the provider, as in docs/providers.md.
const (
	noAtomic = "no atomics"
)

// gaps are the cases of the suite that the provider cannot pass, with the reasons.
var gaps = map[string]string{
	"atomic/compare-swap":     noAtomic,
	"atomic/fetch-add":        noAtomic,
	"atomic/limits":           noAtomic,
	"atomic/many-connections": noAtomic,
	"atomic/order":            noAtomic,
	"atomic/refused":          noAtomic,
	"atomic/violations":       noAtomic,
}

// ways are the configurations that the suite runs with.
//
// Source: [ND §9]
var ways = map[string]*shm.Config{
	"default":    nil,
	"small ring": {RingSize: 1},
	"blocking":   {BlockingWait: true},
}

func TestConformanceCases(t *testing.T) {
	for name, cfg := range ways {
		t.Run(name, func(t *testing.T) {
			rdmatest.Run(t, rdmatest.Config{
				New:  func(testing.TB) rdma.Provider { return shm.New(cfg) },
				Addr: rdma.Addr{Fabric: shm.Name},
				Gaps: gaps,
			})
		})
	}
}

// Random operations agree with a model. -rapid.checks=1000 -rapid.steps=1000 makes a
// million of them.
//
// Source: [ND QueuePair]
func TestRandomOperations(t *testing.T) {
	rdmatest.Random(t, rdmatest.Config{
		New:  func(testing.TB) rdma.Provider { return shm.New(nil) },
		Addr: rdma.Addr{Fabric: shm.Name},
	})
}

// BenchmarkOperations measures the operations that all providers are measured with.
func BenchmarkOperations(b *testing.B) {
	rdmatest.Benchmark(b, rdmatest.Config{
		New:  func(testing.TB) rdma.Provider { return shm.New(nil) },
		Addr: rdma.Addr{Fabric: shm.Name},
	})
}
