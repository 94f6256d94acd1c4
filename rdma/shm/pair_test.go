//go:build linux

package shm

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"lwio/rdma"
)

// patience is the time that a test waits for an immediate event.
const patience = time.Minute

// patient returns the configuration with time limits under which no start-up fails on a
// busy machine.
func patient(cfg *Config) *Config {
	var c Config
	if cfg != nil {
		c = *cfg
	}
	for _, limit := range []*time.Duration{&c.RequestTimeout, &c.ReplyTimeout, &c.ReadyTimeout} {
		if *limit == 0 {
			*limit = patience
		}
	}
	return &c
}

// side is one end of a connection in this process.
type side struct {
	a      rdma.Adapter
	rcq    rdma.CompletionQueue
	icq    rdma.CompletionQueue
	qp     rdma.QueuePair
	conn   rdma.Connector
	mem    []byte // of Alloc
	region rdma.MemoryRegion
}

func must[T any](tb testing.TB) func(T, error) T {
	return func(v T, err error) T {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return v
	}
}

// newSide makes an unconnected side with size bytes of shareable memory.
func newSide(tb testing.TB, cfg *Config, size int) *side {
	tb.Helper()
	return newSideOn(tb, New(patient(cfg)), size)
}

// newSideOn makes an unconnected side on a provider.
func newSideOn(tb testing.TB, p *Provider, size int) *side {
	tb.Helper()
	return newSideAs(tb, p, size, rdma.QueuePairConfig{})
}

// newSideAs makes an unconnected side with the queue pair configuration cfg. Zero sizes
// get defaults.
func newSideAs(tb testing.TB, p *Provider, size int, cfg rdma.QueuePairConfig) *side {
	tb.Helper()
	ctx := tb.Context()
	a := must[rdma.Adapter](tb)(p.OpenAdapter(ctx, netip.Addr{}))
	tb.Cleanup(func() { a.Close() })
	s := &side{a: a}
	s.rcq = must[rdma.CompletionQueue](tb)(a.CreateCompletionQueue(1024))
	s.icq = must[rdma.CompletionQueue](tb)(a.CreateCompletionQueue(1024))
	cfg.ReceiveCQ, cfg.InitiatorCQ, cfg.ReceiveDepth, cfg.InitiatorDepth = s.rcq, s.icq, 256, 256
	cfg.MaxReceiveSGE, cfg.MaxInitiatorSGE, cfg.InlineSize = 4, 4, 256
	s.qp = must[rdma.QueuePair](tb)(a.CreateQueuePair(cfg))
	s.conn = must[rdma.Connector](tb)(a.CreateConnector())
	s.mem, s.region = s.alloc(tb, size)
	return s
}

// alloc returns memory of the adapter, and a region of all of it.
func (s *side) alloc(tb testing.TB, size int) ([]byte, rdma.MemoryRegion) {
	tb.Helper()
	m := must[rdma.Memory](tb)(s.a.Alloc(tb.Context(), size))
	return m.Bytes(), must[rdma.MemoryRegion](tb)(s.a.RegisterMemory(tb.Context(), m.Bytes(), readable))
}

// readable are the rights of memory that the peer may read and write.
const readable = rdma.AccessRemoteRead | rdma.AccessRemoteWrite

// someReads are the read limits of the connections of the tests.
var someReads = rdma.ReadLimits{Inbound: 4, Outbound: 4}

// listen makes a side listen.
func (s *side) listen(tb testing.TB) (rdma.Listener, rdma.Addr) {
	tb.Helper()
	l := must[rdma.Listener](tb)(rdma.Listen(tb.Context(), s.a, rdma.Addr{Fabric: Name}, 0))
	return l, must[rdma.Addr](tb)(l.LocalAddr())
}

// serve accepts one connection.
func (s *side) serve(ctx context.Context, l rdma.Listener) error {
	if err := l.ConnectionRequest(ctx, s.conn); err != nil {
		return err
	}
	return s.conn.Accept(ctx, s.qp, someReads, nil)
}

// connected makes two sides and connects them.
func connected(tb testing.TB, cfg *Config, size int) (active, passive *side) {
	tb.Helper()
	return join(tb, newSide(tb, cfg, size), newSide(tb, cfg, size))
}

