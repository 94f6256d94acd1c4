package softrdma

import (
	"context"
	"time"

	"lwio/rdma"
)

// watchTime is the minimum time for which a context is watched after the last wait with
// it.
const watchTime = time.Second

// watch ends a Park when its context ends. The waiter keeps it for its next use, which
// usually has the same context. It is dropped after watchTime, because a context that is
// not of package context costs a goroutine. The user of the waiter owns the watch.
type watch struct {
	done   <-chan struct{}
	parker Parker
	cancel func() bool
	used   bool // since the last endWatches
}

// begin watches a context for a Park.
func (w *watch) begin(ctx context.Context, p Parker) {
	w.used = true
	if done := ctx.Done(); done != w.done || p != w.parker {
		w.stop()
		if done != nil {
			w.done, w.parker, w.cancel = done, p, context.AfterFunc(ctx, p.Unpark)
		}
	}
}

// stop ends the watching.
func (w *watch) stop() {
	if w.cancel != nil {
		w.cancel()
	}
	w.done, w.parker, w.cancel = nil, nil, nil
}

// keepLocked recycles a waiter, and starts the timer that ends its watch.
func (q *CompletionQueue) keepLocked(w *waiter) {
	q.free = append(q.free, w)
	if w.watch.cancel == nil || q.watching {
		return
	}
	q.watching = true
	if q.timer == nil {
		q.timer = time.AfterFunc(watchTime, q.endWatches)
		return
	}
	q.timer.Reset(watchTime)
}

// endWatches ends the watches that were not used since its last call.
func (q *CompletionQueue) endWatches() {
	q.mu.Lock()
	var stale []watch
	q.watching = false
	for _, w := range q.free {
		switch {
		case w.watch.cancel == nil:
		case w.watch.used && q.failed != rdma.StatusCanceled:
			w.watch.used, q.watching = false, true
		default:
			stale = append(stale, w.watch)
			w.watch = watch{}
		}
	}
	if q.watching {
		q.timer.Reset(watchTime)
	}
	q.mu.Unlock()
	for i := range stale {
		stale[i].stop()
	}
}
