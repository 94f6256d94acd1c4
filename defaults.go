package lwio

import (
	"lwio/rdma"
	"lwio/rdma/iwarp"
)

// Defaults are the providers that Dial tries if Config.Providers is nil, best
// first. Each call makes new ones.
func Defaults() []rdma.Provider {
	return []rdma.Provider{iwarp.New(nil)}
}
