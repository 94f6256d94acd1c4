//go:build linux

package shm

import (
	"sync"
	"sync/atomic"

	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
)

// sendRequest is a send or write on its way.
type sendRequest struct {
	op      rdma.Op
	flags   rdma.Flags
	id      uint64
	pieces  []softrdma.Piece // of a read the sink; empty if inline or from a file
	inline  []byte
	file    *fileSource
	fileOff int64
	length  int
	remote  rdma.RemoteAddr
	sent    int // bytes that are in the ring, or in their place
	real    int // bytes of the file that were there

	immediate uint32
	work      softrdma.WindowWork // of a bind or an invalidate
	pending   bool                // a read that is asked for in the ring, and not answered
	status    rdma.Status         // once it is done
}

// queuePair holds the requests of one connection.
//
// The initiator queue: requests [head, done) are over but their slots not free
// yet, because they are silent; [done, next) are done but for the answer to a read,
// their own or one before them; [next, tail) are not done. Only who holds the
// baton (writing) advances next and done, and puts results in the queue.
//
// Source: [ND QueuePair]
type queuePair struct {
	a      *adapter
	cfg    rdma.QueuePairConfig
	queues softrdma.Queues
	conn   atomic.Pointer[conn] // while connected, and kept afterwards

	mu      sync.Mutex
	idle    sync.Cond // signalled when writing becomes false
	state   softrdma.PairState
	sends   softrdma.FIFO[sendRequest]
	done    uint64
	next    uint64
	reads   softrdma.FIFO[*sendRequest] // that are pending
	answers softrdma.FIFO[answer]       // to reads of the peer
	cancel  uint64                      // requests before this number end with StatusCanceled
	writing bool
	told    bool // the peer must be woken for what is new in the ring; set while nobody is writing
	staged  bool // messages are in the ring that the peer does not see yet; false when mu is free
	windows softrdma.Windows

	recv softrdma.ReceiveQueue

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
	qp := &queuePair{a: a, cfg: cfg, queues: queues}
	qp.recv.Init(a.dom, &cfg, queues, qp.unstall)
	qp.idle.L = &qp.mu
	qp.windows.Init(a.dom, &qp.mu)
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
	qp.state.Unreserve()
}

// attach ties the queue pair to its connection and lets it take requests.
func (qp *queuePair) attach(c *conn) bool {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	if qp.state != softrdma.PairReserved {
		return false
	}
	qp.state = softrdma.PairConnected
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

// takeBaton makes the caller the one who sends, if there is something to do and
// nobody does.
func (qp *queuePair) takeBaton() *conn {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	return qp.takeBatonLocked()
}

func (qp *queuePair) takeBatonLocked() *conn {
	c := qp.conn.Load()
	if qp.state != softrdma.PairConnected || qp.writing || c.ending.Load() != nil || !qp.busyLocked() {
		return nil
	}
	qp.writing = true
	return c
}

// busyLocked tells whether there is a request to do, a result to put in the queue,
// the peer to wake, or a read of it to answer.
func (qp *queuePair) busyLocked() bool {
	return qp.told || qp.next != qp.sends.Tail || qp.answers.Len() > 0 || qp.done != qp.next && !qp.sends.At(qp.done).pending
}

// releaseBaton gives it back.
func (qp *queuePair) releaseBaton() {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	qp.writing = false
	qp.idle.Broadcast()
}

// start sends what is queued, or as much of it as pump is told.
func (qp *queuePair) start(most int) {
	if c := qp.takeBaton(); c != nil {
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

// stopSending waits until nobody sends any more, and lets nobody begin.
func (qp *queuePair) stopSending() {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	qp.state = max(qp.state, softrdma.PairDisconnected)
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
	qp.start(0)
	qp.recv.Flush()
	return nil
}

// flushAll ends everything, first of all the receive and the read in progress with
// the given statuses. Nobody sends or receives any more.
func (qp *queuePair) flushAll(receive, reading rdma.Status) {
	qp.stopSending()
	qp.windows.RevokeAll()
	qp.mu.Lock()
	for i := qp.done; i != qp.sends.Tail; i++ {
		s := qp.sends.At(i)
		switch {
		case s.pending:
			s.status, reading = reading, rdma.StatusCanceled
		case i >= qp.next:
			s.status = rdma.StatusCanceled
		}
		s.pending = false
	}
	qp.next = qp.sends.Tail
	qp.reads, qp.answers = softrdma.FIFO[*sendRequest]{}, softrdma.FIFO[answer]{}
	var results []rdma.Result
	for qp.done != qp.next {
		results = qp.settleLocked(results, len(results)+softrdma.MaxResults)
	}
	qp.sends.Head = qp.next
	qp.mu.Unlock()
	qp.queues.Initiator.Push(results)
	qp.recv.End(receive)
}

// settleLocked ends the requests that are done, in their order, up to the first
// read that is pending, and adds their results, of which there may be most in all.
// A silent one keeps its slot until a later one with a result ends.
func (qp *queuePair) settleLocked(results []rdma.Result, most int) []rdma.Result {
	for qp.done != qp.next && len(results) < most {
		s := qp.sends.At(qp.done)
		if s.pending {
			break
		}
		qp.done++
		s.release()
		qp.windows.GiveUpLocked(&s.work)
		if s.status != rdma.StatusSuccess || s.flags&rdma.FlagSilentSuccess == 0 {
			qp.sends.Head = qp.done
			results = append(results, rdma.Result{Status: s.status, Op: s.op, Bytes: s.real, QueuePairContext: qp.cfg.Context, ID: s.id})
		}
	}
	return results
}

// release lets go of what a request refers to.
func (s *sendRequest) release() {
	clear(s.pieces)
	s.file = nil
}

// Close disconnects, ends all requests and waits until nothing of theirs is
// touched any more.
func (qp *queuePair) Close() error {
	qp.once.Do(func() {
		qp.mu.Lock()
		qp.state = softrdma.PairClosed
		qp.mu.Unlock()
		if c := qp.conn.Load(); c != nil {
			c.Disconnect()
			<-c.finished
		}
		qp.flushAll(rdma.StatusCanceled, rdma.StatusCanceled)
		qp.recv.Close()
		qp.queues.Detach(qp)
		qp.a.dom.Remove(softrdma.QueuePairs, qp)
	})
	return nil
}
