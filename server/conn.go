package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"lwio/internal/host"
	"lwio/internal/ratelimit"
	"lwio/internal/wire"
	"lwio/rdma"
)

// conn is one RDMA connection of a client.
//
// Its loop, a goroutine, polls the completion queue, decodes, and answers what
// needs no waiting; workers of the lanes do the rest. All answers go through
// the outbox, which is what gives them their order; that of a READ which came alone goes
// with its data, when the outbox is empty (answerDirect).
//
// Source: [LWIO §I/O Processing] [OP-109]
type conn struct {
	e   *engine
	f   *fabric
	log *slog.Logger

	ctx    context.Context
	cancel context.CancelCauseFunc

	peer      string     // its address
	host      netip.Addr // of that, if there is one
	traffic   traffic
	reads     latencySum
	writes    latencySum
	number    uint64 // in the order of arrival
	user      string // lower case; guarded by engine.mu
	counted   bool   // among the user's; likewise
	displaced bool   // another took its place before AUTH; guarded by engine.mu

	timer     *time.Timer // bounds the time until AUTH
	connector rdma.Connector
	cq        rdma.CompletionQueue
	qp        rdma.QueuePair
	region    rdma.MemoryRegion
	buf       []byte // mapped, registered with region

	// The loop's own.
	ops      []*op
	free     []*op
	notice   *op             // announces a change of the credits
	spare    []int32         // slots without a receive
	ready    opList          // answered, not yet in the outbox
	readySum int             // bytes that were moved for ready
	readyNum int             // operations in ready
	begun    int             // I/O requests outstanding when the last one began
	told     int             // and how many the client says it has
	tally    tally           // of some of them
	next     int64           // number of the next message, see outcome
	request  [1]rdma.Request // that writeFile posts
	directs  []*op           // READs to be answered by writes from files
	straight pump            // which it collects, and what is posted with them
	peek     [1]byte         // that it reads to see whether it can
	first    int64           // and of the first
	now      time.Duration   // on the engine's clock, when the first message of the batch in hand was; 0 before that
	hope     hope
	slept    bool          // no message has come since it slept
	woken    uint64        // number of the last wake-up by a message, see crowd
	crowded  bool          // there was a crowd then
	freed    int           // initiator slots that came free in this batch
	spinning bool          // it has a place among the spinners
	denied   bool          // AUTH was refused
	rest     []rdma.Result // of the batch in hand, what comes next
	late     []rdma.Result // messages that came while the user's rate held it back

	// Set by AUTH, then constant; other goroutines read them after the loop
	// handed them an operation.
	authenticated bool
	pair          *keyPair
	sess          session
	pace          *ratelimit.Limiter // of the user's requests; nil for as fast as they come
	sessionID     [8]byte
	replaced      *keptOutcomes // of the connection whose place this one took
	heard         bool          // a message came after AUTH
	since         time.Time
	peerWindow    int    // the most that one RDMA write may carry, in bytes
	peerPage      uint16 // the client's page size, in bytes

	refused  atomic.Uint64  // 1 + creditPool.returned when there were no more credits to have, until the next look
	hint     atomic.Int32   // most requests that the client told of since the last look
	held     int            // bytes of arena blocks; guarded by arena.mu
	jobs     sync.WaitGroup // operations that wait for memory or are with a lane, and hold's timer
	settled  atomic.Uint64  // initiator results so far
	owing    atomic.Int64   // initiator slots in use
	draining atomic.Bool
	done     chan struct{} // closed when all is over

	mu        sync.Mutex
	fids      fidTable
	outbox    opList
	posted    opList // answers whose results have not come
	hold      hold
	slots     int // initiator slots free
	pumping   bool
	dead      bool
	pending   int  // I/O requests outstanding
	completed bool // some I/O completed since the last wake-up
	armed     *op  // the INTERRUPT that waits
	credits   credits
	outcomes  outcomes
}

// layout says where things are in the memory of a connection. Headers and
// answers lie close together and data apart, in whole pages, so that a
// connection that writes nothing touches two pages.
//
// Source: [OP-61] [OP-61c]
type layout struct {
	slots, depth          int // credits at most, initiator requests
	ahead, receives       int // receives beyond the credits, and in all
	answers, auth, data   int // offsets; headers are at 0
	dataSize, total, most int // bytes of data of a receive, in all; operations
	wire                  wire.Limits
}

