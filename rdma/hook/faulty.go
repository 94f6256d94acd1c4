package hook

import (
	"sync"

	"lwio/rdma"
)

// In faulty mode a queue pair has its number as context inside, and its requests
// are numbered: a result then leads back to its request, whatever the program
// called it, and whatever was posted in its place.

// postFaulty lets the fault function decide about each request.
func (q *queuePair) postFaulty(reqs []rdma.Request) (int, error) {
	q.postMu.Lock()
	defer q.postMu.Unlock()
	for i := range reqs {
		err := q.postOneLocked(&reqs[i])
		q.note(&reqs[i], err)
		if err != nil {
			return i, err
		}
	}
	return len(reqs), nil
}

// postOneLocked posts a request, or what its fate has made of it.
func (q *queuePair) postOneLocked(r *rdma.Request) error {
	q.n++
	s := q.a.scratch()
	defer q.a.giveBack(s)
	inside := s.requests([]rdma.Request{*r})
	inside[0].ID = q.n
	act := q.a.h.cfg.Fault(Attempt{Pair: q.number, Context: q.context, N: q.n, Request: r})
	switch act.kind {
	case actFail:
		return &rdma.Error{Op: "hook: post", Object: r.Op.String(), Status: act.status}
	case actCut:
		if c := q.conn.Load(); c != nil {
			_ = c.inner.Close() // the program closes it again, and sees the error then
		}
	case actDrop:
		// A write of nothing touches nothing, and completes in its turn.
		const kept = rdma.FlagSilentSuccess | rdma.FlagReadFence
		inside[0] = rdma.Request{Op: rdma.OpWrite, ID: q.n, Flags: r.Flags & kept}
	case actPass:
	}
	q.expect(posted{n: q.n, id: r.ID, op: r.Op})
	_, err := q.inner.Post(inside)
	if err != nil {
		q.unexpect()
	}
	return err
}

// expect notes a request before it is posted, unexpect takes it back.
func (q *queuePair) expect(p posted) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pending = append(q.pending, p)
}

func (q *queuePair) unexpect() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pending = q.pending[:len(q.pending)-1]
}

// recall names the request that the number inside belongs to. Results come in
// the order of posting, so all before it were silent.
func (q *queuePair) recall(n uint64) (posted, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := 0
	for i < len(q.pending) && q.pending[i].n < n {
		i++
	}
	if i == len(q.pending) || q.pending[i].n != n {
		return posted{}, false
	}
	p := q.pending[i]
	q.pending = append(q.pending[:0], q.pending[i+1:]...)
	return p, true
}

// pairTable finds the queue pairs of an adapter by number. Results may outlive
// their queue pair, so that it lives as long as the adapter.
type pairTable struct {
	mu    sync.RWMutex
	pairs map[uint64]*queuePair
}

func (t *pairTable) add(q *queuePair) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pairs == nil {
		t.pairs = make(map[uint64]*queuePair)
	}
	t.pairs[q.number] = q
}

func (t *pairTable) remove(q *queuePair) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.pairs, q.number)
}

// translate gives a result the names that the program knows.
func (t *pairTable) translate(r *rdma.Result) {
	t.mu.RLock()
	q := t.pairs[r.QueuePair]
	t.mu.RUnlock()
	if q == nil {
		return
	}
	r.QueuePair = q.context
	if r.Op == rdma.OpReceive {
		return
	}
	if p, ok := q.recall(r.ID); ok {
		r.ID, r.Op = p.id, p.op
	}
}
