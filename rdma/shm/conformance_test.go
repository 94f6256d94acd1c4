//go:build linux

package shm_test

import (
	"testing"

	"lwio/rdma"
	"lwio/rdma/rdmatest"
	"lwio/rdma/shm"
)

// ways are the configurations that the suite runs with. There are no gaps.
// Source: [ND §Unit tests]
var ways = map[string]*shm.Config{
	"default":    nil,
	"small ring": {RingSize: 1},
}

func TestConformance(t *testing.T) {
	for name, cfg := range ways {
		t.Run(name, func(t *testing.T) {
			rdmatest.Run(t, rdmatest.Config{
				New:  func(testing.TB) rdma.Provider { return shm.New(cfg) },
				Addr: rdma.Addr{Fabric: shm.Name},
			})
		})
	}
}
