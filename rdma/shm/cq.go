//go:build linux

package shm

import (
	"context"
	"net"
	"sync"
	"sync/atomic"

	"lwio/rdma"
)

// firstResults is how many results a queue has room for before it grows, up to
// its depth, with what is in it.
const firstResults = 64

// completionQueue is a ring of results. A result has a number, counted from the
// first ever; head <= number < tail are in the ring.
//
// Source: [ND CompletionQueue]
type completionQueue struct {
	a     *adapter
	count atomic.Int64 // tail - head, or anything else than 0 after a failure

	mu         sync.Mutex
	ring       []rdma.Result
	head, tail uint64
	depth      int
	// What satisfied a notification: all results before seen, and all that a
	// NotifySolicited waits for before seenSolicited.
	seen, seenSolicited uint64
	// One more than the number of the last result of each sort, 0 for none.
	lastPlain, lastSolicited uint64
	waiters                  []*waiter
	free                     []*waiter
	failed                   rdma.Status // StatusBufferOverflow, or StatusCanceled when closed
	pairs                    map[*queuePair]struct{}

	spins  atomic.Int64                 // polls of the empty queue since somebody slept
	driven atomic.Pointer[[]*queuePair] // the pairs, if a poll makes progress for them
}

// maxDriven is up to how many queue pairs a poll of the empty queue makes progress
// itself; for more, the goroutines of their connections do.
const maxDriven = 4

// hotSpins is after how many polls of the empty queue the peers may stop to send
// wake-ups.
const hotSpins = 64

// drivenLocked notes the pairs that polls make progress for.
func (q *completionQueue) drivenLocked() {
	var list []*queuePair
	if len(q.pairs) <= maxDriven {
		for qp := range q.pairs {
			list = append(list, qp)
		}
	}
	q.driven.Store(&list)
}

// progress is what a poll of the empty queue does for the connections.
func (q *completionQueue) progress() {
	pairs := q.driven.Load()
	if pairs == nil {
		return
	}
	hot := q.spins.Add(1) > hotSpins
	for _, qp := range *pairs {
		if c := qp.conn.Load(); c != nil {
			c.look(hot)
		}
	}
}

// rest makes the connections ready to wake who is going to sleep.
func (q *completionQueue) rest() {
	q.spins.Store(0)
	if pairs := q.driven.Load(); pairs != nil {
		for _, qp := range *pairs {
			if c := qp.conn.Load(); c != nil {
				c.stopPolling()
			}
		}
	}
}

// waiter is a call of Notify.
type waiter struct {
	kind   rdma.NotifyKind
	status rdma.Status
	ch     chan struct{} // gets one value when status is set
}

var _ rdma.CompletionQueue = (*completionQueue)(nil)

// CreateCompletionQueue makes a queue, whose memory grows with its use.
func (a *adapter) CreateCompletionQueue(depth int) (rdma.CompletionQueue, error) {
	const op = "create completion queue"
	if depth < 1 || depth > maxCompletionDepth {
		return nil, opError(op, "", rdma.StatusInvalidParameterN(3), nil)
	}
	q := &completionQueue{a: a, depth: depth, pairs: make(map[*queuePair]struct{})}
	if err := a.add(classCompletionQueue, q, op); err != nil {
		return nil, err
	}
	return q, nil
}

// attach adds a queue pair that an overrun of the queue must end.
func (q *completionQueue) attach(qp *queuePair) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.failed != rdma.StatusSuccess {
		return false
	}
	q.pairs[qp] = struct{}{}
	q.drivenLocked()
	return true
}

func (q *completionQueue) detach(qp *queuePair) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.pairs, qp)
	q.drivenLocked()
}

