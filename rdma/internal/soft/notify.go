package soft

import (
	"context"
	"sync"

	"lwio/rdma"
)

// waiter is a call of Notify.
type waiter struct {
	kind   rdma.NotifyKind
	status rdma.Status
	ch     chan struct{} // gets one value when status is set
	parker Parker        // where it sleeps, or nil
}

// release ends the wait; the caller holds the queue's lock.
func (w *waiter) release() {
	w.ch <- struct{}{}
	if w.parker != nil {
		w.parker.Unpark()
	}
}

// pendingLocked tells whether a result that is in the queue and satisfied no
// notification yet satisfies one of this kind, and if so marks all of them.
func (q *CompletionQueue) pendingLocked(kind rdma.NotifyKind) bool {
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
func (q *CompletionQueue) Notify(ctx context.Context, kind rdma.NotifyKind) error {
	const op = "notify"
	if kind > rdma.NotifySolicited {
		return q.d.Error(op, "", rdma.StatusInvalidParameter, nil)
	}
	if ctx.Err() != nil {
		return q.d.Canceled(ctx, op, "")
	}
	q.mu.Lock()
	if q.failed != rdma.StatusSuccess {
		defer q.mu.Unlock()
		return q.d.Error(op, "", q.failed, nil)
	}
	if q.pendingLocked(kind) {
		q.releaseLocked()
		q.mu.Unlock()
		return nil
	}
	w := q.waiterLocked(kind)
	q.mu.Unlock()
	canceled := q.sleep(ctx, w)
	status := q.giveBack(w)
	switch {
	case canceled:
		return q.d.Canceled(ctx, op, "")
	case status != rdma.StatusSuccess:
		return q.d.Error(op, "", status, nil)
	}
	return nil
}

// sleep waits until a notification is satisfied; true says that ctx ended first.
func (q *CompletionQueue) sleep(ctx context.Context, w *waiter) (canceled bool) {
	if w.parker != nil {
		q.polls.Store(0)
		q.watch.begin(ctx, w.parker)
		for {
			select {
			case <-w.ch:
				return false
			default:
			}
			if ctx.Err() != nil {
				q.watch.stop()
				return q.leave(w)
			}
			if !w.parker.Park() {
				break
			}
		}
	}
	if w.kind != rdma.NotifyErrors { // which has nothing to do with connections
		q.sleepers.Add(1)
		defer q.sleepers.Add(-1)
		q.rest()
	}
	select {
	case <-w.ch:
	case <-ctx.Done():
		return q.leave(w)
	}
	return false
}

// Sleepers is how many wait in Notify for results that they do not fetch
// themselves.
func (q *CompletionQueue) Sleepers() int { return int(q.sleepers.Load()) }

// parkerLocked is where a new waiter sleeps: where the only connection of the queue
// is woken, unless another waiter is there.
func (q *CompletionQueue) parkerLocked() Parker {
	for _, w := range q.waiters {
		if w.parker != nil {
			return nil
		}
	}
	return q.sole
}

// watch ends the Park of a caller whose context ends. It is kept for the next
// caller, who mostly has the same context.
type watch struct {
	mu     sync.Mutex
	done   <-chan struct{}
	parker Parker
	cancel func() bool
}

// begin watches a context on behalf of who parks.
func (w *watch) begin(ctx context.Context, p Parker) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if done := ctx.Done(); done != w.done || p != w.parker {
		w.stopLocked()
		if done != nil {
			w.done, w.parker, w.cancel = done, p, context.AfterFunc(ctx, p.Unpark)
		}
	}
}

// stop ends the watching.
func (w *watch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopLocked()
}

func (w *watch) stopLocked() {
	if w.cancel != nil {
		w.cancel()
	}
	w.done, w.parker, w.cancel = nil, nil, nil
}

// waiterLocked enters a notification.
func (q *CompletionQueue) waiterLocked(kind rdma.NotifyKind) *waiter {
	var w *waiter
	if n := len(q.free); n > 0 {
		w, q.free = q.free[n-1], q.free[:n-1]
	} else {
		w = &waiter{ch: make(chan struct{}, 1)}
	}
	w.kind, w.status, w.parker = kind, rdma.StatusSuccess, nil
	if kind != rdma.NotifyErrors {
		w.parker = q.parkerLocked()
	}
	q.waiters = append(q.waiters, w)
	return w
}

// leave takes a notification out; false says that it was satisfied meanwhile.
func (q *CompletionQueue) leave(w *waiter) bool {
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
func (q *CompletionQueue) giveBack(w *waiter) rdma.Status {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.free = append(q.free, w)
	return w.status
}

// triggerLocked lets result n satisfy the notifications that wait for such.
func (q *CompletionQueue) triggerLocked(n uint64, solicited bool) {
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
func (q *CompletionQueue) releaseLocked() {
	kept := q.waiters[:0]
	for _, w := range q.waiters {
		if w.kind == rdma.NotifyErrors {
			kept = append(kept, w)
			continue
		}
		w.release()
	}
	clear(q.waiters[len(kept):])
	q.waiters = kept
}
