package lwio

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"lwio/internal/waker"
	"lwio/rdma"
)

// The sizes of a connection's own memory, in bytes.
const (
	// copyWrite is up to how many bytes a write is copied behind its header
	// instead of gathered from the caller's memory, which is registered for that;
	// copyBuffer is the same of a part of a Buffer, which is registered already.
	copyWrite  = 4096
	copyBuffer = 1024
	// signalEvery is the number of sends of which one makes a result, so that the
	// others give back their places in the queue.
	signalEvery = 32
	// postRounds is how many times a caller posts for others before it hands over.
	postRounds = 16
	// pollBatch is how many results are taken at once.
	pollBatch = 64
	// watchParts is the number of the watchdog's ticks in Config.Timeout.
	watchParts = 4
	// closeGrace bounds the orderly end of a connection, and of all that a client has.
	closeGrace = time.Second
)

// connConfig is what a connection needs to know.
type connConfig struct {
	counts    *counts
	credits   int // messages in flight to ask for
	mode      CompletionMode
	smallRead int
	readSize  int
	window    int // bytes of one RDMA write of the server
	timeout   time.Duration
}

// conn is one RDMA connection to a server: an adapter of its own, so that one
// server's requests can never reach what was lent to another, a queue pair, and a
// table of slots, one for each credit.
//
// A call takes a slot, posts its message, and waits for the slot. One that waits
// hands out the completions for all and wakes those who sleep; the reader goroutine
// does while nobody waits. The supervisor goroutine watches over time limits and the
// end of the connection, and tears it down.
type conn struct {
	cfg       connConfig
	counts    *counts
	rail      *rail // whose connection this is
	fabric    string
	remote    rdma.Addr
	skipped   []string // which providers were not used, and why
	adapter   rdma.Adapter
	info      rdma.AdapterInfo
	cq        rdma.CompletionQueue
	qp        rdma.QueuePair
	connector rdma.Connector
	mem       rdma.Memory // of messages
	land      rdma.Memory // where the server writes, and nothing else: it may get all of it

	sendMR, landMR, recvMR, statusMR rdma.MemoryRegion

	// Set by authenticate.
	peer    peerParams
	first   uint64 // the number of the first message after AUTH
	recent  uint64 // that of the connection that this one replaced
	lineage uint64 // is that of the connection that this one replaced, if the server knows what became of its writes

	immediates uint32 // all ones if the adapter takes immediate data, else 0 [OP-86]

	buffers  buffers
	born     time.Time
	slots    []slot
	free     freeSlots
	credits  credits
	baton    baton
	sleep    waker.Waker
	polling  atomic.Bool // requests may ask for status blocks
	polled   slotSet     // those that did and are outstanding
	paces    paces
	single   atomic.Bool            // the program has one processor
	asleep   atomic.Bool            // who has the baton is in Wait
	sleeper  atomic.Pointer[waiter] // who does
	spinning atomic.Bool            // a call looks without having parked
	armed    atomic.Bool            // an INTERRUPT is outstanding
	sent     atomic.Int64           // I/O requests; changes under sendMu
	seen     atomic.Int64           // those that were seen complete

	timers     sync.Pool // of those that wait for a credit
	ticks      atomic.Int64
	watchers   closeWatchers
	returning  atomic.Int64 // calls that were woken together and have not sent again
	unanswered atomic.Int64 // writes that were sent and not answered
	wanting    atomic.Int64 // calls in flight or queued, the hint in every header

	// life is held, read side, by every call that uses the connection's memory,
	// and taken by the teardown.
	life     sync.RWMutex
	failOnce sync.Once
	failed   atomic.Bool   // set by fail, after err
	down     chan struct{} // closed after that
	err      error
	stop     context.CancelFunc // ends every sleep
	reading  sync.WaitGroup
	gone     chan struct{} // closed when everything is freed

	// progressMu is held by whoever takes completions; it guards what follows.
	progressMu sync.Mutex
	scratch    scratch
	woken      bool // an INTERRUPT was answered

	// sendMu orders the messages; it guards what follows. One caller at a time
	// posts, with what others have queued meanwhile, so that many messages cost one
	// system call.
	sendMu  sync.Mutex
	seq     uint64 // the number of the next message; its low 16 bits are the Sequence
	sends   int
	fresh   int64     // I/O requests in queue that sent does not count yet
	looked  someSlots // those of them that are polled for, and not in polled yet
	posting bool
	round   uint64 // of posts, that the next message goes with
	over    uint64 // rounds that are done with
	queue   []rdma.Request
	batch   []rdma.Request // what is being posted; owned by the caller that posts
}

