package lwio

import (
	"runtime"

	"lwio/rdma"
	"lwio/rdma/iwarp"
	"lwio/rdma/shm"
)

// DefaultProviders are the providers that Dial tries if Config.Providers is nil, best
// first: shared memory, which is for servers on the same host and only there on
// Linux, then iWARP. Each call makes new ones.
func DefaultProviders() []rdma.Provider {
	all := []rdma.Provider{iwarp.New(nil)}
	if runtime.GOOS == "linux" {
		all = append([]rdma.Provider{shm.New(nil)}, all...)
	}
	return all
}
