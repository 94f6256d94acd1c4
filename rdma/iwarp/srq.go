package iwarp

import (
	"context"
	"errors"
	"sync"

	"lwio/rdma"
	"lwio/rdma/internal/soft"
)

// errStalled says that a message must wait until a shared receive queue has a
// receive for it.
var errStalled = errors.New("no receive in the shared queue yet")

// sharedQueue holds receives for many queue pairs. A connection whose message
// finds it empty stops reading, so that TCP holds its peer back, and goes on
// when receives are posted.
//
// Source: [ND SharedReceiveQueue]
type sharedQueue struct {
	a      *adapter
	maxSGE int

	mu        sync.Mutex
	receives  soft.FIFO[receiveRequest]
	depth     int
	threshold int
	closed    bool
	stalled   []*receiver   // that wait for a receive
	low       chan struct{} // closed when Notify is satisfied; nil while nobody waits
}

var _ rdma.SharedReceiveQueue = (*sharedQueue)(nil)

// CreateSharedReceiveQueue makes a queue, whose memory grows with use.
func (a *adapter) CreateSharedReceiveQueue(cfg rdma.SharedReceiveQueueConfig) (rdma.SharedReceiveQueue, error) {
	const op = "create shared receive queue"
	switch {
	case cfg.Depth < 1 || cfg.Depth > soft.MaxQueueDepth:
		return nil, opError(op, "", rdma.StatusInvalidParameterN(3), nil)
	case cfg.MaxSGE < 0 || cfg.MaxSGE > soft.MaxSGE:
		return nil, opError(op, "", rdma.StatusInvalidParameterN(4), nil)
	case cfg.NotifyThreshold < 0 || cfg.NotifyThreshold > soft.MaxQueueDepth:
		return nil, opError(op, "", rdma.StatusInvalidParameterN(5), nil)
	}
	q := &sharedQueue{a: a, maxSGE: cfg.MaxSGE, depth: cfg.Depth, threshold: cfg.NotifyThreshold}
	if err := a.dom.Add(soft.SharedQueues, q, op); err != nil {
		return nil, err
	}
	return q, nil
}

// PostReceive queues receives and lets the connections go on that wait for some.
func (q *sharedQueue) PostReceive(reqs []rdma.ReceiveRequest) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, err := 0, error(nil)
	for ; n < len(reqs); n++ {
		if status := q.postLocked(&reqs[n]); status != rdma.StatusSuccess {
			err = opError("post", "shared receive", status, nil)
			break
		}
	}
	if n > 0 {
		q.resumeLocked()
	}
	return n, err
}

func (q *sharedQueue) postLocked(r *rdma.ReceiveRequest) rdma.Status {
	if q.closed {
		return rdma.StatusInvalidHandle
	}
	if q.receives.Len() >= q.depth {
		return rdma.StatusNoMoreEntries
	}
	length, status := q.a.dom.CheckSGL(r.SGL, q.maxSGE, rdma.AccessLocalWrite)
	if status != rdma.StatusSuccess {
		return status
	}
	p := q.receives.Push()
	p.id, p.length = r.ID, length
	p.pieces = soft.AppendPieces(p.pieces[:0], r.SGL)
	return rdma.StatusSuccess
}

// resumeLocked wakes all connections that wait; those that find nothing wait
// again.
func (q *sharedQueue) resumeLocked() {
	for _, x := range q.stalled {
		select {
		case x.resume <- struct{}{}:
		default:
		}
	}
	clear(q.stalled)
	q.stalled = q.stalled[:0]
}

// take moves the first receive to into. If there is none, errStalled says that x
// will be woken; an error of any other kind is for good.
func (q *sharedQueue) take(into *receiveRequest, x *receiver) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return x.violation(faultNoBuffer)
	}
	if q.receives.Len() == 0 {
		q.stalled = append(q.stalled, x)
		return errStalled
	}
	r := q.receives.At(q.receives.Head)
	q.receives.Head++
	into.id, into.length = r.id, r.length
	into.pieces = append(into.pieces[:0], r.pieces...)
	clear(r.pieces)
	q.notifyLocked()
	return nil
}

// leave ends the waiting of a connection.
func (q *sharedQueue) leave(x *receiver) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, o := range q.stalled {
		if o == x {
			q.stalled = append(q.stalled[:i], q.stalled[i+1:]...)
			return
		}
	}
}

// notifyLocked satisfies all notifications if there are few receives left.
func (q *sharedQueue) notifyLocked() {
	if q.low != nil && (q.closed || q.receives.Len() < q.threshold) {
		close(q.low)
		q.low = nil
	}
}

// Notify waits until fewer receives than the threshold are left, and returns at
// once if that is so already.
func (q *sharedQueue) Notify(ctx context.Context) error {
	const op = "notify of a shared receive queue"
	if ctx.Err() != nil {
		return rdma.CanceledBy(ctx, "iwarp: "+op, "")
	}
	q.mu.Lock()
	if !q.closed && q.receives.Len() < q.threshold {
		q.mu.Unlock()
		return nil
	}
	if q.low == nil {
		q.low = make(chan struct{})
	}
	low := q.low
	q.notifyLocked()
	q.mu.Unlock()
	select {
	case <-low:
	case <-ctx.Done():
		return rdma.CanceledBy(ctx, "iwarp: "+op, "")
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return opError(op, "", rdma.StatusCanceled, nil)
	}
	return nil
}

// Modify changes depth and threshold; 0 leaves one as it is.
func (q *sharedQueue) Modify(depth, threshold int) error {
	const op = "modify shared receive queue"
	if depth < 0 || depth > soft.MaxQueueDepth || threshold < 0 || threshold > soft.MaxQueueDepth {
		return opError(op, "", rdma.StatusInvalidParameter, nil)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return opError(op, "", rdma.StatusInvalidHandle, nil)
	case depth != 0 && depth < q.receives.Len():
		return opError(op, "", rdma.StatusBufferOverflow, nil)
	}
	if depth != 0 {
		q.depth = depth
	}
	if threshold != 0 {
		q.threshold = threshold
		q.notifyLocked()
	}
	return nil
}

// Close drops the receives that are left and ends all notifications. A message
// for a queue pair that still uses the queue then ends its connection.
func (q *sharedQueue) Close() error {
	q.mu.Lock()
	q.closed = true
	q.receives = soft.FIFO[receiveRequest]{}
	q.resumeLocked()
	q.notifyLocked()
	q.mu.Unlock()
	q.a.dom.Remove(soft.SharedQueues, q)
	return nil
}
