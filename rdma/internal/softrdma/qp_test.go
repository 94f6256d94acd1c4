package softrdma

import (
	"slices"
	"testing"

	"lwio/rdma"
)

// fakeTransport is a queue pair with a fake connection. It records the steps of its end.
type fakeTransport struct {
	QueuePair
	fakePair
	conn  *fakeConn
	steps []string
}

func (p *fakeTransport) Connection() Conn {
	if p.conn == nil {
		return nil
	}
	return p.conn
}

func (p *fakeTransport) EndAll() {
	p.steps = append(p.steps, "end all")
	p.Disconnected()
	p.Initiator.End(rdma.StatusCanceled, func(uint64, *WorkRequest) rdma.Status { return rdma.StatusCanceled })
	p.Receives.End(rdma.StatusCanceled)
}

func newTransport(t testing.TB) (*fakeTransport, *CompletionQueue) {
	t.Helper()
	d := newDomain(t)
	cq, err := d.CreateCompletionQueue(16)
	if err != nil {
		t.Fatal(err)
	}
	p := new(fakeTransport)
	cfg := rdma.QueuePairConfig{ReceiveCQ: cq, InitiatorCQ: cq, Context: 7, InitiatorDepth: 4, ReceiveDepth: 4}
	if err := p.Init(d, cfg, p, func() {}); err != nil {
		t.Fatal(err)
	}
	return p, cq.(*CompletionQueue)
}

// Source: [ND QueuePair]
func TestQueuePairIsReservedOnce(t *testing.T) {
	p, _ := newTransport(t)
	if err := p.Reserve("connect"); err != nil {
		t.Fatal(err)
	}
	if err := p.Reserve("connect"); rdma.StatusOf(err) != rdma.StatusConnectionActive {
		t.Errorf("a second Reserve: %v", err)
	}
	p.Unreserve()
	if err := p.Reserve("connect"); err != nil {
		t.Errorf("after Unreserve: %v", err)
	}
	p.Close()
	if err := p.Reserve("connect"); rdma.StatusOf(err) != rdma.StatusInvalidHandle {
		t.Errorf("after Close: %v", err)
	}
}

// Source: [ND QueuePair]
func TestQueuePairCloseDisconnectsThenEndsItsRequests(t *testing.T) {
	p, cq := newTransport(t)
	p.conn = &fakeConn{finished: make(chan struct{}), end: func(error) { p.steps = append(p.steps, "disconnect") }}
	p.Initiator.push(1, someSend)
	if n, err := p.PostReceive([]rdma.ReceiveRequest{{ID: 2}}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	for range 2 {
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"disconnect", "end all"}; !slices.Equal(p.steps, want) {
		t.Errorf("steps of Close: %q, want %q", p.steps, want)
	}
	wantResults(t, cq,
		rdma.Result{Op: rdma.OpSend, ID: 1, Status: rdma.StatusCanceled},
		rdma.Result{Op: rdma.OpReceive, ID: 2, Status: rdma.StatusCanceled})
	if _, err := p.PostReceive([]rdma.ReceiveRequest{{}}); rdma.StatusOf(err) != rdma.StatusInvalidHandle {
		t.Errorf("a receive after Close: %v", err)
	}
}

// Source: [ND Adapter.CreateQueuePair]
func TestQueuePairOfAClosedQueueIsRefused(t *testing.T) {
	d := newDomain(t)
	cq, err := d.CreateCompletionQueue(4)
	if err != nil {
		t.Fatal(err)
	}
	cq.Close()
	p := new(fakeTransport)
	if err := p.Init(d, rdma.QueuePairConfig{ReceiveCQ: cq, InitiatorCQ: cq}, p, func() {}); rdma.StatusOf(err) != rdma.StatusInvalidHandle {
		t.Fatal(err)
	}
	if len(p.steps) != 1 {
		t.Errorf("it is not closed: %q", p.steps)
	}
}

// fakeProvider is a provider without adapters.
type fakeProvider struct{ rdma.Provider }

func (*fakeProvider) Name() string { return "soft" }

// Source: [ND Adapter]
func TestAdapterKnowsItsOwnQueuePairs(t *testing.T) {
	p, _ := newTransport(t)
	var own, other Adapter
	for _, a := range []*Adapter{&own, &other} {
		a.Init(&fakeProvider{}, nil, Limits{}, rdma.AdapterInfo{AdapterID: 5, Caps: rdma.CapRead})
		defer a.Close()
	}
	own.Domain = p.Domain
	if own.PairOf(posting(p)) == nil || other.PairOf(posting(p)) != nil || own.PairOf(nil) != nil {
		t.Error("a queue pair is taken for another adapter's")
	}
	if info := own.Info(); info.AdapterID != 5 || info.Caps != rdma.CapRead || info.MaxTransferLength != MaxTransfer {
		t.Errorf("%+v", info)
	}
}

// postingPair makes an rdma.QueuePair of a fakeTransport.
type postingPair struct{ *fakeTransport }

func (postingPair) Post([]rdma.Request) (int, error) { return 0, nil }
func (postingPair) Flush() error                     { return nil }

func posting(p *fakeTransport) rdma.QueuePair { return postingPair{p} }

func TestSetDefaultKeepsPositiveValues(t *testing.T) {
	for _, c := range []struct{ value, want int }{{0, 5}, {-1, 5}, {3, 3}} {
		v := c.value
		if SetDefault(&v, 5); v != c.want {
			t.Errorf("%d becomes %d, want %d", c.value, v, c.want)
		}
	}
}
