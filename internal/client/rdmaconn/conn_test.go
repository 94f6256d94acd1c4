package rdmaconn

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"lwio/internal/client/barrier"
	"lwio/internal/client/base"
	"lwio/internal/wire"
	"lwio/rdma"
)

// fakePair is a queue pair without a peer. It keeps the messages that were posted.
type fakePair struct {
	rdma.QueuePair
	onPost func(reqs []rdma.Request) // is called without a lock, or nil

	mu       sync.Mutex // guards the following fields
	fails    error
	headers  []wire.Header
	flags    []rdma.Flags
	posts    int
	receives map[uint64]int // number of times each place was posted
}

func (p *fakePair) Post(reqs []rdma.Request) (int, error) {
	if p.onPost != nil {
		p.onPost(reqs)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fails != nil {
		return 0, p.fails
	}
	p.posts++
	for _, r := range reqs {
		g := r.SGL[0]
		var h wire.Header
		if err := h.Decode(g.Region.Bytes()[g.Offset:][:wire.HeaderSize]); err != nil {
			return 0, err
		}
		p.headers, p.flags = append(p.headers, h), append(p.flags, r.Flags)
	}
	return len(reqs), nil
}

func (p *fakePair) PostReceive(reqs []rdma.ReceiveRequest) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range reqs {
		p.receives[r.ID]++
	}
	return len(reqs), nil
}

// sent takes the headers that were posted.
func (p *fakePair) sent() []wire.Header {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.headers
	p.headers = nil
	return list
}

// fakeRegion is registered memory that no peer reaches.
type fakeRegion struct {
	rdma.MemoryRegion
	memory []byte
	token  rdma.RemoteToken
}

func (r *fakeRegion) Bytes() []byte { return r.memory }

func (r *fakeRegion) RemoteAddr() rdma.RemoteAddr { return rdma.RemoteAddr{Token: r.token} }

func (r *fakeRegion) Close() error { return nil }

var errFake = errors.New("the fake connection ended")

// newFake makes the components of a connection with n entries, all of them granted, over a queue
// pair without a peer. Nothing takes completions.
func newFake(n int, mode base.CompletionMode, caps rdma.Caps) (*Conn, *fakePair) {
	return newFakeOf(n, ConnConfig{Mode: mode}, caps)
}

// newFakeOf is newFake with other settings than the mode.
func newFakeOf(n int, cfg ConnConfig, caps rdma.Caps) (*Conn, *fakePair) {
	pair := &fakePair{receives: map[uint64]int{}}
	cfg.Counts = new(base.Counts)
	c := &Conn{Fabric: "fake", qp: pair, cfg: cfg}
	c.info.Caps = caps | rdma.CapInOrderPlacement
	c.compose()
	c.table.init(n, 4)
	c.status.polled = newRequestSet(n)
	c.send.init(n)
	c.receives.init(n + 1)
	m := &c.memory
	m.sendSize, m.bounceSize, m.readSize = headerSize+CopyWrite, bounceAlign, bounceAlign
	words := make([]atomic.Uint64, n)
	m.sendMR = &fakeRegion{memory: make([]byte, n*m.sendSize)}
	m.bounceMR = &fakeRegion{memory: make([]byte, n*m.bounceSize), token: 7}
	m.recvMR = &fakeRegion{memory: make([]byte, (n+1)*m.statusSize)}
	m.statusMR = &fakeRegion{token: 8}
	m.blocks = statusMemory(make([]byte, 8*n))
	m.assign(c.table.entries)
	for i := range c.table.entries {
		c.table.entries[i].block = &words[i]
	}
	if err := c.credits.init(); err != nil {
		panic(err) // the fake queue pair takes every receive
	}
	if err := c.credits.granted(n); err != nil {
		panic(err)
	}
	return c, pair
}

// fakeOperation is an operation with one request.
type fakeOperation struct {
	Ticket
	header     func() wire.Header
	ios        wire.IOStatusBlock
	err        error
	data       string
	answers    int
	abandoned  int
	unanswered int
}

func newOperation(to *Arrivals, header func() wire.Header) *fakeOperation {
	o := &fakeOperation{header: header}
	o.Owner, o.To = o, to
	return o
}

func (o *fakeOperation) Message(_ *Request, h *wire.Header, data *Payload) {
	*h, *data = o.header(), Payload{}
}

func (o *fakeOperation) Deliver(bounce []byte, ios wire.IOStatusBlock) {
	o.data = string(bounce[:min(int(ios.Information), len(bounce))])
}

func (o *fakeOperation) Answer(ios wire.IOStatusBlock, err error) {
	o.ios, o.err = ios, err
	o.answers++
}

func (o *fakeOperation) Abandon() *barrier.Epoch {
	o.abandoned++
	return nil
}

func (o *fakeOperation) Unanswered(*Conn) { o.unanswered++ }

// aRead is the header of a read of file 5.
func aRead() wire.Header { return wire.NewRead(5, 0, wire.RDMARegion{Length: 1}) }

// postRead posts a read of n bytes.
func postRead(t testing.TB, c *Conn, n int) *fakeOperation {
	t.Helper()
	o := newOperation(new(Arrivals), aRead)
	o.To.need.Store(1)
	set := c.TakeCredits(1)
	s := c.NextCredit(&set)
	if s == nil {
		t.Fatal("there is no credit")
	}
	o.Prepare(s, IO{Bytes: n})
	c.AddPending(1)
	c.Post([]*Ticket{&o.Ticket}, false)
	return o
}

// answer delivers status messages to requests.
func answer(t testing.TB, c *Conn, list ...wire.StatusResponse) {
	t.Helper()
	d := delivery{r: &c.answers}
	for _, a := range list {
		if err := c.answers.deliver(a, nil, &d); err != nil {
			t.Fatal(err)
		}
	}
	d.handOver()
}

// messageFor is the status message that answers a request.
func messageFor(h wire.Header, information, status uint32) wire.StatusResponse {
	return wire.StatusResponse{Cookie: h.Cookie, Information: information, Status: status}
}
