package softrdma

import (
	"context"
	"sync/atomic"

	"lwio/rdma"
)

// waiter is a call of Wait.
type waiter struct {
	kind   rdma.NotifyKind
	status rdma.Status
	done   atomic.Bool // the wait has ended
	parker Parker      // the connection where it sleeps; if nil, it sleeps at ch
	ctx    context.Context
	over   func() bool   // reports that the wait in parker can end
	ch     chan struct{} // gets one value at the end of the wait
	watch  watch
}

func (w *waiter) init() *waiter {
	w.ch = make(chan struct{}, 1)
	w.over = func() bool { return w.done.Load() || w.ctx.Err() != nil }
	return w
}

// release ends the wait. Precondition: the queue's lock is held.
func (w *waiter) release() {
	w.done.Store(true)
	if w.parker != nil {
		w.parker.Unpark()
		return
	}
	w.ch <- struct{}{}
}

// pendingLocked reports whether the queue has a result that satisfies kind and has not
// ended a wait yet. If it has, all results count as seen.
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

// Wait waits for an event. A result ends all waits in progress that it satisfies. If
// there are none, it ends the next wait that it satisfies.
//
// Source: [ND CompletionQueue.Notify], [ND §6.4]
func (q *CompletionQueue) Wait(ctx context.Context, kind rdma.NotifyKind) error {
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
	w := q.waiterLocked(ctx, kind)
	q.mu.Unlock()
	canceled := q.sleep(ctx, w)
	status := q.recycle(w)
	switch {
	case canceled:
		return q.d.Canceled(ctx, op, "")
	case status != rdma.StatusSuccess:
		return q.d.Error(op, "", status, nil)
	}
	return nil
}

// sleep sleeps until the wait is over, and reports whether ctx ended first.
func (q *CompletionQueue) sleep(ctx context.Context, w *waiter) (canceled bool) {
	if w.parker != nil {
		q.polls.Store(0)
		w.watch.begin(ctx, w.parker)
		for {
			if w.done.Load() {
				return false
			}
			if ctx.Err() != nil {
				return q.leave(w)
			}
			if !w.parker.Park(w.over) {
				break
			}
		}
		if !q.waitOnChannel(w) {
			return false
		}
	}
	if w.kind != rdma.NotifyErrors { // NotifyErrors needs no progress of connections
		q.sleepers.Add(1)
		defer q.sleepers.Add(-1)
		q.sleepDrivers()
	}
	select {
	case <-w.ch:
	case <-ctx.Done():
		return q.leave(w)
	}
	return false
}

// waitOnChannel makes a parked waiter wait on its channel. It returns false if the wait
// has ended already.
func (q *CompletionQueue) waitOnChannel(w *waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	w.parker = nil
	return !w.done.Load()
}

// Sleepers returns the number of Wait calls that need another goroutine to push results.
func (q *CompletionQueue) Sleepers() int { return int(q.sleepers.Load()) }

// parkerLocked returns the only connection of the queue, for a new waiter to park in. It
// returns nil if another waiter is parked there.
func (q *CompletionQueue) parkerLocked() Parker {
	for _, w := range q.waiters {
		if w.parker != nil {
			return nil
		}
	}
	return q.sole
}

// waiterLocked adds a waiter.
func (q *CompletionQueue) waiterLocked(ctx context.Context, kind rdma.NotifyKind) *waiter {
	var w *waiter
	if n := len(q.free); n > 0 {
		w, q.free = q.free[n-1], q.free[:n-1]
	} else {
		w = new(waiter).init()
	}
	w.kind, w.status, w.ctx, w.parker = kind, rdma.StatusSuccess, ctx, nil
	w.done.Store(false)
	if kind != rdma.NotifyErrors {
		w.parker = q.parkerLocked()
	}
	q.waiters = append(q.waiters, w)
	q.waiting.Store(int32(len(q.waiters)))
	return w
}

// leave removes a waiter. It returns false if the wait has ended already.
func (q *CompletionQueue) leave(w *waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, o := range q.waiters {
		if o == w {
			q.waiters = append(q.waiters[:i], q.waiters[i+1:]...)
			q.waiting.Store(int32(len(q.waiters)))
			return true
		}
	}
	if w.parker == nil {
		<-w.ch
	}
	return false
}

// recycle keeps a waiter for reuse and returns the status of its wait.
func (q *CompletionQueue) recycle(w *waiter) rdma.Status {
	if w.ctx.Err() != nil {
		w.watch.stop()
	}
	w.ctx = nil
	q.mu.Lock()
	status, closed := w.status, q.failed == rdma.StatusCanceled
	if !closed {
		q.keepLocked(w)
	}
	q.mu.Unlock()
	if closed {
		w.watch.stop()
	}
	return status
}

// triggerLocked ends the waits that result n satisfies.
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

// releaseLocked ends all waits but those for NotifyErrors.
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
	q.waiting.Store(int32(len(kept)))
}