// push adds results and wakes who waits for such. If they do not fit, the queue
// has overrun, and its queue pairs end.
//
// Source: [RFC 5042 §6.4.3.1]
func (q *completionQueue) push(results []rdma.Result) {
	if len(results) == 0 {
		return
	}
	q.mu.Lock()
	if q.failed != rdma.StatusSuccess {
		q.mu.Unlock()
		return
	}
	var overrun []*queuePair
	for i := range results {
		if q.tail-q.head == uint64(q.depth) {
			overrun = q.failLocked(rdma.StatusBufferOverflow)
			break
		}
		q.addLocked(&results[i])
	}
	q.mu.Unlock()
	for _, qp := range overrun {
		qp.fail(opError("completion queue", "", rdma.StatusBufferOverflow, nil))
	}
}

// addLocked adds one result, for which there is room within the depth.
func (q *completionQueue) addLocked(r *rdma.Result) {
	if q.tail-q.head == uint64(len(q.ring)) {
		q.resizeLocked(max(2*len(q.ring), firstResults))
	}
	n := q.tail
	q.ring[n&uint64(len(q.ring)-1)] = *r
	q.tail++
	solicited := r.Solicited || r.Status != rdma.StatusSuccess
	if solicited {
		q.lastSolicited = q.tail
	} else {
		q.lastPlain = q.tail
	}
	q.count.Store(int64(q.tail - q.head))
	if len(q.waiters) != 0 {
		q.triggerLocked(n, solicited)
	}
}

// triggerLocked lets result n satisfy the notifications that wait for such.
func (q *completionQueue) triggerLocked(n uint64, solicited bool) {
	anyone, wanted := false, false
	for _, w := range q.waiters {
		anyone = anyone || w.kind == rdma.NotifyAny
		wanted = wanted || w.kind == rdma.NotifySolicited
	}
	switch {
	case anyone:
		q.seen = n + 1
	case wanted && solicited:
		q.seenSolicited = n + 1
	default:
		return
	}
	q.releaseLocked()
}

// releaseLocked ends all notifications but those of NotifyErrors.
func (q *completionQueue) releaseLocked() {
	kept := q.waiters[:0]
	for _, w := range q.waiters {
		if w.kind == rdma.NotifyErrors {
			kept = append(kept, w)
			continue
		}
		w.ch <- struct{}{}
	}
	clear(q.waiters[len(kept):])
	q.waiters = kept
}

// resizeLocked makes the ring n long, a power of two that what is in it fits.
func (q *completionQueue) resizeLocked(n int) {
	ring := make([]rdma.Result, n)
	for i := q.head; i != q.tail; i++ {
		ring[i&uint64(n-1)] = q.ring[i&uint64(len(q.ring)-1)]
	}
	q.ring = ring
}

// failLocked ends the queue and all notifications with a status, and gives the
// queue pairs that must end too.
func (q *completionQueue) failLocked(status rdma.Status) []*queuePair {
	q.failed = status
	q.count.Store(1)
	for _, w := range q.waiters {
		w.status = status
		w.ch <- struct{}{}
	}
	q.waiters = nil
	var pairs []*queuePair
	for qp := range q.pairs {
		pairs = append(pairs, qp)
	}
	return pairs
}

