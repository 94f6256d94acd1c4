//go:build linux

package shm_test

import (
	"testing"

	"lwio/rdma"
	"lwio/rdma/rdmatest"
	"lwio/rdma/shm"
)

// What the provider does not have, as docs/providers.md says.
const (
	noRead      = "no RDMA reads: a read needs memory of the target that has no copy in its process"
	noWindow    = "no memory windows"
	noShared    = "no shared receive queues"
	noImmediate = "no writes with immediate data"
	noAtomic    = "no atomics: as for reads"
)

// gaps are the cases of the suite that the provider cannot pass, and why.
var gaps = map[string]string{
	"atomic/compare-swap":      noAtomic,
	"atomic/fetch-add":         noAtomic,
	"atomic/limits":            noAtomic,
	"atomic/many-connections":  noAtomic,
	"atomic/order":             noAtomic,
	"atomic/refused":           noAtomic,
	"atomic/violations":        noAtomic,
	"immediate/after-the-data": noImmediate,
	"immediate/result":         noImmediate,
	"immediate/shared":         noImmediate,
	"read/after-write":         noRead,
	"read/both-ways":           noRead,
	"read/fence":               noRead,
	"read/limits":              noRead,
	"read/order":               noRead,
	"read/scatter":             noRead,
	"read/sink-rights":         noRead,
	"read/sizes":               noRead,
	"read/violations":          noRead,
	"read/zero-length":         noRead,
	"shared/close":             noShared,
	"shared/empty-waits":       noShared,
	"shared/many-pairs":        noShared,
	"shared/modify":            noShared,
	"shared/notify":            noShared,
	"shared/refused":           noShared,
	"shared/waiting-closes":    noShared,
	"window/busy":              noWindow,
	"window/connection-ends":   noWindow,
	"window/cycle":             noWindow,
	"window/order":             noWindow,
	"window/read-violations":   noWindow,
	"window/refused":           noWindow,
	"window/token":             noWindow,
	"window/transfer":          noWindow,
	"window/write-violations":  noWindow,
}

// ways are the configurations that the suite runs with.
//
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
				Gaps: gaps,
			})
		})
	}
}