// dialConn connects to remote and starts the goroutines. The connection is not
// authenticated yet. close must be called in the end, also after a failure of
// what the connection is used for.
func dialConn(ctx context.Context, p rdma.Provider, remote rdma.Addr, cfg connConfig) (*conn, error) {
	a, err := p.OpenAdapter(ctx, noLocalAddr)
	if err != nil {
		return nil, err
	}
	c := &conn{
		cfg: cfg, counts: cfg.counts, fabric: p.Name(), remote: remote, adapter: a, info: a.Info(),
		down: make(chan struct{}), gone: make(chan struct{}), born: time.Now(),
	}
	c.baton.init()
	if err := c.setUp(ctx); err != nil {
		a.Close()
		return nil, err
	}
	// Reads are not part of the protocol: no limits are offered. [OP-104]
	c.connector, err = rdma.Dial(ctx, a, c.qp, remote, rdma.DialConfig{})
	if err != nil {
		c.qp.Close()
		c.closeRegions()
		a.Close()
		return nil, err
	}
	c.sleep.Base, c.stop = context.WithCancel(context.WithoutCancel(ctx))
	c.reading.Add(1)
	go c.read()
	go c.supervise()
	return c, nil
}

// setUp makes queues, memory and slots, and posts the receives: one for each
// message that may be in flight and one for a change of credits. [OP-65]
func (c *conn) setUp(ctx context.Context) error {
	n := min(c.cfg.credits, c.info.MaxReceiveQueueDepth-1, (c.info.MaxInitiatorQueueDepth-signalEvery)/2,
		(c.info.MaxCompletionQueueDepth-signalEvery-1)/3)
	if n < 1 || c.info.MaxInitiatorSGE < 2 {
		return fmt.Errorf("the adapter's limits are too low: %w", errors.ErrUnsupported)
	}
	c.cfg.credits = n
	if c.info.Caps.Has(rdma.CapImmediate) {
		c.immediates = math.MaxUint32
	}
	var err error
	// An answer, and with it the credit, may be here before the provider has done
	// with the send: twice the credits, and the sends without a result, take places.
	sends := 2*n + signalEvery
	if c.cq, err = c.adapter.CreateCompletionQueue(n + 1 + sends); err != nil {
		return err
	}
	c.qp, err = c.adapter.CreateQueuePair(rdma.QueuePairConfig{
		ReceiveCQ: c.cq, InitiatorCQ: c.cq,
		ReceiveDepth: n + 1, InitiatorDepth: sends,
		MaxReceiveSGE: 1, MaxInitiatorSGE: min(c.info.MaxInitiatorSGE, maxGather),
	})
	if err != nil {
		return err
	}
	if err := c.allocate(ctx, n); err != nil {
		return err
	}
	return c.credits.init(c, n)
}

// fail ends the connection for the first reason that is given.
func (c *conn) fail(cause error) {
	c.failOnce.Do(func() {
		var named *rdma.Error
		if !errors.As(cause, &named) { // which says the provider
			cause = fmt.Errorf("%s: %w", c.fabric, cause)
		}
		c.err = &lostError{cause}
		c.failed.Store(true)
		close(c.down)
		c.sleep.Wake()
		c.watchers.wake()
	})
}

// isDown reports whether the connection has ended.
func (c *conn) isDown() bool { return c.failed.Load() }

// close ends the connection and waits until its goroutines are gone and its
// memory is free.
func (c *conn) close() {
	c.fail(net.ErrClosed)
	<-c.gone
}