// Poll takes results without blocking. If there are none it looks into the rings
// of the connections itself.
// After an overrun it hands out what is left together with the error.
func (q *completionQueue) Poll(results []rdma.Result) (int, error) {
	if q.count.Load() == 0 {
		q.progress()
		if q.count.Load() == 0 {
			return 0, nil
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for n < len(results) && q.head != q.tail {
		results[n] = q.ring[q.head&uint64(len(q.ring)-1)]
		q.head++
		n++
	}
	switch {
	case q.failed == rdma.StatusBufferOverflow:
		return n, opError("poll", "", rdma.StatusBufferOverflow, nil)
	case q.failed == rdma.StatusSuccess:
		q.count.Store(int64(q.tail - q.head))
	case n == 0 && q.head == q.tail:
		return 0, opError("poll", "", rdma.StatusCanceled, net.ErrClosed)
	}
	return n, nil
}

// pendingLocked tells whether a result that is in the queue and satisfied no
// notification yet satisfies one of this kind, and if so marks all of them.
func (q *completionQueue) pendingLocked(kind rdma.NotifyKind) bool {
	seen := max(q.seen, q.head)
	seenSolicited := max(seen, q.seenSolicited)
	if kind == rdma.NotifySolicited {
		for _, w := range q.waiters {
			if w.kind == rdma.NotifyAny {
				kind = rdma.NotifyAny
			}
		}
	}
	switch {
	case kind == rdma.NotifyAny && (q.lastPlain > seen || q.lastSolicited > seenSolicited):
		q.seen = q.tail
	case kind == rdma.NotifySolicited && q.lastSolicited > seenSolicited:
		q.seenSolicited = q.tail
	default:
		return false
	}
	return true
}

// Notify waits for an event. Every result satisfies the notifications that wait
// when it arrives, or the next one, and no others.
//
// Source: [ND CompletionQueue.Notify], [ND §6.4]
func (q *completionQueue) Notify(ctx context.Context, kind rdma.NotifyKind) error {
	const op = "notify"
	if kind > rdma.NotifySolicited {
		return opError(op, "", rdma.StatusInvalidParameter, nil)
	}
	if ctx.Err() != nil {
		return rdma.CanceledBy(ctx, "shm: "+op, "")
	}
	q.mu.Lock()
	if q.failed != rdma.StatusSuccess {
		defer q.mu.Unlock()
		return opError(op, "", q.failed, nil)
	}
	if q.pendingLocked(kind) {
		q.releaseLocked()
		q.mu.Unlock()
		return nil
	}
	w := q.waiterLocked(kind)
	q.mu.Unlock()
	q.rest()

	canceled := false
	select {
	case <-w.ch:
	case <-ctx.Done():
		canceled = q.leave(w)
	}
	status := q.giveBack(w)
	switch {
	case canceled:
		return rdma.CanceledBy(ctx, "shm: "+op, "")
	case status != rdma.StatusSuccess:
		return opError(op, "", status, nil)
	}
	return nil
}

// waiterLocked enters a notification.
func (q *completionQueue) waiterLocked(kind rdma.NotifyKind) *waiter {
	var w *waiter
	if n := len(q.free); n > 0 {
		w, q.free = q.free[n-1], q.free[:n-1]
	} else {
		w = &waiter{ch: make(chan struct{}, 1)}
	}
	w.kind, w.status = kind, rdma.StatusSuccess
	q.waiters = append(q.waiters, w)
	return w
}

// leave takes a notification out; false says that it was satisfied meanwhile.
func (q *completionQueue) leave(w *waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, o := range q.waiters {
		if o == w {
			q.waiters = append(q.waiters[:i], q.waiters[i+1:]...)
			return true
		}
	}
	<-w.ch
	return false
}

// giveBack keeps a waiter for later use and tells how it ended.
func (q *completionQueue) giveBack(w *waiter) rdma.Status {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.free = append(q.free, w)
	return w.status
}

// Resize changes the depth.
func (q *completionQueue) Resize(depth int) error {
	const op = "resize completion queue"
	if depth < 1 || depth > maxCompletionDepth {
		return opError(op, "", rdma.StatusInvalidParameter, nil)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.failed != rdma.StatusSuccess:
		return opError(op, "", q.failed, nil)
	case q.tail-q.head > uint64(depth):
		return opError(op, "", rdma.StatusBufferOverflow, nil)
	}
	q.depth = depth
	return nil
}

// Close ends all notifications; results that are left can still be polled.
func (q *completionQueue) Close() error {
	q.mu.Lock()
	if q.failed != rdma.StatusCanceled {
		q.failLocked(rdma.StatusCanceled)
	}
	q.mu.Unlock()
	q.a.remove(classCompletionQueue, q)
	return nil
}
