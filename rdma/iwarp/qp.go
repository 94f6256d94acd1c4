package iwarp

import (
	"sync/atomic"

	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
)

// queuePair is a queue pair over TCP.
//
// Source: [ND QueuePair]
type queuePair struct {
	softrdma.QueuePair
	a *adapter

	// The lock of Initiator guards these.
	c     *conn // set from PairConnected on, also after the end
	reads readTable
	probe fileReader // of FlagOnlyIfCached
	held  bool       // the passive side may not send yet

	resume chan struct{} // gets a value when a shared queue may have a receive

	driven atomic.Pointer[conn] // the connection, once pollers may read its socket
	sleeps atomic.Uint64        // calls of Sleep
}

var (
	_ rdma.QueuePair     = (*queuePair)(nil)
	_ softrdma.Parker    = (*queuePair)(nil)
	_ softrdma.Transport = (*queuePair)(nil)
)

// CreateQueuePair makes an unconnected queue pair; its memory grows with use.
func (a *adapter) CreateQueuePair(cfg rdma.QueuePairConfig) (rdma.QueuePair, error) {
	qp := &queuePair{a: a, resume: make(chan struct{}, 1)}
	qp.probe.init()
	qp.reads.mu = &qp.Initiator.Mutex
	resume := func() {
		select {
		case qp.resume <- struct{}{}:
		default:
		}
	}
	if err := qp.Init(a.Domain, cfg, qp, resume); err != nil {
		return nil, err
	}
	return qp, nil
}

// Unreserve makes the queue pair idle again if its connection has not begun.
func (qp *queuePair) Unreserve() {
	qp.Initiator.Lock()
	defer qp.Initiator.Unlock()
	if qp.State.Unreserve() {
		qp.c = nil
	}
}

// Connection returns the connection, or nil if there never was one.
func (qp *queuePair) Connection() softrdma.Conn {
	if c := qp.conn(); c != nil {
		return c
	}
	return nil
}

func (qp *queuePair) conn() *conn {
	qp.Initiator.Lock()
	defer qp.Initiator.Unlock()
	return qp.c
}

// attach gives the queue pair its connection. Close ends that connection from then on.
func (qp *queuePair) attach(c *conn) bool {
	qp.Initiator.Lock()
	defer qp.Initiator.Unlock()
	if qp.State != softrdma.PairReserved {
		return false
	}
	qp.c = c
	return true
}

// connect makes the queue pair accept requests. With held set, requests are not sent yet.
func (qp *queuePair) connect(held bool) {
	qp.Initiator.Lock()
	defer qp.Initiator.Unlock()
	if qp.State == softrdma.PairReserved {
		qp.State, qp.held = softrdma.PairConnected, held
	}
}

// Fail ends the connection, if there is one.
func (qp *queuePair) Fail(err error) {
	if c := qp.conn(); c != nil {
		c.end(&ending{err: err, abort: true})
	}
}

// Look reads the socket, unless another goroutine reads.
func (qp *queuePair) Look(bool, softrdma.Poller) int {
	if c := qp.driven.Load(); c != nil {
		c.look()
	}
	return 0
}

// Sleep makes the connection's own goroutine read.
func (qp *queuePair) Sleep() {
	qp.sleeps.Add(1)
	if c := qp.driven.Load(); c != nil {
		c.recall()
	}
}

// Park sleeps on the socket and reads from it.
func (qp *queuePair) Park(over func() bool) bool {
	c := qp.driven.Load()
	return c != nil && c.park(over)
}

// Unpark ends the Park in progress.
func (qp *queuePair) Unpark() {
	if c := qp.driven.Load(); c != nil {
		c.unpark()
	}
}

// Flush ends all requests that are not sent or received in part. A request in progress is
// not changed and ends before the others.
func (qp *queuePair) Flush() error {
	qp.Initiator.Lock()
	qp.Initiator.Cancel = qp.Initiator.Requests.Tail
	c := qp.c
	start := !qp.Initiator.Sending && qp.Initiator.Next != qp.Initiator.Cancel
	if start {
		qp.Initiator.Sending = true
	}
	qp.Initiator.Unlock()
	if start && c != nil {
		c.tx.pump()
	}
	qp.Receives.Flush()
	return nil
}

// flushAll ends all requests. Requests in progress end with the statuses of the ending.
// begun means that a request is partly written. Precondition: the writer has stopped, and
// the reader is the caller or has ended.
func (qp *queuePair) flushAll(e *ending, begun bool) {
	qp.Disconnected()
	qp.Initiator.Lock()
	qp.reads.own, qp.reads.answers = softrdma.FIFO[readOut]{}, softrdma.FIFO[answer]{}
	qp.Initiator.Unlock()
	qp.Initiator.End(e.reading, func(n uint64, w *softrdma.WorkRequest) rdma.Status {
		switch {
		case w.Status != rdma.StatusSuccess:
			return w.Status
		case begun && n == qp.Initiator.Next:
			return e.partly
		}
		return rdma.StatusCanceled
	})
	qp.Receives.End(e.receive)
}

// EndAll completes all requests with StatusCanceled.
func (qp *queuePair) EndAll() {
	qp.flushAll(&ending{receive: rdma.StatusCanceled, partly: rdma.StatusCanceled, reading: rdma.StatusCanceled}, false)
}
