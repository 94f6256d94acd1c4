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
	conn atomic.Pointer[conn] // set from PairConnected on, also after the end

	// The lock of Initiator guards these.
	reads       softrdma.FIFO[*softrdma.WorkRequest] // requests that wait for their responses
	peerReads   softrdma.FIFO[peerRead]              // in the order of their answers
	unannounced bool                                 // the ring has new messages and the peer must be woken; set only while no goroutine sends
	staged      bool                                 // the ring has messages that are not committed; false whenever the lock is free
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

// attach gives the queue pair its connection and makes it accept requests.
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

// Look makes progress on the connection, if there is one.
func (qp *queuePair) Look(hot bool, to softrdma.Poller) int {
	if c := qp.conn.Load(); c != nil {
		return c.look(hot, to)
	}
	return 0
}

// Sleep records that no goroutine polls the connection.
func (qp *queuePair) Sleep() {
	if c := qp.conn.Load(); c != nil {
		c.sleeper.setPolled(false)
	}
}

// Park sleeps until the connection may have work, and does the work.
func (qp *queuePair) Park(over func() bool) bool {
	c := qp.conn.Load()
	return c != nil && c.park(over)
}

// Unpark ends the Park in progress.
func (qp *queuePair) Unpark() {
	if c := qp.conn.Load(); c != nil {
		c.sleeper.interrupt()
	}
}

// unstall resumes a message that waits for a receive of a shared queue.
func (qp *queuePair) unstall() {
	if c := qp.conn.Load(); c != nil && c.rx.stalled.Swap(false) {
		c.nudge()
	}
}

// takeSending gives the caller the right to send, if there is work and no other goroutine
// has the right. Otherwise it returns nil.
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

// busyLocked reports whether there is work for a sender: a request to send, a result to
// push, the peer to wake, or a read of the peer to answer.
func (qp *queuePair) busyLocked() bool {
	q := &qp.Initiator
	return qp.unannounced || q.Next != q.Requests.Tail || qp.peerReads.Len() > 0 || q.Done != q.Next && !q.Requests.At(q.Done).Pending
}

// releaseSending releases the right to send.
func (qp *queuePair) releaseSending() {
	qp.Initiator.Lock()
	defer qp.Initiator.Unlock()
	qp.Initiator.ReleaseSendingLocked()
}

// start sends queued requests. most has the meaning of pump's parameter.
func (qp *queuePair) start(most int) {
	if c := qp.takeSending(); c != nil {
		c.tx.pump(false, most)
	}
}

// resume continues to send, if sending stopped because there was no room or a response to
// a read was missing.
func (qp *queuePair) resume(most int) {
	if c := qp.conn.Load(); c != nil && (c.tx.more.Load() && c.tx.more.Swap(false) || c.tx.room.waiting.Load()) {
		qp.start(most)
	}
}

// canResume reports whether resume would make progress. Precondition: the segments are
// mapped.
func (qp *queuePair) canResume() bool {
	c := qp.conn.Load()
	return c != nil && (c.tx.more.Load() || c.tx.room.waiting.Load() && c.tx.room.satisfied())
}

// Flush ends all requests that are not sent or received in part. A request in progress
// completes as usual, and before the others.
func (qp *queuePair) Flush() error {
	qp.Initiator.Lock()
	qp.Initiator.Cancel = qp.Initiator.Requests.Tail
	qp.Initiator.Unlock()
	qp.start(0)
	qp.Receives.Flush()
	return nil
}

// flushAll completes all requests: the receive and the read in progress with the given
// statuses, the others with StatusCanceled. Precondition: no goroutine sends or receives.
func (qp *queuePair) flushAll(receive, reading rdma.Status) {
	qp.Disconnected()
	qp.Initiator.Lock()
	qp.reads, qp.peerReads = softrdma.FIFO[*softrdma.WorkRequest]{}, softrdma.FIFO[peerRead]{}
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
