package softrdma

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"

	"lwio/rdma"
)

// fakeNetwork is a Network with a peer that a test defines.
type fakeNetwork struct {
	Network // Listen is not called
	pair    countedPair
	refused atomic.Int64
	// the outcomes of the operations
	dial, complete, accept func(ctx context.Context) error
	conn                   *fakeConn
}

func newFakeNetwork() *fakeNetwork {
	ok := func(context.Context) error { return nil }
	return &fakeNetwork{dial: ok, complete: ok, accept: ok}
}

func (*fakeNetwork) Info() rdma.AdapterInfo {
	return rdma.AdapterInfo{MaxCallerData: 4, MaxCalleeData: 2}
}
func (*fakeNetwork) Target(string, rdma.Addr) error { return nil }
func (*fakeNetwork) Status(error) rdma.Status       { return rdma.StatusConnectionRefused }
func (n *fakeNetwork) Ends() Ends {
	return Ends{Local: rdma.Addr{Name: "us"}, Peer: rdma.Addr{Name: "them"}}
}
func (n *fakeNetwork) Refuse([]byte) { n.refused.Add(1) }
func (n *fakeNetwork) PairOf(qp rdma.QueuePair) Pair {
	if qp == nil {
		return nil
	}
	return &n.pair
}

func (*fakeNetwork) Source(_ context.Context, _ string, local rdma.Addr) (rdma.Addr, error) {
	return local, nil
}

func (n *fakeNetwork) Dial(ctx context.Context, _, _ rdma.Addr, _ rdma.ReadLimits, private []byte) (Acceptance, *PeerParams, error) {
	if err := n.dial(ctx); err != nil {
		return nil, &PeerParams{Private: []byte("no")}, err
	}
	return n, &PeerParams{Private: private}, nil
}

func (n *fakeNetwork) Complete(ctx context.Context, _ Pair, end func(error)) (Conn, error) {
	return n.begin(n.complete(ctx), end)
}

func (n *fakeNetwork) Accept(ctx context.Context, _ Pair, _ rdma.ReadLimits, _ []byte, end func(error)) (Conn, error) {
	return n.begin(n.accept(ctx), end)
}

func (n *fakeNetwork) begin(err error, end func(error)) (Conn, error) {
	if err != nil {
		return nil, err
	}
	n.conn = &fakeConn{end: end, finished: make(chan struct{})}
	return n.conn, nil
}

type fakeConn struct {
	end      func(error)
	ended    atomic.Bool
	finished chan struct{}
}

func (c *fakeConn) Finished() <-chan struct{} { return c.finished }

func (c *fakeConn) Disconnect() bool {
	if c.ended.Swap(true) {
		return false
	}
	c.end(errors.New("over"))
	close(c.finished)
	return true
}

type countedPair struct{ reserved atomic.Int64 }

func (p *countedPair) Unreserve() { p.reserved.Add(-1) }

func (p *countedPair) Reserve(string) error {
	p.reserved.Add(1)
	return nil
}

// someQP stands for a queue pair of the adapter.
var someQP rdma.QueuePair = struct{ rdma.QueuePair }{}

