package iwarp

import (
	"sync"
	"sync/atomic"

	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
)

// sendRequest is a request of the initiator queue. What a Send or a Write of memory needs
// lies together.
type sendRequest struct {
	flags     rdma.Flags
	immediate uint32 // follows a write
	status    rdma.Status
	op        rdma.Op
	pending   bool // it waits for the peer's answer; status is how it ended
	id        uint64
	length    int
	remote    rdma.RemoteAddr
	pieces    []softrdma.Piece  // empty if inline
	room      [1]softrdma.Piece // of pieces, if that is enough
	// file is where a write takes its data from, or nil; real counts the bytes that
	// were there.
	file *fileSource
	// work is what a bind or an invalidate has to do.
	work softrdma.WindowWork

	real       int
	fileOffset int64
	inline     []byte
	atomic     rdma.Atomic
}

// asks tells whether the peer answers the request.
func (r *sendRequest) asks() bool { return r.op == rdma.OpRead || r.op.IsAtomic() }

// queuePair holds the requests of one connection.
//
// The initiator queue: requests [head, done) are over but their slots not free
// yet, because they are silent; [done, next) are written but wait for the answer
// to a read, their own or one before them; [next, tail) are not written. Only who
// holds the baton (writing) advances next.
//
// Source: [ND QueuePair]
type queuePair struct {
	a      *adapter
	cfg    rdma.QueuePairConfig
	queues softrdma.Queues

	mu      sync.Mutex
	idle    sync.Cond // signalled when writing becomes false
	state   softrdma.PairState
	c       *conn // since softrdma.PairConnected; kept afterwards
	sends   softrdma.FIFO[sendRequest]
	done    uint64
	next    uint64
	reads   softrdma.FIFO[readOut] // that wait for their answers
	answers softrdma.FIFO[answer]  // to reads of the peer
	cancel  uint64                 // requests before this number end with StatusCanceled
	writing bool
	windows softrdma.Windows
	probe   fileReader // of FlagOnlyIfCached
	held    bool       // the passive side may not send yet

	doneMu  sync.Mutex    // taken before mu: results appear in order
	settled []rdma.Result // scratch

	recv   softrdma.ReceiveQueue
	resume chan struct{} // gets a value when a shared queue may have a receive

	driven atomic.Pointer[conn] // the connection once it runs on a socket that anybody can read
	naps   atomic.Uint64        // calls of Sleep

	once sync.Once
}

var (
	_ rdma.QueuePair  = (*queuePair)(nil)
	_ softrdma.Parker = (*queuePair)(nil)
)

// CreateQueuePair makes an unconnected queue pair; its memory grows with use.
func (a *adapter) CreateQueuePair(cfg rdma.QueuePairConfig) (rdma.QueuePair, error) {
	const op = "create queue pair"
	queues, err := a.dom.CheckPair(&cfg, op)
	if err != nil {
		return nil, err
	}
	qp := &queuePair{a: a, cfg: cfg, queues: queues, resume: make(chan struct{}, 1)}
	qp.recv.Init(a.dom, &cfg, queues, func() {
		select {
		case qp.resume <- struct{}{}:
		default:
		}
	})
	qp.idle.L = &qp.mu
	qp.windows.Init(a.dom, &qp.mu)
	qp.probe.init()
	if err := a.dom.Add(softrdma.QueuePairs, qp, op); err != nil {
		return nil, err
	}
	if !queues.Attach(qp) {
		qp.Close()
		return nil, opError(op, "", rdma.StatusInvalidHandle, nil)
	}
	return qp, nil
}

// Reserve takes an unconnected queue pair for a connector.
func (qp *queuePair) Reserve(op string) error {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	return qp.state.Reserve(qp.a.dom, op)
}

// Unreserve gives it back as it was.
func (qp *queuePair) Unreserve() {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	if qp.state.Unreserve() {
		qp.c = nil
	}
}

// attach ties the queue pair to its connection, so that Close finds that.
func (qp *queuePair) attach(c *conn) bool {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	if qp.state != softrdma.PairReserved {
		return false
	}
	qp.c = c
	return true
}

// connect lets the queue pair take requests; held ones are not sent yet.
func (qp *queuePair) connect(held bool) {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	if qp.state == softrdma.PairReserved {
		qp.state, qp.held = softrdma.PairConnected, held
	}
}

// Fail ends the connection, if there is one.
func (qp *queuePair) Fail(err error) {
	qp.mu.Lock()
	c := qp.c
	qp.mu.Unlock()
	if c != nil {
		c.end(&ending{err: err, abort: true})
	}
}

