package fault

import (
	"math/rand/v2"
	"sync"

	"lwio/rdma"
)

// dice makes random numbers for many goroutines.
type dice struct {
	mu  sync.Mutex
	rng *rand.Rand
}

func newDice(seed, stream uint64) *dice {
	return &dice{rng: rand.New(rand.NewPCG(seed, stream))}
}

// perm fills order with a random permutation of its indices.
func (d *dice) perm(order []int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range order {
		order[i] = i
	}
	d.rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
}

// lineOf names a sequence of ordered results: the results of a queue pair's receives, or
// of its other requests.
type lineOf struct {
	pair    uint64
	receive bool
}

// mix gives results another possible order: results of one line keep their order. lines
// has the line of each result.
//
// Source: [ND QueuePair §Ordering]
func (d *dice) mix(results []rdma.Result, lines []lineOf) {
	order := make([]int, len(results))
	d.perm(order)
	queues := make(map[lineOf][]rdma.Result)
	for i, r := range results {
		queues[lines[i]] = append(queues[lines[i]], r)
	}
	for i, j := range order {
		q := queues[lines[j]]
		results[i], queues[lines[j]] = q[0], q[1:]
	}
}

// group returns the number of leading requests that are writes without an order among
// them. The queue pair has room for all of them.
func (q *queuePair) group(reqs []rdma.Request) int {
	room := q.room()
	n := 0
	for n < len(reqs) && n < room && q.plain(&reqs[n]) && !overlaps(reqs[:n], &reqs[n]) {
		n++
	}
	return n
}

// room returns the minimum number of requests that the queue has room for.
func (q *queuePair) room() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.cfg.InitiatorDepth - len(q.pending)
}

// plain reports whether a request is a write from memory that the queue pair refuses only
// after the end of the connection.
func (q *queuePair) plain(r *rdma.Request) bool {
	if r.Op != rdma.OpWrite || r.File != nil || r.Flags&^(rdma.FlagSilentSuccess|rdma.FlagInline) != 0 {
		return false
	}
	if r.Flags&rdma.FlagInline != 0 {
		return len(r.Inline) <= q.cfg.InlineSize
	}
	if len(r.SGL) > q.cfg.MaxInitiatorSGE || uint64(lengthOf(r.SGL)) > uint64(q.a.inner.Info().MaxTransferLength) {
		return false
	}
	for _, s := range r.SGL {
		m, ok := s.Region.(*region)
		if !ok || m == nil || m.closed.Load() || s.Offset < 0 || s.Length < 0 || s.Offset > len(m.Bytes())-s.Length {
			return false
		}
	}
	return true
}

// overlaps reports whether a write overlaps another one, so that their order decides the
// final content.
func overlaps(others []rdma.Request, r *rdma.Request) bool {
	for i := range others {
		o := &others[i]
		if o.Remote.Token == r.Remote.Token &&
			o.Remote.Addr < r.Remote.Addr+uint64(dataOf(r)) && r.Remote.Addr < o.Remote.Addr+uint64(dataOf(o)) {
			return true
		}
	}
	return false
}