// connectedOn makes two sides on one provider and connects them.
func connectedOn(tb testing.TB, p *Provider, size int) (active, passive *side) {
	tb.Helper()
	return join(tb, newSideOn(tb, p, size), newSideOn(tb, p, size))
}

// join connects two sides.
func join(tb testing.TB, active, passive *side) (*side, *side) {
	tb.Helper()
	l, addr := passive.listen(tb)
	accepted := make(chan error, 1)
	go func() { accepted <- passive.serve(tb.Context(), l) }()
	active.dial(tb, addr)
	if err := <-accepted; err != nil {
		tb.Fatal(err)
	}
	return active, passive
}

func (s *side) dial(tb testing.TB, addr rdma.Addr) {
	tb.Helper()
	ctx := tb.Context()
	err := errors.Join(s.conn.Bind(ctx, rdma.Addr{}), s.conn.Connect(ctx, s.qp, addr, someReads, nil))
	if err == nil {
		err = s.conn.CompleteConnect(ctx)
	}
	if err != nil {
		tb.Fatal(err)
	}
}

// sge names n bytes of the side's memory.
func (s *side) sge(off, n int) []rdma.SGE {
	return []rdma.SGE{{Region: s.region, Offset: off, Length: n}}
}

// at returns the remote address of the byte at off of the side's memory.
func (s *side) at(off int) rdma.RemoteAddr {
	a := s.region.RemoteAddr()
	a.Addr += uint64(off)
	return a
}

func (s *side) post(tb testing.TB, reqs ...rdma.Request) {
	tb.Helper()
	if n, err := s.qp.Post(reqs); n != len(reqs) || err != nil {
		tb.Fatalf("post: took %d, %v", n, err)
	}
}

// next takes one result.
func next(tb testing.TB, cq rdma.CompletionQueue) rdma.Result {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var res [1]rdma.Result
	for {
		n, err := cq.Poll(res[:])
		if n == 1 {
			return res[0]
		}
		if err == nil {
			err = cq.Wait(ctx, rdma.NotifyAny)
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
}

// write writes and waits for the result.
func (s *side) write(tb testing.TB, req rdma.Request) rdma.Result {
	tb.Helper()
	req.Op = rdma.OpWrite
	s.post(tb, req)
	return next(tb, s.icq)
}

// read reads and waits for the result.
func (s *side) read(tb testing.TB, sgl []rdma.SGE, at rdma.RemoteAddr) rdma.Result {
	tb.Helper()
	s.post(tb, rdma.Request{Op: rdma.OpRead, SGL: sgl, Remote: at})
	return next(tb, s.icq)
}

// deliver sends an empty message to the peer and waits until it has arrived.
func (s *side) deliver(tb testing.TB, peer *side) {
	tb.Helper()
	if _, err := peer.qp.PostReceive([]rdma.ReceiveRequest{{}}); err != nil {
		tb.Fatal(err)
	}
	s.post(tb, rdma.Request{Op: rdma.OpSend})
	if res := next(tb, s.icq); res.Status != rdma.StatusSuccess {
		tb.Fatal(res.Status)
	}
	if res := next(tb, peer.rcq); res.Status != rdma.StatusSuccess {
		tb.Fatal(res.Status)
	}
}

// eventually waits until f is true.
func eventually(tb testing.TB, what string, f func() bool) {
	tb.Helper()
	for end := time.Now().Add(patience); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			tb.Fatalf("%s: does not happen", what)
		}
	}
}

// ends waits for the end of a connection and returns its error.
func ends(tb testing.TB, c rdma.Connector) error {
	tb.Helper()
	select {
	case <-c.Done():
	case <-time.After(patience):
		tb.Fatal("the connection does not end")
	}
	return c.Err()
}

// inside returns the connection of a side.
func (s *side) inside() *conn { return s.qp.(*queuePair).conn.Load() }

// introduce writes a byte by copy, and waits until the peer's region can be written
// directly.
func (s *side) introduce(tb testing.TB, region rdma.MemoryRegion) {
	tb.Helper()
	at := region.RemoteAddr()
	s.write(tb, rdma.Request{Flags: rdma.FlagInline, Inline: []byte{0}, Remote: at})
	eventually(tb, "the region is shared", func() bool { return s.inside().mappings.knows(uint32(at.Token)) })
	eventually(tb, "the ring is empty", s.drained)
}

func (s *side) drained() bool { return s.inside().own.Tail.Load() == s.inside().peer.Head.Load() }
