package fault

import (
	"sync"
	"sync/atomic"

	"lwio/rdma"
)

// queuePair wraps a queue pair.
type queuePair struct {
	a      *adapter
	inner  rdma.QueuePair
	number uint64               // among all of the provider; the wrapped Context if requests are numbered
	cfg    rdma.QueuePairConfig // as the program passed it
	dice   *dice                // of Config.Shuffle, or nil
	conn   atomic.Pointer[connector]

	postMu sync.Mutex // held during the decision about a request and its post
	n      uint64     // requests so far; the wrapped ID of the last one
	bytes  uint64     // data bytes of these requests

	mu      sync.Mutex
	pending []posted // in order, the oldest first
}

// posted is a request without a polled result. A silent request makes no result.
type posted struct {
	n, id    uint64
	op       rdma.Op
	own      rdma.MemoryRegion // of a copy of the data, or nil
	fromFile bool              // the copy is of a file,
	bytes    int               // which had this number of bytes
	sink     []rdma.SGE        // of a read whose data gets an inverted bit, or nil
	bit      uint64
}

var (
	_ rdma.QueuePair = (*queuePair)(nil)
)

// barePair unwraps a queue pair.
func barePair(q rdma.QueuePair) rdma.QueuePair {
	if p, ok := q.(*queuePair); ok && p != nil {
		return p.inner
	}
	return q
}

// Post posts requests with all objects unwrapped.
func (q *queuePair) Post(reqs []rdma.Request) (int, error) {
	if q.a.p.cfg.numbered() {
		return q.postNumbered(reqs)
	}
	s := q.a.scratch()
	defer q.a.giveBack(s)
	inside := s.requests(reqs)
	n, err := q.inner.Post(inside)
	// The program's own lists may be in use for other requests by now.
	for i := range inside[:n] {
		q.note(&inside[i], dataOf(&inside[i]), Pass(), nil)
	}
	if err != nil && n < len(reqs) {
		q.note(&inside[n], dataOf(&inside[n]), Pass(), err)
	}
	return n, err
}

// note counts and traces one request with the given number of data bytes.
func (q *queuePair) note(r *rdma.Request, bytes int, act Action, err error) {
	q.a.p.count.posted(r.Op, bytes, err)
	if t := q.a.p.cfg.Tracer; t != nil {
		t.Event(Posted{QueuePair: q.cfg.Context, Op: r.Op, Flags: r.Flags, ID: r.ID, Bytes: bytes, Remote: r.Remote, Action: act, Err: err})
	}
}

// dataOf returns the number of data bytes of a request.
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

// PostReceive posts receives with their regions unwrapped.
func (q *queuePair) PostReceive(reqs []rdma.ReceiveRequest) (int, error) {
	s := q.a.scratch()
	n, err := q.inner.PostReceive(s.receives(reqs))
	q.a.giveBack(s)
	q.a.p.noteReceives(q.cfg.Context, reqs, n, err)
	return n, err
}

// noteReceives counts and traces receives; n of them were taken.
func (p *Provider) noteReceives(context uint64, reqs []rdma.ReceiveRequest, n int, err error) {
	for i := range reqs {
		var refusal error
		switch {
		case i == n && err != nil:
			refusal = err
		case i >= n:
			return
		}
		bytes := lengthOf(reqs[i].SGL)
		p.count.posted(rdma.OpReceive, bytes, refusal)
		if t := p.cfg.Tracer; t != nil {
			t.Event(Posted{QueuePair: context, Op: rdma.OpReceive, ID: reqs[i].ID, Bytes: bytes, Err: refusal})
		}
	}
}

func (q *queuePair) Flush() error { return q.inner.Flush() }

func (q *queuePair) TrimIdle() { q.inner.TrimIdle() }

// Close closes the wrapped queue pair, and then the copies of its requests' data.
func (q *queuePair) Close() error {
	err := q.a.p.close("queue pair", q.inner)
	q.a.pairs.retire(q)
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range q.pending {
		q.pending[i].release()
	}
	return err
}
