package softrdma

import (
	"sync"

	"lwio/rdma"
)

// MaxResults is the number of results that are gathered before a push to a completion
// queue.
const MaxResults = 64

// Receive is a posted receive, or the receive that is being filled.
type Receive struct {
	ID     uint64
	Pieces []Piece
	Length int // of Pieces, in bytes

	buffer *buffer  // set if a shared queue supplied it
	room   [2]Piece // backs Pieces when two are enough
}

// set fills a slot with a checked request.
func (r *Receive) set(req *rdma.ReceiveRequest, length int) {
	r.ID, r.Length = req.ID, length
	if r.Pieces == nil {
		r.Pieces = r.room[:0]
	}
	r.Pieces = AppendPieces(r.Pieces[:0], req.SGL)
}

// ReceiveQueue is the receive queue of a queue pair: its own receives, or the receives of
// a shared queue. Results appear in order. Its lock comes before the lock of a shared
// queue and of a completion queue.
//
// Source: [ND QueuePair.Receive]
type ReceiveQueue struct {
	d      *Domain
	cq     *CompletionQueue
	shared *SharedQueue // or nil
	taker  Taker        // of shared

	context uint64
	depth   int
	maxSGE  int

	mu       sync.Mutex
	receives FIFO[Receive]
	own      Receive  // a receive of the shared queue
	current  *Receive // the receive that is being filled, or nil
	results  []rdma.Result
	cancel   uint64 // receives before this number end with StatusCanceled
	flushed  bool   // receives end at once
	closed   bool   // no more receives are accepted
}

// Init makes the queue. Its memory grows with use. If BeginLocked found the shared queue
// empty, the shared queue calls resume when it may have a receive again. resume runs with
// locks held and must not wait.
func (q *ReceiveQueue) Init(d *Domain, cfg *rdma.QueuePairConfig, qs Queues, resume func()) {
	q.d, q.cq, q.shared = d, qs.Receive, qs.Shared
	q.context, q.depth, q.maxSGE = cfg.Context, cfg.ReceiveDepth, cfg.MaxReceiveSGE
	q.taker.resume = resume
}

// Lock takes the lock that the xLocked methods need.
func (q *ReceiveQueue) Lock() { q.mu.Lock() }

// Unlock releases the lock.
func (q *ReceiveQueue) Unlock() { q.mu.Unlock() }

// Post queues receives. After the end of the connection they end at once with
// StatusCanceled. With a shared receive queue Post fails: StatusInvalidDeviceRequest.
//
// Source: [ND QueuePair.Receive]
func (q *ReceiveQueue) Post(reqs []rdma.ReceiveRequest) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, err := 0, error(nil)
	for ; n < len(reqs); n++ {
		if status := q.postLocked(&reqs[n]); status != rdma.StatusSuccess {
			err = q.d.Error("post", "receive", status, nil)
			break
		}
	}
	if q.flushed {
		q.cancel = q.receives.Tail
		q.cancelLocked()
	}
	return n, err
}

func (q *ReceiveQueue) postLocked(r *rdma.ReceiveRequest) rdma.Status {
	switch {
	case q.closed:
		return rdma.StatusInvalidHandle
	case q.shared != nil:
		return rdma.StatusInvalidDeviceRequest
	case q.receives.Len() >= q.depth:
		return rdma.StatusNoMoreEntries
	}
	length, status := q.d.CheckSGL(r.SGL, q.maxSGE, rdma.AccessLocalWrite)
	if status == rdma.StatusSuccess {
		q.receives.Push().set(r, length)
	}
	return status
}

// BeginLocked returns the first receive. The caller fills it without holding the lock.
//
// Errors: StatusNoMoreEntries if there is no receive, StatusPending if the shared queue
// has no receive yet, StatusInvalidHandle if the shared queue is closed.
func (q *ReceiveQueue) BeginLocked() (*Receive, rdma.Status) {
	switch {
	case q.shared != nil:
		if status := q.shared.take(&q.own, &q.taker); status != rdma.StatusSuccess {
			return nil, status
		}
		q.current = &q.own
	case q.receives.Len() == 0:
		return nil, rdma.StatusNoMoreEntries
	default:
		q.current = q.receives.At(q.receives.Head)
	}
	return q.current, rdma.StatusSuccess
}

// CurrentLocked returns the receive that is being filled, or nil.
func (q *ReceiveQueue) CurrentLocked() *Receive { return q.current }

// FinishLocked completes the current receive. with has the number of bytes and the other
// fields of the result.
func (q *ReceiveQueue) FinishLocked(with *rdma.Result) {
	q.endLocked(with)
	switch {
	case q.receives.Head < q.cancel:
		q.cancelLocked()
	case len(q.results) == MaxResults:
		q.PushLocked()
	}
}

// endLocked adds the result of the current receive. It fills the result in place, field
// by field, because the processor stalls on a copy that follows the stores of the fields.
func (q *ReceiveQueue) endLocked(with *rdma.Result) {
	r := q.current
	if q.current = nil; q.shared == nil {
		q.receives.Head++
	}
	clear(r.Pieces)
	q.results = append(q.results, rdma.Result{})
	to := &q.results[len(q.results)-1]
	to.Status, to.Bytes, to.Solicited = with.Status, with.Bytes, with.Solicited
	to.HasImmediate, to.Immediate, to.RemoteData = with.HasImmediate, with.Immediate, with.RemoteData
	to.Op, to.QueuePairContext, to.ID = rdma.OpReceive, q.context, r.ID
}

// Push pushes the gathered results to the completion queue.
func (q *ReceiveQueue) Push() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.PushLocked()
}

// PushLocked is Push with the lock held.
func (q *ReceiveQueue) PushLocked() {
	q.cq.Push(q.results)
	q.results = q.results[:0]
}

// PushToLocked is PushLocked for a Look: see CompletionQueue.PushTo.
func (q *ReceiveQueue) PushToLocked(to *Poller) int {
	n := q.cq.PushTo(to, q.results)
	q.results = q.results[:0]
	return n
}

// cancelLocked ends the receives that were posted before the last Flush.
func (q *ReceiveQueue) cancelLocked() {
	for q.receives.Head < q.cancel {
		q.current = q.receives.At(q.receives.Head)
		q.endLocked(&rdma.Result{Status: rdma.StatusCanceled})
		if len(q.results) == MaxResults {
			q.PushLocked()
		}
	}
	q.PushLocked()
}

// Flush ends the posted receives with StatusCanceled. The receive that is being filled is
// not changed and ends first.
func (q *ReceiveQueue) Flush() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.cancel = q.receives.Tail
	if q.current == nil {
		q.cancelLocked()
	}
}

// Leave ends the wait for a receive of the shared queue, if there is one.
func (q *ReceiveQueue) Leave() {
	if q.shared != nil {
		q.shared.leave(&q.taker)
	}
}

// End ends all receives: the current receive with the given status, all others with
// StatusCanceled. Receives that are posted later end at once. Precondition: no goroutine
// fills a receive.
func (q *ReceiveQueue) End(status rdma.Status) {
	q.Leave()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.current != nil {
		q.endLocked(&rdma.Result{Status: status})
	}
	q.flushed = true
	q.cancel = q.receives.Tail
	q.cancelLocked()
}

// Close makes the queue refuse receives, after End.
func (q *ReceiveQueue) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}
