package iwarp

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"lwio/internal/test/leakcheck"

	"lwio/rdma"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// side is one end of a connection under test, with all its objects.
type side struct {
	t   testing.TB
	a   rdma.Adapter
	cq  rdma.CompletionQueue // of both queues
	qp  rdma.QueuePair
	con rdma.Connector
	mr  rdma.MemoryRegion
	buf []byte
}

// shape configures the queue pairs of tests.
type shape struct {
	depth, sge, buf int
	context         uint64
	limits          rdma.ReadLimits
}

func newSide(t testing.TB, cfg *Config, s shape) *side {
	t.Helper()
	a, err := New(noTimeouts(cfg)).OpenAdapter(context.Background(), loopback)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return newSideOn(t, a, s)
}

// noTimeouts returns a config with time limits that are long enough for any machine,
// unless the test sets them.
func noTimeouts(cfg *Config) *Config {
	var c Config
	if cfg != nil {
		c = *cfg
	}
	for _, d := range []*time.Duration{&c.RequestTimeout, &c.WriteTimeout, &c.ReplyTimeout, &c.ReadyTimeout, &c.DrainTimeout} {
		if *d == 0 {
			*d = testTimeout
		}
	}
	return &c
}

// newSideOn makes a side on an existing adapter.
func newSideOn(t testing.TB, a rdma.Adapter, s shape) *side {
	t.Helper()
	e := &side{t: t, a: a}
	var err error
	if e.cq, err = a.CreateCompletionQueue(4 * s.depth); err != nil {
		t.Fatal(err)
	}
	if e.qp, err = a.CreateQueuePair(rdma.QueuePairConfig{
		ReceiveCQ: e.cq, InitiatorCQ: e.cq, Context: s.context,
		ReceiveDepth: s.depth, InitiatorDepth: s.depth,
		MaxReceiveSGE: s.sge, MaxInitiatorSGE: s.sge, InlineSize: 1024,
	}); err != nil {
		t.Fatal(err)
	}
	m, err := a.Alloc(context.Background(), s.buf)
	if err != nil {
		t.Fatal(err)
	}
	e.buf = m.Bytes()
	if e.mr, err = a.RegisterMemory(context.Background(), e.buf, rdma.AccessRemoteWrite|rdma.AccessRemoteRead); err != nil {
		t.Fatal(err)
	}
	if e.con, err = a.CreateConnector(); err != nil {
		t.Fatal(err)
	}
	return e
}

// connect makes both ends of a connection, from client to server.
func connect(t testing.TB, ccfg, scfg *Config, s shape) (client, server *side) {
	t.Helper()
	client, server = newSide(t, ccfg, s), newSide(t, scfg, s)
	ctx := context.Background()
	l, err := rdma.Listen(ctx, server.a, rdma.IPAddr(Name, netip.AddrPortFrom(loopback, 0)), 0)
	if err != nil {
		t.Fatal(err)
	}
	addr, err := l.LocalAddr()
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan error, 1)
	go func() {
		err := l.ConnectionRequest(ctx, server.con)
		if err == nil {
			err = server.con.Accept(ctx, server.qp, s.limits, nil)
		}
		accepted <- err
	}()
	if err := client.con.Bind(ctx, rdma.Addr{}); err != nil {
		t.Fatal(err)
	}
	if err := client.con.Connect(ctx, client.qp, addr, s.limits, nil); err != nil {
		t.Fatal(err)
	}
	if err := client.con.CompleteConnect(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-accepted; err != nil {
		t.Fatal(err)
	}
	l.Close()
	return client, server
}

// wantDone waits for the end of the connection.
func (e *side) wantDone() {
	e.t.Helper()
	select {
	case <-e.con.Done():
	case <-time.After(testTimeout):
		e.t.Fatal("the connection goes on")
	}
}

// next waits for a result.
func (e *side) next() rdma.Result {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	var r [1]rdma.Result
	for {
		n, err := e.cq.Poll(r[:])
		if n == 1 {
			return r[0]
		}
		if err == nil {
			err = e.cq.Wait(ctx, rdma.NotifyAny)
		}
		if err != nil {
			e.t.Fatal(err)
		}
	}
}

// want waits for a result with these values.
func (e *side) want(op rdma.Op, id uint64, status rdma.Status) rdma.Result {
	e.t.Helper()
	r := e.next()
	if r.Op != op || r.ID != id || r.Status != status {
		e.t.Fatalf("result %v %d %v, want %v %d %v", r.Op, r.ID, r.Status, op, id, status)
	}
	return r
}

func (e *side) recv(id uint64, off, n int) {
	e.t.Helper()
	if _, err := e.qp.PostReceive([]rdma.ReceiveRequest{{ID: id, SGL: e.sgl(off, n)}}); err != nil {
		e.t.Fatal(err)
	}
}

func (e *side) sgl(off, n int) []rdma.SGE {
	return []rdma.SGE{{Region: e.mr, Offset: off, Length: n}}
}

func (e *side) post(r ...rdma.Request) {
	e.t.Helper()
	if n, err := e.qp.Post(r); n != len(r) || err != nil {
		e.t.Fatal(n, err)
	}
}

// at returns the remote address of a byte of the region.
func (e *side) at(off int) rdma.RemoteAddr {
	a := e.mr.RemoteAddr()
	a.Addr += uint64(off)
	return a
}
