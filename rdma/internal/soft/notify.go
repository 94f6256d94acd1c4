package soft

import (
	"context"

	"lwio/rdma"
)

// waiter is a call of Notify.
type waiter struct {
	kind   rdma.NotifyKind
	status rdma.Status
	ch     chan struct{} // gets one value when status is set
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
		return q.d.Canceled(ctx, op)
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
	q.rest()

	canceled := false
	select {
	case <-w.ch:
	case <-ctx.Done():
		canceled = q.leave(w)
	}
	status := q.giveBack(w)
	switch {
	case canceled:
		return q.d.Canceled(ctx, op)
	case status != rdma.StatusSuccess:
		return q.d.Error(op, "", status, nil)
	}
	return nil
}

// waiterLocked enters a notification.
func (q *CompletionQueue) waiterLocked(kind rdma.NotifyKind) *waiter {
	var w *waiter
	if n := len(q.free); n > 0 {
		w, q.free = q.free[n-1], q.free[:n-1]
	} else {
		w = &waiter{ch: make(chan struct{}, 1)}
	}
	w.kind, w.status = kind, rdma.StatusSuccess
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
		w.ch <- struct{}{}
	}
	clear(q.waiters[len(kept):])
	q.waiters = kept
}
