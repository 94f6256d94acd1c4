package fault_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"lwio/internal/test/leakcheck"
	"lwio/internal/test/skip"
	"lwio/rdma"
	"lwio/rdma/iwarp"
	"lwio/rdma/rdmatest/fault"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

// side is one end of a connection.
type side struct {
	adapter rdma.Adapter
	cq      rdma.CompletionQueue
	qp      rdma.QueuePair
	mem     []byte
	region  rdma.MemoryRegion
	conn    rdma.Connector
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newSide(t testing.TB, p rdma.Provider, queuePair uint64) *side {
	t.Helper()
	a, err := p.OpenAdapter(t.Context(), netip.MustParseAddr("127.0.0.1"))
	check(t, err)
	t.Cleanup(func() { check(t, a.Close()) })
	s := &side{adapter: a, mem: make([]byte, 4096)}
	s.cq, err = a.CreateCompletionQueue(64)
	check(t, err)
	s.region, err = a.RegisterMemory(t.Context(), s.mem, rdma.AccessRemoteWrite)
	check(t, err)
	s.qp, err = a.CreateQueuePair(rdma.QueuePairConfig{
		ReceiveCQ: s.cq, InitiatorCQ: s.cq, Context: queuePair,
		ReceiveDepth: 16, InitiatorDepth: 16, MaxReceiveSGE: 2, MaxInitiatorSGE: 2, InlineSize: 16,
	})
	check(t, err)
	s.conn, err = a.CreateConnector()
	check(t, err)
	return s
}

var limits = rdma.ReadLimits{Inbound: 4, Outbound: 4}

// connected returns the two ends of a connection. The active one is wrapped.
func connected(t testing.TB, h *fault.Provider) (active, passive *side) {
	t.Helper()
	active, passive = newSide(t, h, 7), newSide(t, iwarp.New(nil), 0)
	l, err := rdma.Listen(t.Context(), passive.adapter, rdma.IPAddr("iwarp", netip.MustParseAddrPort("127.0.0.1:0")), 0)
	check(t, err)
	addr, err := l.LocalAddr()
	check(t, err)
	passive.receive(t, 0, 0)
	accepted := make(chan error, 1)
	go func() {
		err := l.ConnectionRequest(t.Context(), passive.conn)
		if err == nil {
			err = passive.conn.Accept(t.Context(), passive.qp, limits, nil)
		}
		accepted <- err
	}()
	check(t, active.conn.Bind(t.Context(), rdma.Addr{}))
	check(t, active.conn.Connect(t.Context(), active.qp, addr, limits, nil))
	check(t, active.conn.CompleteConnect(t.Context()))
	check(t, <-accepted)
	return active, passive
}

func (s *side) sge(off, n int) []rdma.SGE {
	return []rdma.SGE{{Region: s.region, Offset: off, Length: n}}
}

func (s *side) at(off int) rdma.RemoteAddr {
	a := s.region.RemoteAddr()
	a.Addr += uint64(off)
	return a
}

func (s *side) receive(t testing.TB, id uint64, n int) {
	t.Helper()
	_, err := s.qp.PostReceive([]rdma.ReceiveRequest{{ID: id, SGL: s.sge(0, n)}})
	check(t, err)
}

func (s *side) next(t testing.TB) rdma.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var res [1]rdma.Result
	for {
		n, err := s.cq.Poll(res[:])
		check(t, err)
		if n == 1 {
			return res[0]
		}
		check(t, s.cq.Wait(ctx, rdma.NotifyAny))
	}
}

