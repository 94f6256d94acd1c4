//go:build linux

package shm

import (
	"sync"
	"sync/atomic"

	"lwio/rdma"
	"lwio/rdma/internal/soft"
)

// pairState says what a queue pair can do.
type pairState uint8

const (
	pairIdle         pairState = iota // not connected, may become so
	pairReserved                      // a connector is at work with it
	pairConnected                     // takes requests
	pairDisconnected                  // will never take any again
	pairClosed
)

// piece is one entry of a request's scatter/gather list.
type piece struct {
	region *region
	buf    []byte
}

// sendRequest is a send or write on its way.
type sendRequest struct {
	op      rdma.Op
	flags   rdma.Flags
	id      uint64
	pieces  []piece // empty if inline or from a file
	inline  []byte
	file    *fileSource
	fileOff int64
	length  int
	remote  rdma.RemoteAddr
	sent    int // bytes that are in the ring
	real    int // bytes of the file that were there
}

// receiveRequest is a receive that waits for its message.
type receiveRequest struct {
	id     uint64
	pieces []piece
	length int
}

// queuePair holds the requests of one connection.
//
// The initiator queue: requests [head, next) are done but their slots not free
// yet, because they are silent; [next, tail) are not done. Only who holds the
// baton (writing) advances next.
//
// Source: [ND QueuePair]
type queuePair struct {
	a   *adapter
	cfg rdma.QueuePairConfig
	// The queues that results go to.
	receiveCQ, initiatorCQ *soft.CompletionQueue
	conn                   atomic.Pointer[conn] // while connected, and kept afterwards

	mu      sync.Mutex
	idle    sync.Cond // signalled when writing becomes false
	state   pairState
	sends   soft.FIFO[sendRequest]
	next    uint64
	cancel  uint64 // requests before this number end with StatusCanceled
	writing bool

	recvMu      sync.Mutex
	receives    soft.FIFO[receiveRequest]
	results     []rdma.Result // of receives that were canceled, not in the completion queue yet
	current     bool          // the first receive is being filled
	cancelRecvs uint64        // as cancel
	flushed     bool          // receives end at once
	closedRecv  bool          // no more receives are taken

	once sync.Once
}

var _ rdma.QueuePair = (*queuePair)(nil)

// CreateQueuePair makes an unconnected queue pair; its memory grows with use.
func (a *adapter) CreateQueuePair(cfg rdma.QueuePairConfig) (rdma.QueuePair, error) {
	const op = "create queue pair"
	if cfg.SharedReceive != nil {
		return nil, opError(op, "", rdma.StatusNotSupported, nil)
	}
	rcq := a.dom.CompletionQueueOf(cfg.ReceiveCQ)
	if rcq == nil {
		return nil, opError(op, "", rdma.StatusInvalidParameterN(2), nil)
	}
	icq := a.dom.CompletionQueueOf(cfg.InitiatorCQ)
	if icq == nil {
		return nil, opError(op, "", rdma.StatusInvalidParameterN(3), nil)
	}
	for _, c := range []struct{ param, value, least, most int }{
		{5, cfg.ReceiveDepth, 0, soft.MaxQueueDepth},
		{6, cfg.InitiatorDepth, 0, soft.MaxQueueDepth},
		{7, cfg.MaxReceiveSGE, 0, soft.MaxSGE},
		{8, cfg.MaxInitiatorSGE, 0, soft.MaxSGE},
		{9, cfg.InlineSize, 0, soft.MaxInline},
	} {
		if c.value < c.least || c.value > c.most {
			return nil, opError(op, "", rdma.StatusInvalidParameterN(c.param), nil)
		}
	}
	qp := &queuePair{a: a, cfg: cfg, receiveCQ: rcq, initiatorCQ: icq}
	qp.idle.L = &qp.mu
	if err := a.dom.Add(soft.QueuePairs, qp, op); err != nil {
		return nil, err
	}
	if !rcq.Attach(qp) || !icq.Attach(qp) {
		qp.Close()
		return nil, opError(op, "", rdma.StatusInvalidHandle, nil)
	}
	return qp, nil
}

// reserve takes an unconnected queue pair for a connector.
func (qp *queuePair) reserve(op string) error {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	switch qp.state {
	case pairIdle:
		qp.state = pairReserved
		return nil
	case pairClosed:
		return opError(op, "queue pair", rdma.StatusInvalidHandle, nil)
	}
	return opError(op, "queue pair", rdma.StatusConnectionActive, nil)
}

// unreserve gives it back as it was.
func (qp *queuePair) unreserve() {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	if qp.state == pairReserved {
		qp.state = pairIdle
	}
}

