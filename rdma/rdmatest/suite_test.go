package rdmatest

import (
	"net/netip"
	"testing"
	"time"

	"lwio/internal/test/leakcheck"
	"lwio/rdma"
	"lwio/rdma/iwarp"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

// slow is a config with time limits that no machine reaches.
var slow = iwarp.Config{
	RequestTimeout: time.Minute, WriteTimeout: time.Minute, ReplyTimeout: time.Minute, ReadyTimeout: time.Minute, DrainTimeout: time.Minute,
}

// onIWARP returns the config of the suite for iwarp, which needs no features of the host.
func onIWARP() Config {
	return Config{
		New:  func(testing.TB) rdma.Provider { return iwarp.New(&slow) },
		Addr: rdma.IPAddr("iwarp", netip.MustParseAddrPort("127.0.0.1:0")),
	}
}

func TestSuiteOnIWARP(t *testing.T) { Run(t, onIWARP()) }
