package softrdma

import (
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"lwio/rdma"
)

// firstResults is the number of results that fit into a queue before it grows. A queue
// grows up to its depth.
const firstResults = 64

// CompletionQueue is a ring of results. Results are numbered from the first ever. The
// ring holds the results [head, tail).
//
// Source: [ND CompletionQueue]
type CompletionQueue struct {
	d     *Domain
	count atomic.Int64 // tail - head, or a value other than 0 after a failure

	mu         sync.Mutex
	ring       []rdma.Result
	head, tail uint64
	depth      int
	// All results before seen have ended a Wait. For NotifySolicited, all results before
	// seenSolicited have too.
	seen, seenSolicited uint64
	// One more than the number of the last plain and of the last solicited result; 0 for
	// none.
	lastPlain, lastSolicited uint64
	waiters                  []*waiter // waiters are the calls of Wait in progress; free is kept for reuse
	free                     []*waiter
	places                   [2]*waiter
	first                    waiter
	watching                 bool        // timer runs
	timer                    *time.Timer // calls endWatches
	failed                   rdma.Status // StatusBufferOverflow, or StatusCanceled when closed
	drivers                  map[Driver]struct{}
	sole                     Parker // the only driver, if there is one and it is a Parker

	waiting  atomic.Int32             // the length of waiters
	sleepers atomic.Int32             // calls of Wait that need other goroutines to push
	polls    atomic.Int64             // of the empty queue since the last sleep, up to HotPolls
	driven   atomic.Pointer[[]Driver] // the drivers that polls drive; see maxDriven
}

var _ rdma.CompletionQueue = (*CompletionQueue)(nil)

// CreateCompletionQueue makes a queue whose memory grows with use.
//
// Errors: StatusInvalidParameterN(3) for the depth.
func (d *Domain) CreateCompletionQueue(depth int) (rdma.CompletionQueue, error) {
	const op = "create completion queue"
	if depth < 1 || depth > MaxCompletionDepth {
		return nil, d.Error(op, "", rdma.StatusInvalidParameterN(3), nil)
	}
	q := &CompletionQueue{d: d, depth: depth, drivers: make(map[Driver]struct{})}
	q.waiters, q.free = q.places[:0:1], append(q.places[1:1:2], q.first.init())
	if err := d.Add(CompletionQueues, q, op); err != nil {
		return nil, err
	}
	return q, nil
}

// CompletionQueueOf returns q if it is a queue of this domain, else nil.
func (d *Domain) CompletionQueueOf(q rdma.CompletionQueue) *CompletionQueue {
	if s, ok := q.(*CompletionQueue); ok && s != nil && s.d == d {
		return s
	}
	return nil
}

// Attach adds a queue pair. Polls drive it, and an overrun ends it. Attach fails once the
// queue is closed or has overrun.
func (q *CompletionQueue) Attach(p Driver) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.failed != rdma.StatusSuccess {
		return false
	}
	q.drivers[p] = struct{}{}
	q.drivenLocked()
	return true
}

// Detach removes a queue pair. A poll in progress may still call its Look once.
func (q *CompletionQueue) Detach(p Driver) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.drivers, p)
	q.drivenLocked()
}

// Push adds results and ends the calls of Wait that they satisfy. If they do not fit, the
// queue has overrun, and its queue pairs end.
//
// Source: [RFC 5042 §6.4.3.2]
func (q *CompletionQueue) Push(results []rdma.Result) {
	if len(results) == 0 {
		return
	}
	q.mu.Lock()
	if q.failed != rdma.StatusSuccess {
		q.mu.Unlock()
		return
	}
	var overrun []Driver
	for i := range results {
		if q.tail-q.head == uint64(q.depth) {
			overrun = q.failLocked(rdma.StatusBufferOverflow)
			break
		}
		q.addLocked(&results[i])
	}
	if q.failed == rdma.StatusSuccess {
		q.count.Store(int64(q.tail - q.head))
	}
	q.mu.Unlock()
	for _, p := range overrun {
		p.Fail(q.d.Error("completion queue", "", rdma.StatusBufferOverflow, nil))
	}
}

// addLocked adds one result. The caller sets count. Precondition: the queue is not full.
func (q *CompletionQueue) addLocked(r *rdma.Result) {
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
	if len(q.waiters) != 0 {
		q.count.Store(int64(q.tail - q.head)) // before a poller can take it
		q.triggerLocked(n, solicited)
	}
}

// resizeLocked makes the ring n long. n is a power of two and at least the number of
// results.
func (q *CompletionQueue) resizeLocked(n int) {
	ring := make([]rdma.Result, n)
	for i := q.head; i != q.tail; i++ {
		ring[i&uint64(n-1)] = q.ring[i&uint64(len(q.ring)-1)]
	}
	q.ring = ring
}

// failLocked ends the queue and all calls of Wait with a status, and returns the queue
// pairs, which must end too.
func (q *CompletionQueue) failLocked(status rdma.Status) []Driver {
	q.failed = status
	q.count.Store(1)
	for _, w := range q.waiters {
		w.status = status
		w.release()
	}
	q.waiters = nil
	q.waiting.Store(0)
	return slices.Collect(maps.Keys(q.drivers))
}

// Poll takes results without blocking. If there are none, it drives the connections.
// After an overrun it returns the remaining results together with the error.
func (q *CompletionQueue) Poll(results []rdma.Result) (int, error) {
	n := 0
	if q.count.Load() == 0 {
		n = q.drive(results)
		if q.count.Load() == 0 || n > 0 && n == len(results) {
			return n, nil
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for n < len(results) && q.head != q.tail {
		results[n] = q.ring[q.head&uint64(len(q.ring)-1)]
		q.head++
		n++
	}
	switch {
	case q.failed == rdma.StatusBufferOverflow:
		return n, q.d.Error("poll", "", rdma.StatusBufferOverflow, nil)
	case q.failed == rdma.StatusSuccess:
		q.count.Store(int64(q.tail - q.head))
	case n == 0 && q.head == q.tail:
		return 0, q.d.Error("poll", "", rdma.StatusCanceled, net.ErrClosed)
	}
	return n, nil
}

// Resize changes the depth.
func (q *CompletionQueue) Resize(depth int) error {
	const op = "resize completion queue"
	if depth < 1 || depth > MaxCompletionDepth {
		return q.d.Error(op, "", rdma.StatusInvalidParameter, nil)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.failed != rdma.StatusSuccess:
		return q.d.Error(op, "", q.failed, nil)
	case q.tail-q.head > uint64(depth):
		return q.d.Error(op, "", rdma.StatusBufferOverflow, nil)
	}
	q.depth = depth
	return nil
}

// Close ends all calls of Wait; remaining results can still be polled.
func (q *CompletionQueue) Close() error {
	q.mu.Lock()
	if q.failed != rdma.StatusCanceled {
		q.failLocked(rdma.StatusCanceled)
	}
	if q.timer != nil {
		q.timer.Stop()
	}
	q.mu.Unlock()
	q.endWatches()
	q.d.Remove(CompletionQueues, q)
	return nil
}