// attach ties the queue pair to its connection and lets it take requests.
func (qp *queuePair) attach(c *conn) bool {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	if qp.state != pairReserved {
		return false
	}
	qp.state = pairConnected
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
func (qp *queuePair) Look(hot bool) {
	if c := qp.conn.Load(); c != nil {
		c.look(hot)
	}
}

// Sleep ends the driving.
func (qp *queuePair) Sleep() {
	if c := qp.conn.Load(); c != nil {
		c.stopPolling()
	}
}

// takeBaton makes the caller the one who sends, if there is something to send and
// nobody does.
func (qp *queuePair) takeBaton() *conn {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	c := qp.conn.Load()
	if qp.state != pairConnected || qp.writing || qp.next == qp.sends.Tail || c.ending.Load() != nil {
		return nil
	}
	qp.writing = true
	return c
}

// releaseBaton gives it back.
func (qp *queuePair) releaseBaton() {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	qp.writing = false
	qp.idle.Broadcast()
}

// start sends what is queued.
func (qp *queuePair) start() {
	if c := qp.takeBaton(); c != nil {
		c.tx.pump(false)
	}
}

// resume goes on to send where that had stopped for want of room.
func (qp *queuePair) resume() {
	if c := qp.conn.Load(); c != nil && c.tx.waiting.Load() {
		qp.start()
	}
}

// canResume tells whether resume would get anywhere. Only run may ask, as only it
// knows that the segments are mapped.
func (qp *queuePair) canResume() bool {
	c := qp.conn.Load()
	return c != nil && c.tx.waiting.Load() && c.tx.hasRoom()
}

// stopSending waits until nobody sends any more, and lets nobody begin.
func (qp *queuePair) stopSending() {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	qp.state = max(qp.state, pairDisconnected)
	for qp.writing {
		qp.idle.Wait()
	}
}

// Flush ends all requests that nothing was sent or received of yet; one that is
// in progress ends as it would, and before the others.
func (qp *queuePair) Flush() error {
	qp.mu.Lock()
	qp.cancel = qp.sends.Tail
	qp.mu.Unlock()
	qp.start()
	qp.recvMu.Lock()
	defer qp.recvMu.Unlock()
	qp.cancelRecvs = qp.receives.Tail
	if !qp.current {
		qp.cancelReceivesLocked()
	}
	return nil
}

// maxResults is how many results are gathered before they go to the queue.
const maxResults = 64

// pushReceivesLocked puts the results of receives in the completion queue.
func (qp *queuePair) pushReceivesLocked() {
	qp.receiveCQ.Push(qp.results)
	qp.results = qp.results[:0]
}

// cancelReceivesLocked ends the receives that were posted before the last Flush.
func (qp *queuePair) cancelReceivesLocked() {
	for qp.receives.Head < qp.cancelRecvs {
		qp.results = append(qp.results, qp.popReceiveLocked(rdma.StatusCanceled, 0))
		if len(qp.results) == maxResults {
			qp.pushReceivesLocked()
		}
	}
	qp.pushReceivesLocked()
}

// popReceiveLocked takes the first receive out and makes its result.
func (qp *queuePair) popReceiveLocked(status rdma.Status, n int) rdma.Result {
	r := qp.receives.At(qp.receives.Head)
	qp.receives.Head++
	clear(r.pieces)
	return rdma.Result{Status: status, Op: rdma.OpReceive, Bytes: n, QueuePair: qp.cfg.Context, ID: r.id}
}

// flushAll ends everything, first of all the receive in progress with the given
// status. Nobody sends or receives any more.
func (qp *queuePair) flushAll(receive rdma.Status) {
	qp.stopSending()
	qp.mu.Lock()
	var results []rdma.Result
	for ; qp.next != qp.sends.Tail; qp.next++ {
		results = append(results, qp.sends.At(qp.next).finish(qp, rdma.StatusCanceled))
	}
	qp.sends.Head = qp.next
	qp.mu.Unlock()
	qp.initiatorCQ.Push(results)

	qp.recvMu.Lock()
	defer qp.recvMu.Unlock()
	if qp.current {
		qp.current = false
		qp.results = append(qp.results, qp.popReceiveLocked(receive, 0))
	}
	qp.flushed = true
	qp.cancelRecvs = qp.receives.Tail
	qp.cancelReceivesLocked()
}

// finish lets go of what a request refers to and makes its result.
func (s *sendRequest) finish(qp *queuePair, status rdma.Status) rdma.Result {
	clear(s.pieces)
	s.file = nil
	return rdma.Result{Status: status, Op: s.op, Bytes: s.real, QueuePair: qp.cfg.Context, ID: s.id}
}

// Close disconnects, ends all requests and waits until nothing of theirs is
// touched any more.
func (qp *queuePair) Close() error {
	qp.once.Do(func() {
		qp.mu.Lock()
		qp.state = pairClosed
		qp.mu.Unlock()
		if c := qp.conn.Load(); c != nil {
			c.disconnect()
			<-c.finished
		}
		qp.flushAll(rdma.StatusCanceled)
		qp.recvMu.Lock()
		qp.closedRecv = true
		qp.recvMu.Unlock()
		qp.receiveCQ.Detach(qp)
		qp.initiatorCQ.Detach(qp)
		qp.a.dom.Remove(soft.QueuePairs, qp)
	})
	return nil
}
