package rdmaconn

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"lwio/internal/client/base"
	"lwio/internal/poller"
	"lwio/rdma"
)

// The sizes of a connection's own memory, in bytes.
const (
	// CopyWrite is up to how many bytes a write is copied behind its header
	// instead of gathered from the caller's memory, which is registered for that;
	// copyBuffer is the same of a part of a Buffer, which is registered already.
	CopyWrite  = 4096
	CopyBuffer = 1024
	// maxGather is how many parts one message is gathered from, its header included.
	maxGather = 16
	// SignalEvery is the number of sends of which one makes a result, so that the
	// others give back their places in the queue.
	SignalEvery = 32
	// postRounds is how many times a caller posts for others before it hands over.
	postRounds = 16
	// pollBatch is how many results are taken at once.
	pollBatch = 64
	// WatchParts is the number of the watchdog's ticks in Config.Timeout.
	WatchParts = 4
	// CloseGrace bounds the orderly end of a connection, and of all that a client has.
	CloseGrace = time.Second
)

// ConnConfig are the settings of a connection.
type ConnConfig struct {
	Counts        *base.Counts
	Credits       int // messages in flight to ask for
	Mode          base.CompletionMode
	CopyThreshold int
	ReadSize      int
	Window        int // bytes of one RDMA write of the server
	Timeout       time.Duration
}

// Conn is one RDMA connection to a server: an adapter of its own, so that one
// server's requests can never reach memory exposed to another, a queue pair, and a
// table of entries, one for each credit.
//
// A call takes an entry, posts its message, and waits for the entry. One that waits
// hands out the completions for all and wakes the parked calls; the reader goroutine
// does while no call waits. The supervisor goroutine watches over time limits and the
// end of the connection, and tears it down.
type Conn struct {
	Cfg       ConnConfig
	Counts    *base.Counts
	Owner     owner // the path that the connection belongs to
	Fabric    string
	Remote    rdma.Addr
	Skipped   []base.Skipped // the preferred providers that are not used
	Adapter   rdma.Adapter
	Info      rdma.AdapterInfo
	cq        rdma.CompletionQueue
	qp        rdma.QueuePair
	connector rdma.Connector
	Born      time.Time

	// Set by authenticate.
	Peer        peerParams
	firstNumber uint64 // the number of the first message after AUTH
	priorFirst  uint64 // that of the connection that this one replaced
	Lineage     uint64 // is that of the connection that this one replaced, if the server knows the outcomes of its writes

	immediates uint32 // all ones if the adapter takes immediate data, else 0 [OP-86]

	Memory   messageMemory
	Table    requestTable
	Credits  credits
	Queue    sendQueue
	Status   statusBlocks
	Progress progress
	Life     lifecycle
	buffers  buffers

	Ticks      atomic.Int64 // of the watchdog
	Seen       atomic.Int64 // I/O requests that were seen complete
	Unanswered atomic.Int64 // writes that were sent and not answered
	Wanting    atomic.Int64 // requests in flight or queued, the hint in every header
}

// messageMemory is the memory of a connection's messages, in regions of its own.
type messageMemory struct {
	mem  rdma.Memory // of messages
	Land rdma.Memory // where the server writes, and nothing else: it may get all of it

	SendMR, LandMR, RecvMR, statusMR rdma.MemoryRegion
}

// requestTable has an entry for each request that may be in flight.
type requestTable struct {
	Entries []Request
	Free    freeRequests
	timers  sync.Pool // of calls that wait for a credit
}

// statusBlocks are the requests that are polled for, and the decision to poll.
type statusBlocks struct {
	polling atomic.Bool // requests may ask for status blocks
	Polled  requestSet  // those that did and are outstanding
	paces   paces
	armed   atomic.Bool // an INTERRUPT is outstanding
}

// progress is how completions are taken: by the poller, which looks at status blocks or
// sleeps on the completion queue.
type progress struct {
	Poller   poller.Poller
	single   atomic.Bool // the program has one processor
	asleep   atomic.Bool // the poller is in Wait
	spinning atomic.Bool // a call looks without having parked

	// mu is held while completions are taken; it guards the following fields.
	mu      sync.Mutex
	scratch scratch
	woken   bool // an INTERRUPT was answered
}

// lifecycle is the end of a connection, from the failure until everything is freed.
type lifecycle struct {
	// Mu is held, read side, by every call that uses the connection's memory,
	// and taken by the teardown.
	Mu       sync.RWMutex
	failOnce sync.Once
	Failed   atomic.Bool   // set by Fail, after Err
	Down     chan struct{} // closed after that
	Err      error
	reading  sync.WaitGroup
	Gone     chan struct{} // closed when everything is freed
	Watchers closeWatchers
}

