package fault_test

import (
	"maps"
	"net/netip"
	"sync"
	"testing"
	"time"

	"lwio/rdma"
	"lwio/rdma/iwarp"
	"lwio/rdma/rdmatest"
	"lwio/rdma/rdmatest/fault"
)

// discard is a tracer that counts events.
type discard struct {
	mu sync.Mutex
	n  int
}

func (d *discard) Event(fault.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.n++
}

// conform runs the suite through a wrapper in every mode, because a wrapper must not
// change the behaviour. inner describes the wrapped provider.
func conform(t *testing.T, inner rdmatest.Config) {
	for name, cfg := range map[string]*fault.Config{
		"counting": nil,
		"tracing":  {Tracer: new(discard)},
		"faulty":   {Fault: func(fault.Attempt) fault.Action { return fault.Pass() }},
		"mixed":    {Shuffle: 42},
	} {
		t.Run(name, func(t *testing.T) {
			outer := inner
			outer.New = func(tb testing.TB) rdma.Provider { return fault.Wrap(inner.New(tb), cfg) }
			outer.Gaps = make(map[string]string)
			maps.Copy(outer.Gaps, inner.Gaps)
			if name == "mixed" {
				outer.Gaps["write/polled-word"] = "reordered writes are not placed in order"
			}
			rdmatest.Run(t, outer)
		})
	}
}

func TestConformanceOfIWARP(t *testing.T) {
	conform(t, rdmatest.Config{
		New: func(testing.TB) rdma.Provider {
			return iwarp.New(&iwarp.Config{ // time limits that no machine reaches
				RequestTimeout: time.Minute, WriteTimeout: time.Minute, ReplyTimeout: time.Minute, ReadyTimeout: time.Minute, DrainTimeout: time.Minute,
			})
		},
		Addr: rdma.IPAddr(iwarp.Name, netip.MustParseAddrPort("127.0.0.1:0")),
	})
}
