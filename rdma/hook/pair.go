package hook

import (
	"sync"
	"sync/atomic"

	"lwio/rdma"
)

// queuePair is a queue pair inside a hook.
type queuePair struct {
	a       *adapter
	inner   rdma.QueuePair
	number  uint64 // among all of the provider; in faulty mode the Context inside
	context uint64 // what the program gave it
	conn    atomic.Pointer[connector]

	postMu sync.Mutex // held over the decision about a request and its post
	n      uint64     // requests so far; the ID that a request has inside

	mu      sync.Mutex
	pending []posted // in order, the oldest first
}

// posted is a request whose result, if it makes one, is still to come.
type posted struct {
	n, id uint64
	op    rdma.Op
}

var _ rdma.QueuePair = (*queuePair)(nil)

// barePair takes a queue pair out of its hook.
func barePair(q rdma.QueuePair) rdma.QueuePair {
	if p, ok := q.(*queuePair); ok && p != nil {
		return p.inner
	}
	return q
}

// Post hands requests on with everything they name taken out of its hook.
func (q *queuePair) Post(reqs []rdma.Request) (int, error) {
	if q.a.h.cfg.Fault != nil {
		return q.postFaulty(reqs)
	}
	s := q.a.scratch()
	n, err := q.inner.Post(s.requests(reqs))
	q.a.giveBack(s)
	for i := range reqs[:n] {
		q.note(&reqs[i], nil)
	}
	if err != nil && n < len(reqs) {
		q.note(&reqs[n], err)
	}
	return n, err
}

// note counts and traces one request.
func (q *queuePair) note(r *rdma.Request, err error) {
	bytes := dataOf(r)
	q.a.h.count.posted(r.Op, bytes, err)
	if t := q.a.h.cfg.Tracer; t != nil {
		t.Event(Posted{QueuePair: q.context, Op: r.Op, Flags: r.Flags, ID: r.ID, Bytes: bytes, Remote: r.Remote, Err: err})
	}
}

// dataOf is the number of bytes that a request names.
func dataOf(r *rdma.Request) int {
	switch {
	case r.Flags&rdma.FlagInline != 0:
		return len(r.Inline)
	case r.File != nil:
		return r.FileLength
	}
	return lengthOf(r.SGL)
}

func lengthOf(sgl []rdma.SGE) int {
	n := 0
	for i := range sgl {
		n += sgl[i].Length
	}
	return n
}

// PostReceive hands receives on, with their regions taken out of their hooks.
func (q *queuePair) PostReceive(reqs []rdma.ReceiveRequest) (int, error) {
	s := q.a.scratch()
	n, err := q.inner.PostReceive(s.receives(reqs))
	q.a.giveBack(s)
	q.a.h.noteReceives(q.context, reqs, n, err)
	return n, err
}

// noteReceives counts and traces receives, of which n were taken.
func (h *Provider) noteReceives(context uint64, reqs []rdma.ReceiveRequest, n int, err error) {
	for i := range reqs {
		var refusal error
		switch {
		case i == n && err != nil:
			refusal = err
		case i >= n:
			return
		}
		bytes := lengthOf(reqs[i].SGL)
		h.count.posted(rdma.OpReceive, bytes, refusal)
		if t := h.cfg.Tracer; t != nil {
			t.Event(Posted{QueuePair: context, Op: rdma.OpReceive, ID: reqs[i].ID, Bytes: bytes, Err: refusal})
		}
	}
}

func (q *queuePair) Flush() error { return q.inner.Flush() }
func (q *queuePair) Close() error { return q.a.h.close("queue pair", q.inner) }