// sendQueue orders the messages of a connection. One caller at a time posts, with the
// messages that others have queued meanwhile, so that many messages cost one system call.
type sendQueue struct {
	sent      atomic.Int64 // I/O requests; changes under Mu
	returning atomic.Int64 // calls that were woken together and have not sent again; only if gathers
	gathers   bool         // calls wait for each other, as a post costs a system call

	Mu          sync.Mutex // guards the following fields
	seq         uint64     // the number of the next message; its low 16 bits are the Sequence
	Sends       int
	fresh       int64        // I/O requests in queue that sent does not count yet
	freshPolled SomeRequests // those of them that are polled for, and not in statusBlocks.Polled yet
	Posting     bool
	round       uint64 // of posts, that the next message goes with
	over        uint64 // rounds that are done with
	queue       []rdma.Request
	batch       []rdma.Request // the requests being posted; owned by the caller that posts
}

// DialConn connects to remote and starts the goroutines. The connection is not
// authenticated yet. close must be called in the end, also after a failure of
// the calls on the connection.
func DialConn(ctx context.Context, p rdma.Provider, remote rdma.Addr, cfg ConnConfig) (*Conn, error) {
	a, err := p.OpenAdapter(ctx, NoLocalAddr)
	if err != nil {
		return nil, err
	}
	c := &Conn{
		Cfg: cfg, Counts: cfg.Counts, Fabric: p.Name(), Remote: remote, Adapter: a, Info: a.Info(),
		Born: time.Now(), Life: lifecycle{Down: make(chan struct{}), Gone: make(chan struct{})},
	}
	c.Progress.Poller.Init(readerRest, longestRest)
	c.countProcessors()
	if err := c.setUp(ctx); err != nil {
		a.Close()
		return nil, err
	}
	// Reads are not part of the protocol: no limits are offered. [OP-104]
	c.connector, err = rdma.Dial(ctx, a, c.qp, remote, rdma.DialConfig{})
	if err != nil {
		c.qp.Close()
		c.Memory.close()
		a.Close()
		return nil, err
	}
	c.Life.reading.Add(1)
	go c.read()
	go c.supervise()
	return c, nil
}

// setUp makes queues, memory and entries, and posts the receives: one for each
// message that may be in flight and one for a change of credits. [OP-65]
func (c *Conn) setUp(ctx context.Context) error {
	n := min(c.Cfg.Credits, c.Info.MaxReceiveQueueDepth-1, (c.Info.MaxInitiatorQueueDepth-SignalEvery)/2,
		(c.Info.MaxCompletionQueueDepth-SignalEvery-1)/3)
	if n < 1 || c.Info.MaxInitiatorSGE < 2 {
		return fmt.Errorf("the adapter's limits are too low: %w", errors.ErrUnsupported)
	}
	c.Cfg.Credits = n
	c.Queue.gathers = !c.Info.Caps.Has(rdma.CapDirectAlloc)
	if c.Info.Caps.Has(rdma.CapImmediate) {
		c.immediates = math.MaxUint32
	}
	var err error
	// An answer, and with it the credit, may be here before the provider has done
	// with the send: twice the credits, and the sends without a result, take places.
	sends := 2*n + SignalEvery
	if c.cq, err = c.Adapter.CreateCompletionQueue(n + 1 + sends); err != nil {
		return err
	}
	c.qp, err = c.Adapter.CreateQueuePair(rdma.QueuePairConfig{
		ReceiveCQ: c.cq, InitiatorCQ: c.cq,
		ReceiveDepth: n + 1, InitiatorDepth: sends,
		MaxReceiveSGE: 1, MaxInitiatorSGE: min(c.Info.MaxInitiatorSGE, maxGather),
	})
	if err != nil {
		return err
	}
	if err := c.allocate(ctx, n); err != nil {
		return err
	}
	return c.Credits.init(c, n)
}

// Fail ends the connection for the first reason that is given.
func (c *Conn) Fail(cause error) {
	c.Life.failOnce.Do(func() {
		var named *rdma.Error
		if !errors.As(cause, &named) { // which says the provider
			cause = fmt.Errorf("%s: %w", c.Fabric, cause)
		}
		c.Life.Err = base.Lost(cause)
		c.Life.Failed.Store(true)
		close(c.Life.Down)
		c.Progress.Poller.WakePoller()
		c.Life.Watchers.wake()
	})
}

// IsDown reports whether the connection has ended.
func (c *Conn) IsDown() bool { return c.Life.Failed.Load() }

// Close ends the connection and waits until its goroutines are gone and its
// memory is free.
func (c *Conn) Close() {
	c.Fail(net.ErrClosed)
	<-c.Life.Gone
}

// supervise runs until the connection is torn down.
func (c *Conn) supervise() {
	defer close(c.Life.Gone)
	tick := time.NewTicker(max(c.Cfg.Timeout/WatchParts, time.Millisecond))
	defer tick.Stop()
	ended := c.connector.Done()
	for {
		select {
		case <-ended:
			c.Fail(c.connector.Err())
			ended = nil
		case <-tick.C:
			c.Watch()
		case <-c.Life.Down:
			c.tearDown()
			return
		}
	}
}

