package rdmaconn

import (
	"sync"
	"sync/atomic"
)

// poller is the role of the one goroutine that polls the completion queue of a connection,
// sleeps on it, and delivers the completions. A call that has to wait takes the role
// if it is free, so that its answer wakes it directly; else it parks,
// and the poller wakes it. A call that leaves passes the role on. The reader
// goroutine has it when no call does.
//
// Only a call that nothing but an answer or the end of the connection can end, that is, with
// a context that never ends, may be the poller; for the others the reader is.
type poller struct {
	// busy says that a goroutine is the poller; it changes under mu.
	busy atomic.Bool
	// used says that a call has wanted to poll since the reader last looked.
	used atomic.Bool
	// summon wakes the reader because a call waits that may not be the poller.
	summon chan struct{}

	mu         sync.Mutex // guards the following fields
	byReader   bool
	head, tail *waiter // parked calls that may be the poller
	others     int     // calls that wait and may not
}

// waiter is where a call waits.
type waiter struct {
	// parked is set while the call sleeps, or is about to. The goroutine that clears it,
	// under poller.mu, puts the one token in.
	parked atomic.Bool
	Token  chan struct{}

	// The rest is guarded by poller.mu; has is the waiter's once it has the token.
	next, prev *waiter
	drives     bool // in the list, not among the others
	has        bool // the token came with the poller's role
}

func (b *poller) init() { b.summon = make(chan struct{}, 1) }

// park reports true if w became the poller. Else w is parked: it must look again
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

// wake puts the token in if w is parked. The condition that w waits for must hold
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

// unpark ends the parking of w from its own side, and reports whether it became the
// poller meanwhile.
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

// got reports, after the token was taken, whether the poller's role came with it.
func (w *waiter) got() bool {
	has := w.has
	w.has = false
	return has
}

// pass gives the poller's role to the call that has waited longest, or lays it down.
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
// and cannot go on unless a goroutine is the poller; unblock counts it out.
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

// take takes the poller's role if no goroutine has it.
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

// takeForReader takes the poller's role if no call has it. It leaves it a while longer if
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

// claim is called by a call that polls: it reports whether the reader is the
// poller, which then lays the role down when it is woken.
func (b *poller) claim() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used.Store(true)
	return b.byReader
}
