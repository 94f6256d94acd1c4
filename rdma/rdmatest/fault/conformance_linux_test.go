package fault_test

import (
	"strings"
	"testing"

	"lwio/rdma"
	"lwio/rdma/rdmatest"
	"lwio/rdma/shm"
)

// Shared memory has features that iwarp lacks: memory of Alloc, which the wrapper passes
// on, writes without code of the target, and a separate path for files.
func TestConformanceOfSharedMemory(t *testing.T) {
	gaps := make(map[string]string)
	for _, c := range rdmatest.Cases() {
		if strings.HasPrefix(c.Name, "atomic/") {
			gaps[c.Name] = "shared memory has no atomics"
		}
	}
	conform(t, rdmatest.Config{
		New:  func(testing.TB) rdma.Provider { return shm.New(nil) },
		Addr: rdma.Addr{Fabric: shm.Name},
		Gaps: gaps,
	})
}
