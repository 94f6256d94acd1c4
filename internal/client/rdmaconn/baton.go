package rdmaconn

import (
	"sync"
	"sync/atomic"
)

// poller is the right, and the duty, to sleep on the completion queue of a
// connection and to hand out what arrives there. A call that has to wait takes it
// if it is free, so that its answer wakes it and nobody in between; else it parks,
// and whoever has the baton wakes it. Who leaves passes the baton on. The reader
// goroutine has it when no call does.
//
// Only a call that nothing but an answer or the connection can end, that is, with a
// context that never ends, may hold it; for the others the reader does.
type poller struct {
	// busy says that somebody has the baton; it changes under mu.
	busy atomic.Bool
	// used says that a call has wanted the baton since the reader last looked.
	used atomic.Bool
	// summon wakes the reader because somebody waits who may not hold the baton.
	summon chan struct{}

	mu         sync.Mutex // guards what follows
	byReader   bool
	head, tail *waiter // those who may hold the baton, parked
	others     int     // those who wait and may not
}

// waiter is where a call waits.
type waiter struct {
	// parked is set while the call sleeps, or is about to; who takes it back, under
	// baton.mu, puts the one token in.
	parked atomic.Bool
	Token  chan struct{}

	// The rest is guarded by baton.mu; has is the waiter's once it has the token.
	next, prev *waiter
	drives     bool // in the list, not among the others
	has        bool // the token came with the baton
}

func (b *poller) init() { b.summon = make(chan struct{}, 1) }

// park reports true if w has got the baton. Else w is parked: it must look again
// whether it still has to wait, and then either wait for the token and call got,
// or call unpark.
func (b *poller) park(w *waiter, drives bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	w.drives = drives
	if !drives {
		b.others++
		b.summonLocked()
	} else {
		b.used.Store(true)
		if !b.busy.Load() {
			b.busy.Store(true)
			return true
		}
		w.prev = b.tail
		if b.tail == nil {
			b.head = w
		} else {
			b.tail.next = w
		}
		b.tail = w
	}
	w.parked.Store(true)
	return false
}

// wake puts the token in if w is parked. What w waits for must have happened
// before.
func (b *poller) wake(w *waiter) {
	if !w.parked.Load() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if w.parked.Load() {
		b.releaseLocked(w, false)
	}
}

// releaseLocked ends the parking of w with a token.
func (b *poller) releaseLocked(w *waiter, has bool) {
	b.removeLocked(w)
	w.has = has
	w.Token <- struct{}{}
}

// removeLocked ends the parking of w.
func (b *poller) removeLocked(w *waiter) {
	w.parked.Store(false)
	if !w.drives {
		b.others--
		return
	}
	if w.prev == nil {
		b.head = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		b.tail = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.next, w.prev = nil, nil
}

// unpark ends the parking of w from its own side, and reports whether it got the
// baton meanwhile.
func (b *poller) unpark(w *waiter) bool {
	b.mu.Lock()
	if w.parked.Load() {
		b.removeLocked(w)
		b.mu.Unlock()
		return false
	}
	b.mu.Unlock()
	<-w.Token
	return w.got()
}

// got reports, after the token was taken, whether the baton came with it.
func (w *waiter) got() bool {
	has := w.has
	w.has = false
	return has
}

// pass gives the baton to the call that has waited longest, or lays it down.
func (b *poller) pass() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.byReader = false
	if b.head != nil {
		b.releaseLocked(b.head, true)
		return
	}
	b.busy.Store(false)
	if b.others > 0 {
		b.summonLocked()
	}
}

func (b *poller) summonLocked() {
	if b.busy.Load() {
		return
	}
	select {
	case b.summon <- struct{}{}:
	default:
	}
}

// Block counts in a call that waits for something else than an answer of its own,
// and cannot go on unless somebody has the baton; unblock counts it out.
func (b *poller) Block() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.others++
	b.summonLocked()
}

func (b *poller) Unblock() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.others--
}

// take takes the baton if nobody has it.
func (b *poller) take() bool {
	if b.busy.Load() {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used.Store(true)
	if b.busy.Load() {
		return false
	}
	b.busy.Store(true)
	return true
}

// takeForReader takes the baton if no call has it. It leaves it a while longer if
// calls have used it lately and none waits that needs the reader.
func (b *poller) takeForReader() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	used := b.used.Swap(false)
	if b.busy.Load() || used && b.others == 0 {
		return false
	}
	b.byReader = true
	b.busy.Store(true)
	return true
}

// claim is called by a call that polls: it reports whether the reader has the
// baton, which then lays it down when it is kicked.
func (b *poller) claim() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used.Store(true)
	return b.byReader
}
