package stream

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"runtime"
	"slices"
	"testing"

	"lwio/rdma"
	"lwio/rdma/rdmatest/fault"
	"lwio/rsock/internal/verbs"
)

// TestFailureWaitsForFetch fails the stream while a Read starts a fetch into its memory: the
// Read returns the data from before the fetch, and only after the fetch has ended.
//
// Source: [WSD §5.2]
func TestFailureWaitsForFetch(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		var b *Stream
		u := setup{wrapPassive: func(p rdma.Provider) rdma.Provider {
			return fault.Wrap(p, &fault.Config{Fault: func(a fault.Attempt) fault.Action {
				if a.Request.Op == rdma.OpRead {
					b.c.fail(errStuck)
				}
				return fault.Pass()
			}})
		}}
		a, passive := pair(t, f, u)
		b = passive
		wrote := make(chan struct{})
		go func() {
			defer close(wrote)
			_, _ = a.Write(pattern(100000)) // fails or not, depending on the provider
		}()
		if n, err := b.Read(make([]byte, 50000)); n < maxHead || err != nil {
			t.Errorf("read %d bytes, %v", n, err)
		}
		b.rx.mu.Lock()
		if b.rx.input.fetch.busy > 0 {
			t.Error("data comes into memory that Read has given back")
		}
		b.rx.mu.Unlock()
		<-wrote
	})
}

// TestFailedFetchesReturnNoData has a Read fetch several offers whose memory is
// deregistered: no data comes, and Read returns an error.
//
// Source: [WSD §5.2]
func TestFailedFetchesReturnNoData(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		s, r := greeted(t, f, Config{}, true)
		const size = 2 * directRead
		for i := range uint32(maxDirect) {
			d := r.expose(size, verbs.MemRead)
			if err := r.sock.DeregisterRdmaMemory(d); err != nil {
				t.Fatal(err)
			}
			r.sendMessage(Message{Type: TypeOffer, Transfer: i + 1, Total: size, Descriptor: d})
		}
		for offers := 0; offers < maxDirect; runtime.Gosched() {
			s.rx.mu.Lock()
			offers = s.rx.input.open
			s.rx.mu.Unlock()
		}
		if n, err := s.Read(make([]byte, maxDirect*size)); n > 0 || !errors.Is(err, ErrReset) {
			t.Errorf("read %d bytes, %v", n, err)
		}
	})
}

// failingReads is a provider whose completion queues hold the results of RDMA Reads back
// until there are held of them. The oldest Read has failed, and all other Reads have
// succeeded.
type failingReads struct {
	rdma.Provider
	held int
}

func (p failingReads) OpenAdapter(ctx context.Context, local netip.Addr) (rdma.Adapter, error) {
	a, err := p.Provider.OpenAdapter(ctx, local)
	return failingAdapter{a, p.held}, err
}

type failingAdapter struct {
	rdma.Adapter
	held int
}

func (a failingAdapter) CreateCompletionQueue(depth int) (rdma.CompletionQueue, error) {
	q, err := a.Adapter.CreateCompletionQueue(depth)
	return &failingQueue{CompletionQueue: q, want: a.held}, err
}

func (a failingAdapter) CreateQueuePair(cfg rdma.QueuePairConfig) (rdma.QueuePair, error) {
	cfg.ReceiveCQ = cfg.ReceiveCQ.(*failingQueue).CompletionQueue
	cfg.InitiatorCQ = cfg.InitiatorCQ.(*failingQueue).CompletionQueue
	return a.Adapter.CreateQueuePair(cfg)
}

type failingQueue struct {
	rdma.CompletionQueue
	want int
	held []rdma.Result
}

func (q *failingQueue) Poll(results []rdma.Result) (int, error) {
	n, err := q.CompletionQueue.Poll(results[:len(results)-q.want])
	passed := results[:0]
	for _, r := range slices.Clone(results[:n]) {
		if r.Op == rdma.OpRead {
			q.held = append(q.held, r)
		} else {
			passed = append(passed, r)
		}
	}
	if len(q.held) >= q.want {
		q.held[0].Status = rdma.StatusAccessViolation
		passed = append(passed, q.held...)
		q.held = nil
	}
	return len(passed), err
}

// TestNoDataBehindFailedFetch has a Read fetch one offer in several parts: the first part
// fails and all other parts come. The Read returns no byte of the parts behind the missing
// part.
//
// Source: [WSD §5.2]
func TestNoDataBehindFailedFetch(t *testing.T) {
	const part = 2 * directRead
	// Over iwarp several fetches are in flight at a time.
	a, b := pair(t, fabrics()[1], setup{
		passiveVerbs: &verbs.Config{MaxRdmaSize: part},
		wrapPassive:  func(p rdma.Provider) rdma.Provider { return failingReads{p, maxDirect} },
	})
	data := pattern(3 * maxDirect * part)
	wrote := make(chan struct{})
	go func() {
		defer close(wrote)
		_, _ = a.Write(data) // fails
	}()
	got := make([]byte, len(data))
	n, err := io.ReadFull(b, got)
	if n > maxHead || !errors.Is(err, ErrReset) {
		t.Errorf("read %d bytes, %v; want no more than the %d before the fetches", n, err, maxHead)
	}
	<-wrote
}
