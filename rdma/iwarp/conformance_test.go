package iwarp_test

import (
	"net/netip"
	"testing"
	"time"

	"lwio/rdma"
	"lwio/rdma/iwarp"
	"lwio/rdma/rdmatest"
)

// Revision 1 of MPA has no message for the end of CompleteConnect, so Accept cannot wait
// for it.
const noCompletion = "MPA revision 1 has no message for CompleteConnect: Accept does not wait for it"

// ways are the configurations of the suite, with the cases that each does not pass.
// Source: [ND §9]
var ways = map[string]struct {
	cfg  *iwarp.Config
	gaps map[string]string
}{
	"default": {},
	"plain":   {cfg: &iwarp.Config{CRC: iwarp.CRCOff}},
	"markers": {cfg: &iwarp.Config{Markers: true, MaxULPDU: 1000}, gaps: map[string]string{
		"violation/bounds": "a message of many frames is checked frame by frame, so the part within the bounds is placed",
	}},
	"small": {
		cfg: &iwarp.Config{MaxULPDU: 128},
		gaps: map[string]string{
			"violation/bounds": "a message of many frames is checked frame by frame, so the part within the bounds is placed",
		},
	},
	"revision 1": {
		cfg: &iwarp.Config{Revision: 1},
		gaps: map[string]string{
			"reject/by-client":     noCompletion,
			"reject/client-closes": noCompletion,
			"reject/peer-gave-up":  noCompletion,
			"cancel/accept":        noCompletion,
			"connect/read-limits":  "MPA revision 1 carries no read limits",
		},
	},
}

// slow returns a config with time limits that no machine reaches.
func slow(cfg *iwarp.Config) *iwarp.Config {
	c := iwarp.Config{}
	if cfg != nil {
		c = *cfg
	}
	c.RequestTimeout, c.WriteTimeout, c.ReplyTimeout, c.ReadyTimeout = time.Minute, time.Minute, time.Minute, time.Minute
	c.DrainTimeout = time.Minute
	return &c
}

func TestConformanceCases(t *testing.T) {
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			rdmatest.Run(t, rdmatest.Config{
				New:  func(testing.TB) rdma.Provider { return iwarp.New(slow(way.cfg)) },
				Addr: rdma.IPAddr(iwarp.Name, netip.MustParseAddrPort("127.0.0.1:0")),
				Gaps: way.gaps,
			})
		})
	}
}

// Random operations agree with a model. -rapid.checks=1000 -rapid.steps=1000 makes a
// million of them.
//
// Source: [ND QueuePair]
func TestRandomOperations(t *testing.T) {
	rdmatest.Random(t, rdmatest.Config{
		New:  func(testing.TB) rdma.Provider { return iwarp.New(slow(nil)) },
		Addr: rdma.IPAddr(iwarp.Name, netip.MustParseAddrPort("127.0.0.1:0")),
	})
}

// BenchmarkOperations measures the operations that all providers are measured with.
func BenchmarkOperations(b *testing.B) {
	rdmatest.Benchmark(b, rdmatest.Config{
		New:  func(testing.TB) rdma.Provider { return iwarp.New(nil) },
		Addr: rdma.IPAddr(iwarp.Name, netip.MustParseAddrPort("127.0.0.1:0")),
	})
}
