package fault_test

import (
	"context"
	"net/netip"
	"testing"

	"lwio/rdma"
	"lwio/rdma/rdmatest/fault"
)

// The wrapped provider takes no time for a request, so the benchmark measures the
// wrapper.

type nullAdapter struct{ rdma.Adapter }

type nullProvider struct{ rdma.Provider }

func (nullProvider) OpenAdapter(context.Context, netip.Addr) (rdma.Adapter, error) {
	return nullAdapter{}, nil
}

func (nullAdapter) CreateQueuePair(rdma.QueuePairConfig) (rdma.QueuePair, error) {
	return nullPair{}, nil
}

func (nullAdapter) CreateCompletionQueue(int) (rdma.CompletionQueue, error) { return nullQueue{}, nil }

func (nullAdapter) RegisterMemory(_ context.Context, b []byte, _ rdma.Access) (rdma.MemoryRegion, error) {
	return nullRegion{}, nil
}

type nullPair struct{ rdma.QueuePair }

func (nullPair) Post(reqs []rdma.Request) (int, error) { return len(reqs), nil }

type nullQueue struct{ rdma.CompletionQueue }

func (nullQueue) Poll(res []rdma.Result) (int, error) {
	res[0] = rdma.Result{Op: rdma.OpWrite}
	return 1, nil
}

type nullRegion struct{ rdma.MemoryRegion }

func benchmark(b *testing.B, p rdma.Provider) {
	a, err := p.OpenAdapter(b.Context(), netip.Addr{})
	check(b, err)
	cq, err := a.CreateCompletionQueue(1)
	check(b, err)
	qp, err := a.CreateQueuePair(rdma.QueuePairConfig{ReceiveCQ: cq, InitiatorCQ: cq})
	check(b, err)
	m, err := a.RegisterMemory(b.Context(), make([]byte, 64), 0)
	check(b, err)
	reqs := []rdma.Request{{Op: rdma.OpWrite, SGL: []rdma.SGE{{Region: m, Length: 64}}}}
	res := make([]rdma.Result, 1)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := qp.Post(reqs); err != nil {
			b.Fatal(err)
		}
		if _, err := cq.Poll(res); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOverhead measures one post and one poll, with and without a wrapper.
func BenchmarkOverhead(b *testing.B) {
	b.Run("none", func(b *testing.B) { benchmark(b, nullProvider{}) })
	b.Run("counting", func(b *testing.B) { benchmark(b, fault.Wrap(nullProvider{}, nil)) })
	b.Run("tracing", func(b *testing.B) { benchmark(b, fault.Wrap(nullProvider{}, &fault.Config{Tracer: new(discard)})) })
	b.Run("faulty", func(b *testing.B) {
		benchmark(b, fault.Wrap(nullProvider{}, &fault.Config{Fault: func(fault.Attempt) fault.Action { return fault.Pass() }}))
	})
}