// newLayout lays out a connection's memory, and says what messages fit into it.
func newLayout(l *Limits, info rdma.AdapterInfo) layout {
	y := layout{dataSize: l.MaxRecvBufferSize}
	if info.Caps.Has(rdma.CapDirectFile) {
		y.ahead = 1 // answerDirect's
	}
	y.slots = min(l.MaxCredits, info.MaxReceiveQueueDepth-y.ahead)
	y.receives = y.slots + y.ahead
	if info.Caps.Has(rdma.CapByReference) {
		y.dataSize = l.MaxLentBufferSize
	}
	y.wire = wire.Limits{MaxRecvBufferSize: uint32(y.dataSize), MaxRdmaWindowSize: uint32(l.MaxRdmaWindowSize)}
	y.depth = min(2*y.slots+64, info.MaxInitiatorQueueDepth)
	y.most = y.receives + y.depth + 1
	y.answers = wholePages(y.receives * wire.HeaderSize)
	y.auth = y.answers + y.most*wire.StatusResponseSize
	y.data = wholePages(y.auth + wire.AuthServerRoom)
	y.total = y.data + y.receives*y.dataSize
	return y
}

// open makes what a connection needs of the adapter and posts the receive for
// the AUTH, and those ahead. On failure everything is closed again.
//
// Source: [OP-103] [OP-108]
func (c *conn) open() (err error) {
	y, a := &c.f.layout, c.f.adapter
	defer func() {
		if err != nil {
			c.closeResources()
		}
	}()
	if c.buf, err = mapPages(y.total); err != nil {
		return fmt.Errorf("allocate receive buffers: %w", err)
	}
	if c.region, err = a.RegisterMemory(c.ctx, c.buf, rdma.AccessLocalWrite); err != nil {
		return fmt.Errorf("register receive buffers: %w", err)
	}
	if c.cq, err = a.CreateCompletionQueue(y.receives + y.depth + 1); err != nil {
		return err
	}
	c.qp, err = a.CreateQueuePair(rdma.QueuePairConfig{
		ReceiveCQ: c.cq, InitiatorCQ: c.cq,
		ReceiveDepth: y.receives, InitiatorDepth: y.depth, MaxReceiveSGE: 2, MaxInitiatorSGE: 1,
		AcceptByReference: true,
	})
	if err != nil {
		return err
	}
	c.begins()
	return c.postSpare(1 + y.ahead)
}

// begins makes the books of a connection that has done nothing yet.
func (c *conn) begins() {
	y := &c.f.layout
	c.slots = y.depth
	c.notice, _ = c.newOp() // the first
	for slot := y.receives - 1; slot >= 0; slot-- {
		c.spare = append(c.spare, int32(slot))
	}
}

// postSpare posts the receives of n spare slots. For the loop.
func (c *conn) postSpare(n int) error {
	p := pumps.Get().(*pump)
	defer p.put()
	for ; n > 0; n-- {
		slot := c.spare[len(c.spare)-1]
		c.spare = c.spare[:len(c.spare)-1]
		if len(p.recvs) == cap(p.recvs) {
			if err := p.postReceives(c); err != nil {
				return err
			}
		}
		p.receive(c, slot)
	}
	return p.postReceives(c)
}

// discard gives the memory of a slot's data back, which has no receive, unless the
// provider would go on to use the pages that it knows.
//
// Source: [OP-61c]
func (c *conn) discard(slot int32) {
	if !c.f.info.Caps.Has(rdma.CapPageable) {
		return
	}
	at := c.f.layout.data + int(slot)*c.f.layout.dataSize
	host.DiscardPages(c.buf[at : at+c.f.layout.dataSize])
}

// serve accepts the connection, runs its loop, and cleans up. Nothing private goes
// with the acceptance, and nothing is expected.
//
// Source: [OP-102]
func (c *conn) serve() {
	defer close(c.done)
	c.timer = time.AfterFunc(c.e.limits.AuthTimeout, func() { c.cut(errAuthTimeout) })
	err := c.open()
	if err == nil {
		err = c.connector.Accept(c.ctx, c.qp, rdma.ReadLimits{}, nil)
		if err == nil {
			c.log.Debug("lwio: connection accepted")
			err = c.loop()
			c.tally.empty(c.e, c) // of what it had begun with
		}
	} else {
		c.connector.Reject(nil)
	}
	c.timer.Stop()
	c.teardown(err)
}