func TestStatsCountRequestsAndResults(t *testing.T) {
	h := fault.Wrap(iwarp.New(nil), nil)
	active, passive := connected(t, h)
	passive.receive(t, 1, 100)
	n, err := active.qp.Post([]rdma.Request{
		{Op: rdma.OpSend},
		{Op: rdma.OpWrite, SGL: active.sge(0, 1000), Remote: passive.at(0)},
		{Op: rdma.OpSend, Flags: rdma.FlagInline, Inline: make([]byte, 10)},
		{Op: rdma.OpSend, Flags: rdma.FlagAllowRead},
	})
	if n != 3 || rdma.StatusOf(err) != rdma.StatusInvalidParameterN(4) {
		t.Fatalf("post: %d, %v", n, err)
	}
	for range 3 {
		active.next(t)
	}
	for range 2 {
		passive.next(t)
	}
	active.receive(t, 5, 64)
	_, err = passive.qp.Post([]rdma.Request{{Op: rdma.OpSend, SGL: passive.sge(0, 33)}})
	check(t, err)
	active.next(t)
	active.receive(t, 6, 64)
	check(t, active.conn.Disconnect(t.Context()))
	if res := active.next(t); res.Status != rdma.StatusCanceled || res.QueuePairContext != 7 {
		t.Errorf("flushed receive: %+v", res)
	}

	s := h.Stats()
	for op, want := range map[rdma.Op]fault.OpStats{
		rdma.OpSend:    {Posted: 2, Bytes: 10, Refused: 1, Completed: 2},
		rdma.OpWrite:   {Posted: 1, Bytes: 1000, Completed: 1},
		rdma.OpReceive: {Posted: 2, Bytes: 128, Completed: 2, Failed: 1, Received: 33},
	} {
		if s.Ops[op] != want {
			t.Errorf("%v: %+v, want %+v", op, s.Ops[op], want)
		}
	}
	if s.Results[rdma.StatusSuccess] != 4 || s.Results[rdma.StatusCanceled] != 1 {
		t.Errorf("results: %v", s.Results)
	}
	if s.Connections != 1 || s.Regions != 1 || s.RegionBytes != 4096 || s.Exposed != 1 {
		t.Errorf("stats: %+v", s)
	}
}

// recorder is a tracer that keeps its events.
type recorder struct {
	mu     sync.Mutex
	events []fault.Event
}

