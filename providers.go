package lwio

import (
	"runtime"

	"lwio/rdma"
	"lwio/rdma/iwarp"
	"lwio/rdma/shm"
)

// DefaultProviders returns new providers of every kind that this system has, in order of
// preference: on Linux shared memory, for servers on the same host; then iWARP over TCP. Dial
// uses them if Config.Providers is nil.
func DefaultProviders() []rdma.Provider {
	all := []rdma.Provider{iwarp.New(nil)}
	if runtime.GOOS == "linux" {
		all = append([]rdma.Provider{shm.New(nil)}, all...)
	}
	return all
}