// cut ends the connection from any goroutine; its loop cleans up.
func (c *conn) cut(cause error) { c.cancel(cause) }

// cause is why the connection was cut. Where a request came too late for it, that is why it
// had ended.
func (c *conn) cause() error {
	err := context.Cause(c.ctx)
	if errors.Is(err, rdma.StatusConnectionInvalid) {
		return c.ended(err)
	}
	return err
}

// teardown ends the connection and gives back all that it held. Nothing of the
// client's memory is touched once the queue pair is closed.
//
// Source: [OP-94f]
func (c *conn) teardown(err error) {
	c.cut(err)
	err = c.cause()
	c.report(err)
	c.mu.Lock()
	c.dead = true
	if c.hold.timer != nil && c.hold.timer.Stop() {
		c.jobs.Done()
	}
	files := c.fids.files
	c.fids.files = nil
	for _, f := range files {
		f.retireLocked(c)
	}
	c.mu.Unlock()
	for _, f := range files {
		f.unhook()
		c.e.count.files.Add(-1)
	}
	if isOrderly(err) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		c.connector.Disconnect(ctx)
		cancel()
	}
	c.connector.Close()
	if c.qp != nil {
		c.qp.Close()
	}
	for _, o := range c.ops {
		c.recall(o)
	}
	c.jobs.Wait()
	for _, o := range c.ops {
		if o.holds {
			c.mu.Lock()
			o.file.unholdLocked(c)
			c.mu.Unlock()
		}
		if o.block != none {
			c.f.arena.give(o)
		}
	}
	c.keep()
	c.closeResources()
	c.e.forget(c)
}

// recall takes o back from where it waits and reports whether it did wait.
func (c *conn) recall(o *op) bool {
	if o.line == nil || !o.line.remove(o) && !c.f.arena.remove(o) {
		return false
	}
	c.jobs.Done()
	return true
}

// closeResources closes what open made.
func (c *conn) closeResources() {
	if c.qp != nil {
		c.qp.Close()
	}
	if c.cq != nil {
		c.cq.Close()
	}
	if c.region != nil {
		c.region.Close()
	}
	if c.buf != nil {
		_ = unmapPages(c.buf)
		c.buf = nil
	}
}

// report logs how the connection ended.
func (c *conn) report(cause error) {
	switch {
	case isOrderly(cause):
		c.log.Debug("lwio: connection closed", "cause", cause)
	case errors.Is(cause, errClientLeft):
		c.log.Info("lwio: client left")
	case isViolation(cause):
		c.e.count.cut.Add(1)
		c.e.noise.Warn(c.log, "lwio: connection cut", "cause", cause)
	default:
		c.e.count.lost.Add(1)
		c.log.Info("lwio: connection lost", "cause", cause)
	}
}

// newOp takes an operation that is free, or makes one. There are never more
// than receives and initiator requests.
func (c *conn) newOp() (*op, error) {
	if n := len(c.free); n > 0 {
		o := c.free[n-1]
		c.free = c.free[:n-1]
		return o, nil
	}
	if len(c.ops) == c.f.layout.most {
		return nil, fmt.Errorf("%w: more operations than buffers", errInternal)
	}
	o := &op{c: c, index: uint32(len(c.ops))}
	o.use = o.writeFrom
	o.reset()
	c.ops = append(c.ops, o)
	return o, nil
}

// body is what was received behind the header. It stays until the receive is
// posted again, with the answer.
func (o *op) body() []byte {
	y := &o.c.f.layout
	at := y.data + int(o.recv)*y.dataSize
	n := at + o.size - wire.HeaderSize
	return o.c.buf[at:n:n]
}

// startDraining lets the connection end as soon as nothing is in flight.
func (c *conn) startDraining() {
	c.draining.Store(true)
	if c.drained() {
		c.cut(errShutdown)
	}
}

// drained reports whether the connection was told to end and has answered all.
func (c *conn) drained() bool {
	if !c.draining.Load() {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pending == 0 && c.outbox.empty() && c.owing.Load() == 0
}