// Look reads what has arrived, if nobody else does.
func (qp *queuePair) Look(bool, softrdma.Poller) int {
	if c := qp.driven.Load(); c != nil {
		c.look()
	}
	return 0
}

// Sleep makes sure that the connection's own goroutine reads.
func (qp *queuePair) Sleep() {
	qp.naps.Add(1)
	if c := qp.driven.Load(); c != nil {
		c.recall()
	}
}

// Park sleeps on the socket and reads what arrives.
func (qp *queuePair) Park(over func() bool) bool {
	c := qp.driven.Load()
	return c != nil && c.park(over)
}

// Unpark ends a Park that is under way.
func (qp *queuePair) Unpark() {
	if c := qp.driven.Load(); c != nil {
		c.unpark()
	}
}

// sleepers is how many calls of Wait need the connection's own goroutine to
// read.
func (qp *queuePair) sleepers() int {
	n := qp.queues.Receive.Sleepers()
	if qp.queues.Initiator != qp.queues.Receive {
		n += qp.queues.Initiator.Sleepers()
	}
	return n
}

// Flush ends all requests that nothing was sent or received of yet; one that is
// in progress ends as it would, and before the others.
func (qp *queuePair) Flush() error {
	qp.mu.Lock()
	qp.cancel = qp.sends.Tail
	c := qp.c
	start := !qp.writing && qp.next != qp.cancel
	if start {
		qp.writing = true
	}
	qp.mu.Unlock()
	if start && c != nil {
		c.tx.pump()
	}
	qp.recv.Flush()
	return nil
}

// settle notes that n more requests are written, and ends those that are over, in
// their order: their slots are free before their results appear. A silent one
// keeps its slot until a later one with a result ends.
func (qp *queuePair) settle(n uint64) {
	qp.doneMu.Lock()
	defer qp.doneMu.Unlock()
	for more := true; more; {
		results := qp.settled[:0]
		qp.mu.Lock()
		qp.next += n
		n = 0
		for qp.done != qp.next && len(results) < softrdma.MaxResults {
			r := qp.sends.At(qp.done)
			if r.pending {
				break
			}
			qp.done++
			clear(r.pieces)
			r.file = nil
			qp.windows.GiveUpLocked(&r.work)
			if r.status != rdma.StatusSuccess || r.flags&rdma.FlagSilentSuccess == 0 {
				results = append(results, rdma.Result{Status: r.status, Op: r.op, Bytes: r.real, QueuePairContext: qp.cfg.Context, ID: r.id})
				qp.sends.Head = qp.done
			}
		}
		more = len(results) == softrdma.MaxResults
		qp.mu.Unlock()
		qp.queues.Initiator.Push(results)
		qp.settled = results
	}
}

// flushAll ends everything, with the statuses of the ending for what is in
// progress; begun says that a request is partly written. The writer has stopped,
// and the reader is the caller or has ended.
func (qp *queuePair) flushAll(e *ending, begun bool) {
	qp.mu.Lock()
	for qp.writing {
		qp.idle.Wait()
	}
	qp.state = max(qp.state, softrdma.PairDisconnected)
	reading := e.reading
	for i := qp.done; i != qp.sends.Tail; i++ {
		r := qp.sends.At(i)
		switch {
		case r.pending:
			r.status, reading = reading, rdma.StatusCanceled
		case r.status != rdma.StatusSuccess:
		case begun && i == qp.next:
			r.status = e.partly
		default:
			r.status = rdma.StatusCanceled
		}
		r.pending = false
	}
	unwritten := qp.sends.Tail - qp.next
	qp.reads, qp.answers = softrdma.FIFO[readOut]{}, softrdma.FIFO[answer]{}
	qp.mu.Unlock()
	qp.windows.RevokeAll()
	qp.settle(unwritten)
	qp.recv.End(e.receive)
}

// Close disconnects, ends all requests and waits until nothing of theirs is
// touched any more.
func (qp *queuePair) Close() error {
	qp.once.Do(func() {
		qp.mu.Lock()
		c := qp.c
		qp.state = softrdma.PairClosed
		qp.mu.Unlock()
		if c != nil {
			c.Disconnect()
			<-c.finished
		}
		qp.flushAll(&ending{receive: rdma.StatusCanceled, partly: rdma.StatusCanceled, reading: rdma.StatusCanceled}, false)
		qp.recv.Close()
		qp.queues.Detach(qp)
		qp.a.dom.Remove(softrdma.QueuePairs, qp)
	})
	return nil
}