// Watch tells the waiters of requests older than Config.Timeout, and ends a
// connection on which a request is twice as old. Calls with a deadline of their own
// see to that themselves; their requests age from when they are given up.
//
// Source: [OP-110], [OP-113]
func (c *Conn) Watch() {
	c.countProcessors()
	now := c.Ticks.Add(1)
	var l Delivery
	for i := range c.Table.Entries {
		s := &c.Table.Entries[i]
		c.look(s, &l)
		l.HandOver(c)
		w := s.Word.Load()
		st := RequestState(w & StateMask)
		age := now - s.Tick.Load()
		if st != RequestPending && st != requestExpired && st != RequestAbandoned || age <= WatchParts {
			continue
		}
		if age > 2*WatchParts && s.Word.Load() == w {
			c.Fail(fmt.Errorf("no answer in %v: %w", 2*c.Cfg.Timeout, os.ErrDeadlineExceeded))
			return
		}
		if st == RequestPending && s.Word.CompareAndSwap(w, w&^StateMask|uint64(RequestSettling)) {
			c.Expire(s)
		}
	}
}

// countProcessors notes whether the program has one processor. The number can change.
func (c *Conn) countProcessors() { c.Progress.single.Store(runtime.GOMAXPROCS(0) == 1) }

// tearDown frees everything. Waiters have seen down and leave by themselves.
func (c *Conn) tearDown() {
	if errors.Is(c.Life.Err, net.ErrClosed) && !errors.Is(c.Life.Err, base.ErrProtocol) {
		ctx, cancel := context.WithTimeout(context.Background(), CloseGrace)
		_ = c.connector.Disconnect(ctx) // the connection may be gone, which is as good
		cancel()
	}
	c.connector.Close()
	c.qp.Close()
	c.Life.reading.Wait()
	c.Life.Mu.Lock()
	defer c.Life.Mu.Unlock()
	for i := range c.Table.Entries {
		s := &c.Table.Entries[i]
		if s.Op != nil && s.State() == RequestPending {
			s.Op.Owner.Unanswered(c)
		}
		s.drop()
		s.Set(RequestDead)
	}
	c.Memory.close()
	c.cq.Close()
	c.buffers.tearDown(c)
}

// isGone reports whether no other goroutine can reach memory through the connection any more.
func (l *lifecycle) isGone() bool {
	select {
	case <-l.Gone:
		return true
	default:
		return false
	}
}

// TornDown waits until isGone, for a connection that is down.
func (c *Conn) TornDown(ctx context.Context) error {
	select {
	case <-c.Life.Gone:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Enter must succeed before a call touches the connection's memory; leave must
// follow.
func (c *Conn) Enter() error {
	if err := c.Pin(); err != nil {
		return err
	}
	c.Wanting.Add(1)
	return nil
}

// Leave ends the use that Enter began.
func (c *Conn) Leave() {
	c.Wanting.Add(-1)
	c.Unpin()
}

// Pin is enter for requests that count themselves; unpin must follow.
func (c *Conn) Pin() error {
	if !c.Life.Mu.TryRLock() {
		// Only the teardown takes the lock, once the connection is down.
		<-c.Life.Down
		return c.Life.Err
	}
	if c.IsDown() {
		c.Life.Mu.RUnlock()
		return c.Life.Err
	}
	return nil
}

// Unpin ends the use that Pin began.
func (c *Conn) Unpin() { c.Life.Mu.RUnlock() }

// mayPoll reports whether requests may ask for status blocks at all.
//
// Source: [OP-88]
func (c *Conn) mayPoll() bool {
	return c.Cfg.Mode != base.Interrupt && c.Info.Caps.Has(rdma.CapInOrderPlacement)
}

// polls decides how the answer to the request of an entry is waited for.
func (c *Conn) polls(s *Request) bool {
	s.pace = nil
	switch {
	case !s.Kind.io() || !c.Status.polling.Load():
		return false
	case c.Cfg.Mode == base.Polling:
		return true
	case c.Wanting.Load() > adaptiveDepth:
		return false
	}
	s.pace = c.Status.paces.of(s.Kind, s.Want)
	return s.pace.polls()
}

// owner is the path that a connection belongs to, of which it knows no more.
type owner interface {
	// AllUp reports whether every path has a connection. Those before it are torn down then.
	AllUp() bool
	// Bounded gives ctx the default deadline if it has none.
	Bounded(ctx context.Context) (context.Context, context.CancelFunc)
}

// Transport describes the connection.
func (c *Conn) Transport() base.Transport {
	reason := "authenticated with the key of the SMB session"
	if !c.Peer.Keyed {
		reason = "authenticated without a key: the server signs with MD5 alone"
	}
	return base.Transport{Name: c.Fabric, Addr: c.Remote.String(), Keyed: c.Peer.Keyed, Reason: reason, Skipped: c.Skipped}
}

// NoLocalAddr leaves the choice of the adapter to the provider.
var NoLocalAddr netip.Addr
