package lwio

import (
	"runtime"

	"lwio/rdma"
	"lwio/rdma/iwarp"
	"lwio/rdma/shm"
)

// DefaultProviders returns new providers of every kind that this system has: on Linux shared
// memory, for peers on the same host; then iWARP over TCP. A server prefers them in this order.
// Dial uses them if Config.Providers is nil.
func DefaultProviders() []rdma.Provider {
	all := []rdma.Provider{iwarp.New(nil)}
	if runtime.GOOS == "linux" {
		all = append([]rdma.Provider{shm.New(nil)}, all...)
	}
	return all
}
