//go:build linux

package shm

import (
	"sync/atomic"

	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
)

// queuePair is a queue pair over shared memory.
//
// Source: [ND QueuePair]
type queuePair struct {
	softrdma.QueuePair
	a    *adapter
	conn atomic.Pointer[conn] // since PairConnected; kept afterwards

	// The lock of Initiator guards these.
	reads   softrdma.FIFO[*softrdma.WorkRequest] // that wait for their answers
	answers softrdma.FIFO[answer]                // to reads of the peer
	told    bool                                 // the peer must be woken for what is new in the ring; set while nobody is writing
	staged  bool                                 // messages are in the ring that the peer does not see yet; false when the lock is free
}

var (
	_ rdma.QueuePair     = (*queuePair)(nil)
	_ softrdma.Parker    = (*queuePair)(nil)
	_ softrdma.Transport = (*queuePair)(nil)
)

// CreateQueuePair makes an unconnected queue pair; its memory grows with use.
func (a *adapter) CreateQueuePair(cfg rdma.QueuePairConfig) (rdma.QueuePair, error) {
	qp := &queuePair{a: a}
	if err := qp.Init(a.Domain, cfg, qp, qp.unstall); err != nil {
		return nil, err
	}
	return qp, nil
}

// Connection returns the connection, or nil if there never was one.
func (qp *queuePair) Connection() softrdma.Conn {
	if c := qp.conn.Load(); c != nil {
		return c
	}
	return nil
}

// attach ties the queue pair to its connection and lets it take requests.
func (qp *queuePair) attach(c *conn) bool {
	qp.Initiator.Lock()
	defer qp.Initiator.Unlock()
	if qp.State != softrdma.PairReserved {
		return false
	}
	qp.State = softrdma.PairConnected
	qp.conn.Store(c)
	return true
}

// Fail ends the connection, if there is one.
func (qp *queuePair) Fail(err error) {
	if c := qp.conn.Load(); c != nil {
		c.end(&ending{err: err, state: stateFailed | uint64(rdma.StatusRemoteError)<<32})
	}
}

// Look drives the connection, if there is one.
func (qp *queuePair) Look(hot bool, to softrdma.Poller) int {
	if c := qp.conn.Load(); c != nil {
		return c.look(hot, to)
	}
	return 0
}

// Sleep ends the driving.
func (qp *queuePair) Sleep() {
	if c := qp.conn.Load(); c != nil {
		c.rest.attend(false)
	}
}

// Park sleeps until there may be something for the connection, and does it.
func (qp *queuePair) Park(over func() bool) bool {
	c := qp.conn.Load()
	return c != nil && c.park(over)
}

// Unpark ends a Park that is under way.
func (qp *queuePair) Unpark() {
	if c := qp.conn.Load(); c != nil {
		c.rest.poke()
	}
}

// unstall lets a message go on that waited for a receive of a shared queue.
func (qp *queuePair) unstall() {
	if c := qp.conn.Load(); c != nil && c.rx.stalled.Swap(false) {
		c.nudge()
	}
}

// takeSending makes the caller the one who sends, if there is something to do and
// nobody does.
func (qp *queuePair) takeSending() *conn {
	qp.Initiator.Lock()
	defer qp.Initiator.Unlock()
	return qp.takeSendingLocked()
}

func (qp *queuePair) takeSendingLocked() *conn {
	c := qp.conn.Load()
	if qp.State != softrdma.PairConnected || qp.Initiator.Sending || c.ending.Load() != nil || !qp.busyLocked() {
		return nil
	}
	qp.Initiator.Sending = true
	return c
}

// busyLocked tells whether there is a request to do, a result to put in the queue,
// the peer to wake, or a read of it to answer.
func (qp *queuePair) busyLocked() bool {
	return qp.told || qp.Initiator.Next != qp.Initiator.Requests.Tail || qp.answers.Len() > 0 || qp.Initiator.Done != qp.Initiator.Next && !qp.Initiator.Requests.At(qp.Initiator.Done).Pending
}

// releaseSending gives it back.
func (qp *queuePair) releaseSending() {
	qp.Initiator.Lock()
	defer qp.Initiator.Unlock()
	qp.Initiator.ReleaseSendingLocked()
}

// start sends what is queued, or as much of it as pump is told.
func (qp *queuePair) start(most int) {
	if c := qp.takeSending(); c != nil {
		c.tx.pump(false, most)
	}
}

// resume goes on to send where that had stopped for want of room, or of an answer
// to a read.
func (qp *queuePair) resume(most int) {
	if c := qp.conn.Load(); c != nil && (c.tx.kick.Load() && c.tx.kick.Swap(false) || c.tx.waiting.Load()) {
		qp.start(most)
	}
}

// canResume tells whether resume would get anywhere. Only run may ask, as only it
// knows that the segments are mapped.
func (qp *queuePair) canResume() bool {
	c := qp.conn.Load()
	return c != nil && (c.tx.kick.Load() || c.tx.waiting.Load() && c.tx.hasRoom())
}

// Flush ends all requests that nothing was sent or received of yet; one that is
// in progress ends as it would, and before the others.
func (qp *queuePair) Flush() error {
	qp.Initiator.Lock()
	qp.Initiator.Cancel = qp.Initiator.Requests.Tail
	qp.Initiator.Unlock()
	qp.start(0)
	qp.Receives.Flush()
	return nil
}

// flushAll ends everything, first of all the receive and the read in progress with
// the given statuses. Nobody sends or receives any more.
func (qp *queuePair) flushAll(receive, reading rdma.Status) {
	qp.Disconnected()
	qp.Initiator.Lock()
	qp.reads, qp.answers = softrdma.FIFO[*softrdma.WorkRequest]{}, softrdma.FIFO[answer]{}
	qp.Initiator.Unlock()
	qp.Initiator.End(reading, func(n uint64, w *softrdma.WorkRequest) rdma.Status {
		if n >= qp.Initiator.Next {
			return rdma.StatusCanceled
		}
		return w.Status
	})
	qp.Receives.End(receive)
}

// EndAll completes all requests with StatusCanceled.
func (qp *queuePair) EndAll() { qp.flushAll(rdma.StatusCanceled, rdma.StatusCanceled) }