func (r *recorder) Event(e fault.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

func TestTracerGetsEveryEvent(t *testing.T) {
	rec := new(recorder)
	active, passive := connected(t, fault.Wrap(iwarp.New(nil), &fault.Config{Tracer: rec}))
	_, err := active.qp.Post([]rdma.Request{{Op: rdma.OpWrite, ID: 3, SGL: active.sge(8, 24), Remote: passive.at(5)}})
	check(t, err)
	want := active.next(t)
	if _, err := active.qp.Post([]rdma.Request{{Op: 99, ID: 4}}); err == nil {
		t.Fatal("an operation that is none was taken")
	}
	var done []string
	posted, refused, completed := 0, 0, 0
	rec.mu.Lock()
	defer rec.mu.Unlock()
	for _, e := range rec.events {
		switch e := e.(type) {
		case fault.Posted:
			if e.QueuePair != 7 {
				t.Errorf("event of queue pair %d", e.QueuePair)
			}
			if e.Err != nil {
				refused++
			} else if posted++; e.ID != 3 || e.Bytes != 24 || e.Op != rdma.OpWrite || e.Remote != passive.at(5) {
				t.Errorf("posted: %+v", e)
			}
		case fault.Completed:
			if completed++; e.Result != want {
				t.Errorf("completed: %+v, want %+v", e.Result, want)
			}
		case fault.Controlled:
			if e.Err != nil || e.Took < 0 {
				t.Errorf("control: %+v", e)
			}
			if e.Op != "notify" {
				done = append(done, e.Op)
			}
		}
	}
	if posted != 1 || refused != 1 || completed != 1 {
		t.Errorf("%d posts, %d refusals, %d results", posted, refused, completed)
	}
	calls := []string{"open adapter", "create completion queue", "register memory", "create queue pair", "bind", "connect", "complete connect"}
	for i, op := range calls {
		if i >= len(done) || done[i] != op {
			t.Fatalf("calls are %q, want %q", done, calls)
		}
	}
}

// at returns a fault function that acts on request n.
func at(n uint64, act fault.Action) func(fault.Attempt) fault.Action {
	return func(a fault.Attempt) fault.Action {
		if a.N == n {
			return act
		}
		return fault.Pass()
	}
}

func TestDropSucceedsWithoutEffect(t *testing.T) {
	for _, op := range []rdma.Op{rdma.OpSend, rdma.OpWrite} {
		active, passive := connected(t, fault.Wrap(iwarp.New(nil), &fault.Config{Fault: at(3, fault.Drop())}))
		passive.receive(t, 1, 8)
		passive.receive(t, 2, 8)
		for i := range 8 {
			active.mem[i] = 0xff
		}
		_, err := active.qp.Post([]rdma.Request{
			{Op: rdma.OpSend, ID: 10},
			{Op: rdma.OpWrite, ID: 11, Flags: rdma.FlagSilentSuccess, SGL: active.sge(0, 4), Remote: passive.at(100)},
			{Op: op, ID: 12, SGL: active.sge(0, 8), Remote: passive.at(200)},
			{Op: rdma.OpSend, ID: 13, SGL: active.sge(0, 5)},
		})
		check(t, err)
		for _, want := range []rdma.Result{{Op: rdma.OpSend, ID: 10}, {Op: op, ID: 12}, {Op: rdma.OpSend, ID: 13}} {
			got := active.next(t)
			got.Bytes = 0
			if want.QueuePairContext = 7; got != want {
				t.Errorf("result %+v, want %+v", got, want)
			}
		}
		if res := passive.next(t); res.Bytes != 0 {
			t.Errorf("first message: %+v", res)
		}
		if res := passive.next(t); res.Bytes != 5 {
			t.Errorf("the message after the dropped request: %+v", res)
		}
		if passive.mem[100] == 0 || passive.mem[200] != 0 {
			t.Errorf("dropping a %v: placed %#x and %#x", op, passive.mem[100], passive.mem[200])
		}
	}
}

func TestFailLeavesQueueUsable(t *testing.T) {
	active, passive := connected(t, fault.Wrap(iwarp.New(nil), &fault.Config{Fault: at(2, fault.Fail(rdma.StatusInsufficientResources))}))
	passive.receive(t, 1, 8)
	n, err := active.qp.Post([]rdma.Request{{Op: rdma.OpSend}, {Op: rdma.OpWrite}, {Op: rdma.OpWrite}})
	if n != 1 || !errors.Is(err, rdma.StatusInsufficientResources) {
		t.Fatalf("post: %d, %v", n, err)
	}
	n, err = active.qp.Post([]rdma.Request{{Op: rdma.OpWrite}})
	if n != 1 || err != nil {
		t.Errorf("the queue pair after a failed post: %d, %v", n, err)
	}
}

func TestCutEndsConnection(t *testing.T) {
	active, passive := connected(t, fault.Wrap(iwarp.New(nil), &fault.Config{Fault: at(2, fault.Cut())}))
	passive.receive(t, 1, 8)
	n, err := active.qp.Post([]rdma.Request{{Op: rdma.OpSend, ID: 1}, {Op: rdma.OpSend, ID: 2}})
	if n != 1 || !errors.Is(err, net.ErrClosed) {
		t.Fatalf("post: %d, %v", n, err)
	}
	<-passive.conn.Done()
	<-active.conn.Done()
	if res := active.next(t); res.ID != 1 {
		t.Errorf("result: %+v", res)
	}
}

// A fault function that waits delays a request until it returns.
func TestBlockingFaultDelaysRequest(t *testing.T) {
	reached, release := make(chan struct{}), make(chan struct{})
	active, passive := connected(t, fault.Wrap(iwarp.New(nil), &fault.Config{Fault: func(a fault.Attempt) fault.Action {
		if a.N == 2 {
			close(reached)
			<-release
		}
		return fault.Pass()
	}}))
	passive.receive(t, 1, 8)
	posted := make(chan error, 1)
	go func() {
		_, err := active.qp.Post([]rdma.Request{{Op: rdma.OpSend, ID: 1}, {Op: rdma.OpSend, ID: 2}})
		posted <- err
	}()
	<-reached
	if res := active.next(t); res.ID != 1 {
		t.Errorf("result while the second request waits: %+v", res)
	}
	passive.next(t)
	close(release)
	check(t, <-posted)
	if res := passive.next(t); res.Status != rdma.StatusSuccess {
		t.Errorf("the delayed message: %+v", res)
	}
}

// Counting allocates nothing.
func TestPostDoesNotAllocate(t *testing.T) {
	active, passive := connected(t, fault.Wrap(iwarp.New(nil), nil))
	reqs := []rdma.Request{{Op: rdma.OpWrite, SGL: active.sge(0, 64), Remote: passive.at(0)}}
	res := make([]rdma.Result, 1)
	allocs := testing.AllocsPerRun(500, func() {
		if _, err := active.qp.Post(reqs); err != nil {
			t.Fatal(err)
		}
		for {
			n, err := active.cq.Poll(res)
			if err != nil {
				t.Fatal(err)
			}
			if n == 1 {
				return
			}
		}
	})
	if raceEnabled {
		skip.Test(t, "the race detector empties pools")
	}
	if allocs >= 1 {
		t.Errorf("%v allocations for a write", allocs)
	}
}
