package rdmatest

import (
	"net/netip"
	"testing"

	"lwio/internal/leakcheck"
	"lwio/rdma"
	"lwio/rdma/iwarp"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

// onIWARP runs the suite on the one provider that needs nothing of the host.
func onIWARP() Config {
	return Config{
		New:  func(testing.TB) rdma.Provider { return iwarp.New(nil) },
		Addr: rdma.IPAddr("iwarp", netip.MustParseAddrPort("127.0.0.1:0")),
	}
}

func TestSuite(t *testing.T) { Run(t, onIWARP()) }
