package fileio

import (
	"runtime"

	"lwio/rdma"
	"lwio/rdma/iwarp"
	"lwio/rdma/shm"
)

// defaults are the providers of a client that names none.
func defaults() []rdma.Provider {
	all := []rdma.Provider{spyProvider{iwarp.New(nil)}}
	if runtime.GOOS == "linux" {
		all = append([]rdma.Provider{spyProvider{shm.New(nil)}}, all...)
	}
	return all
}