// inPhase makes a connector of the network in a phase.
func inPhase(t *testing.T, n *fakeNetwork, p phase) *Connector {
	t.Helper()
	rc, err := NewDomain("soft").CreateConnector(n)
	if err != nil {
		t.Fatal(err)
	}
	c := rc.(*Connector)
	t.Cleanup(func() { c.Close() })
	switch p {
	case phaseExpecting, phaseRequested:
		err = c.expect("test")
		if p == phaseRequested && !c.take(n, &PeerParams{}) {
			t.Fatal("not taken")
		}
	case phaseReplied, phaseConnected:
		err = c.Connect(t.Context(), someQP, rdma.Addr{}, rdma.ReadLimits{}, []byte("yes"))
		if p == phaseConnected && err == nil {
			err = c.CompleteConnect(t.Context())
		}
	case phaseDead:
		err = c.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Each call returns the expected status in each phase.
//
// Source: [ND Connector], [ND §7]
func TestConnectorCallsOutOfPhaseFail(t *testing.T) {
	const (
		ok      = rdma.StatusSuccess
		active  = rdma.StatusConnectionActive
		invalid = rdma.StatusConnectionInvalid
		handle  = rdma.StatusInvalidHandle
		bound   = rdma.StatusAddressAlreadyAssociated
	)
	phases := []phase{phaseIdle, phaseExpecting, phaseRequested, phaseReplied, phaseConnected, phaseDead}
	for name, c := range map[string]struct {
		call func(ctx context.Context, c *Connector) error
		want []rdma.Status // by phases
	}{
		"bind": {func(ctx context.Context, c *Connector) error { return c.Bind(ctx, rdma.Addr{}) },
			[]rdma.Status{ok, bound, bound, bound, bound, handle}},
		"expect": {func(_ context.Context, c *Connector) error { return c.expect("test") },
			[]rdma.Status{ok, active, active, active, active, handle}},
		"connect": {func(ctx context.Context, c *Connector) error {
			return c.Connect(ctx, someQP, rdma.Addr{}, rdma.ReadLimits{}, nil)
		}, []rdma.Status{ok, active, active, active, active, handle}},
		"complete": {func(ctx context.Context, c *Connector) error { return c.CompleteConnect(ctx) },
			[]rdma.Status{invalid, invalid, invalid, ok, invalid, invalid}},
		"accept": {func(ctx context.Context, c *Connector) error {
			return c.Accept(ctx, someQP, rdma.ReadLimits{}, nil)
		}, []rdma.Status{invalid, invalid, ok, active, active, invalid}},
		"reject": {func(_ context.Context, c *Connector) error { return c.Reject(nil) },
			[]rdma.Status{invalid, invalid, ok, ok, invalid, invalid}},
		"disconnect": {func(ctx context.Context, c *Connector) error { return c.Disconnect(ctx) },
			[]rdma.Status{invalid, invalid, invalid, invalid, ok, invalid}},
		"address": {func(_ context.Context, c *Connector) error { _, err := c.PeerAddr(); return err },
			[]rdma.Status{invalid, invalid, ok, ok, ok, invalid}},
	} {
		for i, p := range phases {
			if got := rdma.StatusOf(c.call(t.Context(), inPhase(t, newFakeNetwork(), p))); got != c.want[i] {
				t.Errorf("%s in phase %d: %v, want %v", name, p, got, c.want[i])
			}
		}
	}
}

// A waiting operation ends with its context, with a Close, or by the peer. The queue pair
// is then idle again, and Close has waited.
//
// Source: [ND Connector]
func TestCloseOvertakesOperations(t *testing.T) {
	connect := func(ctx context.Context, c *Connector) error {
		return c.Connect(ctx, someQP, rdma.Addr{}, rdma.ReadLimits{}, nil)
	}
	accept := func(ctx context.Context, c *Connector) error {
		return c.Accept(ctx, someQP, rdma.ReadLimits{}, nil)
	}
	for name, op := range map[string]struct {
		from   phase
		set    func(n *fakeNetwork, f func(context.Context) error)
		call   func(ctx context.Context, c *Connector) error
		failed rdma.Status
	}{
		"connect":  {phaseIdle, func(n *fakeNetwork, f func(context.Context) error) { n.dial = f }, connect, rdma.StatusConnectionRefused},
		"complete": {phaseReplied, func(n *fakeNetwork, f func(context.Context) error) { n.complete = f }, func(ctx context.Context, c *Connector) error { return c.CompleteConnect(ctx) }, rdma.StatusConnectionAborted},
		"accept":   {phaseRequested, func(n *fakeNetwork, f func(context.Context) error) { n.accept = f }, accept, rdma.StatusConnectionAborted},
	} {
		for _, how := range []string{"peer", "context", "close", "close and success"} {
			t.Run(name+" "+how, func(t *testing.T) {
				n := newFakeNetwork()
				c := inPhase(t, n, op.from)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				closed := make(chan struct{})
				want := rdma.StatusCanceled
				op.set(n, func(work context.Context) error {
					switch how {
					case "peer":
						return errors.New("no")
					case "context":
						cancel()
					default:
						go func() {
							defer close(closed)
							c.Close()
						}()
					}
					<-work.Done()
					if how == "close and success" {
						return nil
					}
					return work.Err()
				})
				if how == "peer" {
					want = op.failed
				}
				err := op.call(ctx, c)
				if rdma.StatusOf(err) != want {
					t.Errorf("%v, want %v", err, want)
				}
				if how == "close" || how == "close and success" {
					<-closed
					if !errors.Is(err, net.ErrClosed) {
						t.Errorf("%v", err)
					}
				}
				c.Close()
				if got := n.pair.reserved.Load(); got != 0 && n.conn == nil {
					t.Errorf("the queue pair is reserved %d times", got)
				}
				if n.conn != nil && !n.conn.ended.Load() {
					t.Error("the connection continues")
				}
				<-c.Done()
			})
		}
	}
}

// An unused request or acceptance is refused once. The queue pair is then idle again.
//
// Source: [ND Connector.Reject], [ND IUnknown.Release]
func TestConnectorRefusesInvalidArguments(t *testing.T) {
	for _, p := range []phase{phaseRequested, phaseReplied} {
		for _, reject := range []bool{true, false} {
			n := newFakeNetwork()
			c := inPhase(t, n, p)
			if reject {
				if err := c.Reject([]byte("long")); rdma.StatusOf(err) != rdma.StatusInvalidBufferSize {
					t.Error(err)
				}
				if err := c.Reject([]byte("no")); err != nil {
					t.Error(err)
				}
			}
			c.Close()
			c.Close()
			if n.refused.Load() != 1 || n.pair.reserved.Load() != 0 {
				t.Errorf("phase %d: refused %d times, reserved %d times", p, n.refused.Load(), n.pair.reserved.Load())
			}
			if err := c.Err(); !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
		}
	}
}
