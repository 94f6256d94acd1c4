package fault

import (
	"context"

	"lwio/rdma"
)

// completionQueue wraps a completion queue.
type completionQueue struct {
	a     *adapter
	inner rdma.CompletionQueue
	dice  *dice // of Config.Shuffle, or nil
}

var _ rdma.CompletionQueue = (*completionQueue)(nil)

// bareQueue unwraps a completion queue.
func bareQueue(q rdma.CompletionQueue) rdma.CompletionQueue {
	if c, ok := q.(*completionQueue); ok && c != nil {
		return c.inner
	}
	return q
}

// Poll counts and traces results, and gives them the IDs of the program's requests.
func (q *completionQueue) Poll(results []rdma.Result) (int, error) {
	n, err := q.inner.Poll(results)
	if n > 0 && q.a.p.cfg.numbered() {
		q.translate(results[:n])
	}
	for i := range results[:n] {
		r := &results[i]
		q.a.p.count.completed(r)
		if t := q.a.p.cfg.Tracer; t != nil {
			t.Event(Completed{*r})
		}
	}
	return n, err
}

// translate maps results to their requests, and reorders them with Shuffle.
func (q *completionQueue) translate(results []rdma.Result) {
	var lines []lineOf
	for i := range results {
		r := &results[i]
		if q.dice != nil && len(results) > 1 {
			lines = append(lines, lineOf{r.QueuePairContext, r.Op == rdma.OpReceive})
		}
		q.a.pairs.translate(r)
	}
	if lines != nil {
		q.dice.mix(results, lines)
	}
}

func (q *completionQueue) Wait(ctx context.Context, kind rdma.NotifyKind) error {
	start := q.a.p.start()
	err := q.inner.Wait(ctx, kind)
	q.a.p.control(start, "notify", nil, err)
	if err == nil {
		q.a.p.count.notifications.Add(1)
	}
	return err
}

func (q *completionQueue) Resize(depth int) error {
	start := q.a.p.start()
	err := q.inner.Resize(depth)
	q.a.p.control(start, "resize completion queue", size(depth), err)
	return err
}

func (q *completionQueue) Close() error { return q.a.p.close("completion queue", q.inner) }
