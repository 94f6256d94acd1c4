package smbserver

import (
	"context"
	"slices"
	"sync"
)

// memoryQuota bounds the memory of long messages, of all connections together. Requests
// wait for it in the order of arrival; no user has more than three quarters of it, and a
// request that waits for its user's part does not delay other users. It is safe for
// concurrent use.
type memoryQuota struct {
	limit, userLimit int64 // bytes

	mu      sync.Mutex
	used    int64
	byUser  map[string]int64
	waiting []*memoryWaiter
}

// memoryWaiter is a request for n bytes that waits.
type memoryWaiter struct {
	user    string
	n       int64
	granted chan struct{} // closed when the bytes are taken
}

// longMessage is the least length of a message that counts, in bytes.
const longMessage = 16 << 10

func newMemoryQuota(limit int64) *memoryQuota {
	return &memoryQuota{limit: limit, userLimit: limit - limit/4, byUser: make(map[string]int64)}
}

// take takes n bytes for a user, and waits until they are free.
//
// Errors: the cause of ctx.
func (q *memoryQuota) take(ctx context.Context, user string, n int) error {
	q.mu.Lock()
	if w := (&memoryWaiter{user: user, n: int64(n)}); q.fitsLocked(w) && !q.queuedLocked() {
		q.addLocked(user, w.n)
		q.mu.Unlock()
		return nil
	}
	w := &memoryWaiter{user: user, n: int64(n), granted: make(chan struct{})}
	q.waiting = append(q.waiting, w)
	q.mu.Unlock()
	select {
	case <-w.granted:
		return nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.waiting, w); i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	} else {
		q.addLocked(user, -w.n)
	}
	q.grantLocked()
	return context.Cause(ctx)
}

// tryTake takes n bytes for a user if they are free now. It reports whether it took them.
func (q *memoryQuota) tryTake(user string, n int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	w := memoryWaiter{user: user, n: int64(n)}
	if !q.fitsLocked(&w) || q.queuedLocked() {
		return false
	}
	q.addLocked(user, w.n)
	return true
}

// Give returns n bytes of a user.
func (q *memoryQuota) Give(user string, n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.addLocked(user, -int64(n))
	q.grantLocked()
}

// inUse returns the bytes that are taken.
func (q *memoryQuota) inUse() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.used
}

// addLocked adds n bytes, which may be negative, to the use of a user. Precondition: mu is
// held.
func (q *memoryQuota) addLocked(user string, n int64) {
	q.used += n
	if q.byUser[user] += n; q.byUser[user] == 0 {
		delete(q.byUser, user)
	}
}

// fitsLocked reports whether a request can be granted. A request above the limit is granted
// while no bytes are taken. Precondition: mu is held.
func (q *memoryQuota) fitsLocked(w *memoryWaiter) bool {
	return q.userFitsLocked(w) && (q.used == 0 || q.used+w.n <= q.limit)
}

// userFitsLocked reports whether a request is within the limit of its user. Precondition:
// mu is held.
func (q *memoryQuota) userFitsLocked(w *memoryWaiter) bool {
	used := q.byUser[w.user]
	return used == 0 || used+w.n <= q.userLimit
}

// queuedLocked reports whether a request waits for the common limit, which has precedence
// over a new one. Precondition: mu is held.
func (q *memoryQuota) queuedLocked() bool { return slices.ContainsFunc(q.waiting, q.userFitsLocked) }

// grantLocked grants the waiting requests that fit. Precondition: mu is held.
func (q *memoryQuota) grantLocked() {
	for i := 0; i < len(q.waiting); {
		w := q.waiting[i]
		switch {
		case !q.userFitsLocked(w):
			i++
		case !q.fitsLocked(w):
			return
		default:
			q.addLocked(w.user, w.n)
			close(w.granted)
			q.waiting = slices.Delete(q.waiting, i, i+1)
		}
	}
}
