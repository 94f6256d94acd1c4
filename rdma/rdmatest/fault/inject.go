package fault

import (
	"slices"
	"sync"
	"time"

	"lwio/rdma"
)

// A wrapper that injects faults or reorders sets the context of the wrapped queue pair to
// the queue pair's number, and numbers its requests. A result is thus mapped to its
// request, independent of the request's ID and of a request that was posted in its place.

// postNumbered lets the fault function decide about each request, and reorders writes
// that have no order.
func (q *queuePair) postNumbered(reqs []rdma.Request) (int, error) {
	q.postMu.Lock()
	defer q.postMu.Unlock()
	for at := 0; at < len(reqs); {
		n, err := q.postGroupLocked(reqs[at:])
		at += n
		if err != nil {
			return at, err
		}
	}
	return len(reqs), nil
}

// postGroupLocked posts the first request, or several requests in a random order. The
// results appear in the order of the program's requests.
func (q *queuePair) postGroupLocked(reqs []rdma.Request) (int, error) {
	order := []int{0}
	if q.dice != nil {
		if n := q.group(reqs); n > 1 {
			order = make([]int, n)
			q.dice.perm(order)
		}
	}
	for i, j := range order {
		r := reqs[j]
		r.ID, r.Flags = reqs[i].ID, r.Flags&^rdma.FlagSilentSuccess|reqs[i].Flags&rdma.FlagSilentSuccess
		bytes := dataOf(&r) // counted before the post: afterwards the list may be in use for another request
		act, err := q.postOneLocked(&r)
		q.note(&r, bytes, act, err)
		if err != nil {
			return i, err
		}
	}
	return len(order), nil
}

// postOneLocked posts a request as its action changes it.
func (q *queuePair) postOneLocked(r *rdma.Request) (Action, error) {
	act := q.fateLocked(r)
	s := q.a.scratch()
	defer q.a.giveBack(s)
	inside := s.requests([]rdma.Request{*r})
	inside[0].ID = q.n
	p := posted{n: q.n, id: r.ID, op: r.Op}
	switch act.kind {
	case actFail:
		return act, &rdma.Error{Op: "fault: post", Object: r.Op.String(), Status: act.status}
	case actCut:
		if c := q.conn.Load(); c != nil {
			_ = c.inner.Close() // the program closes it again, and then sees the error
		}
	case actDrop:
		// A write of no bytes has no effect, and completes in its turn.
		const kept = rdma.FlagSilentSuccess | rdma.FlagReadFence
		inside[0] = rdma.Request{Op: rdma.OpWrite, ID: q.n, Flags: r.Flags & kept}
	case actFlip:
		if err := q.flipData(&inside[0], &p, act.bit); err != nil {
			return act, err
		}
	case actDelay:
		time.Sleep(act.delay)
	case actPass:
	}
	q.expect(p)
	_, err := q.inner.Post(inside)
	if err != nil {
		q.unexpect()
	}
	return act, err
}

// fateLocked counts a request and returns its action.
func (q *queuePair) fateLocked(r *rdma.Request) Action {
	q.n++
	a := Attempt{Pair: q.number, Context: q.cfg.Context, N: q.n, Before: q.bytes, Bytes: dataOf(r), Request: r}
	q.bytes += uint64(a.Bytes)
	if f := q.a.p.cfg.Fault; f != nil {
		return f(a)
	}
	return Pass()
}

// release releases the copy of a request's data.
func (p *posted) release() {
	if p.own != nil {
		_ = p.own.Close() // a closed adapter has closed it already
		p.own = nil
	}
}

// expect records a request before it is posted; unexpect removes it.
func (q *queuePair) expect(p posted) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pending = append(q.pending, p)
}

func (q *queuePair) unexpect() {
	q.mu.Lock()
	defer q.mu.Unlock()
	last := len(q.pending) - 1
	q.pending[last].release()
	q.pending = q.pending[:last]
}

// recall returns the request with the number n and removes it. Results come in the order
// of posting, so all earlier requests were silent.
func (q *queuePair) recall(n uint64) (posted, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := 0
	for i < len(q.pending) && q.pending[i].n < n {
		q.pending[i].release()
		i++
	}
	if i == len(q.pending) || q.pending[i].n != n {
		return posted{}, false
	}
	p := q.pending[i]
	p.release()
	q.pending = append(q.pending[:0], q.pending[i+1:]...)
	return p, true
}

// keptPairs is the number of closed queue pairs that the table keeps.
const keptPairs = 16

// pairTable finds the queue pairs of an adapter by number. Results may outlive their
// queue pair, so the table keeps the queue pairs that were closed last.
type pairTable struct {
	mu     sync.RWMutex
	pairs  map[uint64]*queuePair
	closed []uint64
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

// retire records that a queue pair was closed, and removes the oldest closed one if there
// are too many.
func (t *pairTable) retire(q *queuePair) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pairs[q.number] != q || slices.Contains(t.closed, q.number) {
		return
	}
	if t.closed = append(t.closed, q.number); len(t.closed) > keptPairs {
		delete(t.pairs, t.closed[0])
		t.closed = slices.Delete(t.closed, 0, 1)
	}
}

// translate gives a result the ID and the context of the program.
func (t *pairTable) translate(r *rdma.Result) {
	t.mu.RLock()
	q := t.pairs[r.QueuePairContext]
	t.mu.RUnlock()
	if q == nil {
		return
	}
	r.QueuePairContext = q.cfg.Context
	if r.Op == rdma.OpReceive {
		return
	}
	if p, ok := q.recall(r.ID); ok {
		r.ID, r.Op = p.id, p.op
		if r.Status != rdma.StatusSuccess {
			return
		}
		if p.fromFile {
			r.Bytes = p.bytes
		}
		if p.sink != nil {
			flipSink(p.sink, p.bit)
		}
	}
}