// supervise runs until the connection is torn down.
func (c *conn) supervise() {
	defer close(c.gone)
	tick := time.NewTicker(max(c.cfg.timeout/watchParts, time.Millisecond))
	defer tick.Stop()
	ended := c.connector.Done()
	for {
		select {
		case <-ended:
			c.fail(c.connector.Err())
			ended = nil
		case <-tick.C:
			c.watch()
		case <-c.down:
			c.tearDown()
			return
		}
	}
}

// watch tells the waiters of requests older than Config.Timeout, and ends a
// connection on which a request is twice as old. Calls with a deadline of their own
// see to that themselves; their requests age from when they are given up.
//
// Source: [OP-110], [OP-113]
func (c *conn) watch() {
	now := c.ticks.Add(1)
	var l landing
	for i := range c.slots {
		s := &c.slots[i]
		c.look(s, &l)
		l.handOver(c)
		w := s.word.Load()
		st := slotState(w & stateMask)
		age := now - s.tick.Load()
		if st != slotPending && st != slotExpired && st != slotAbandoned || age <= watchParts {
			continue
		}
		if age > 2*watchParts && s.word.Load() == w {
			c.fail(fmt.Errorf("no answer in %v: %w", 2*c.cfg.timeout, os.ErrDeadlineExceeded))
			return
		}
		if st == slotPending && s.word.CompareAndSwap(w, w&^stateMask|uint64(slotSettling)) {
			if s.op != nil {
				s.op.expired(c, s)
			} else {
				s.set(slotExpired)
				c.wake(&s.waiter)
			}
		}
	}
}

// tearDown frees everything. Waiters have seen down and leave by themselves.
func (c *conn) tearDown() {
	if errors.Is(c.err, net.ErrClosed) && !errors.Is(c.err, ErrProtocol) {
		ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
		_ = c.connector.Disconnect(ctx) // the connection may be gone, which is as good
		cancel()
	}
	c.connector.Close()
	c.qp.Close()
	c.stop()
	c.reading.Wait()
	c.life.Lock()
	defer c.life.Unlock()
	for i := range c.slots {
		s := &c.slots[i]
		if s.op != nil && s.kind == kindWrite && s.state() == slotPending {
			s.op.replayFirst(c.rail)
		}
		s.drop()
		s.set(slotDead)
	}
	c.closeRegions()
	c.cq.Close()
	c.buffers.tearDown(c)
}

// isGone reports whether nobody else can reach memory through the connection any more.
func (c *conn) isGone() bool {
	select {
	case <-c.gone:
		return true
	default:
		return false
	}
}

// tornDown waits until isGone, for a connection that is down.
func (c *conn) tornDown(ctx context.Context) error {
	select {
	case <-c.gone:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// enter must succeed before a call touches the connection's memory; leave must
// follow.
func (c *conn) enter() error {
	if err := c.pin(); err != nil {
		return err
	}
	c.wanting.Add(1)
	return nil
}

func (c *conn) leave() {
	c.wanting.Add(-1)
	c.unpin()
}

// pin is enter for requests that count themselves; unpin must follow.
func (c *conn) pin() error {
	if !c.life.TryRLock() {
		// Only the teardown takes the lock, once the connection is down.
		<-c.down
		return c.err
	}
	if c.isDown() {
		c.life.RUnlock()
		return c.err
	}
	return nil
}

func (c *conn) unpin() { c.life.RUnlock() }

// mayPoll reports whether requests may ask for status blocks at all.
//
// Source: [OP-88]
func (c *conn) mayPoll() bool {
	return c.cfg.mode != Interrupt && c.info.Caps.Has(rdma.CapInOrderPlacement)
}

// polls decides how the answer to the request of a slot is waited for.
func (c *conn) polls(s *slot) bool {
	s.pace = nil
	switch {
	case !s.kind.io() || !c.polling.Load():
		return false
	case c.cfg.mode == Polling:
		return true
	case c.wanting.Load() > adaptiveDepth:
		return false
	}
	s.pace = c.paces.of(s.kind, s.want)
	return s.pace.polls()
}
