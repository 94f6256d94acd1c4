package server

import (
	"sync"
	"time"
)

const (
	// flushBytes is the amount of data that the receive loop moves before it posts the
	// answers, a fraction of a millisecond of work.
	flushBytes = 3 << 19
	// manyInFlight is from how many requests in flight on the client of a fabric with
	// shared memory is given its answers a little earlier, see worthWaking.
	manyInFlight = 16
	// holdTime bounds the time that an answer which wakes the client stays in the outbox,
	// and the time that the work on such an operation may take for that.
	holdTime = 200 * time.Microsecond
	// polledTime is the same for an answer that the client polls for: a part of the time
	// for which it polls before it sleeps. polledEnough such answers are always enough.
	polledTime   = 30 * time.Microsecond
	polledEnough = 8
)

// worthWaking reports whether that many answers, out of the requests in flight, are worth
// a wake-up of the client. A wake-up costs both sides more than many small requests: half
// of the requests in flight make it worth that, and leaves the server the other half to work
// on while the client wakes up and sends more. Where the client sends without a system
// call, and so sooner, three eighths of many are enough for the server.
func worthWaking(answers, inFlight int, sharedMemory bool) bool {
	eighths := 4
	if inFlight >= manyInFlight && sharedMemory {
		eighths = 5
	}
	return 8*answers > eighths*inFlight
}

// clientLoad is the receive loop's view of the requests in flight of its client.
type clientLoad struct {
	begun  int // I/O requests outstanding when the last one arrived
	hinted int // I/O requests of the client according to the last header
}

// enough reports whether to post n answers with that much data now, though left more
// completions of the batch are not handled.
//
// In flight are the requests that have arrived, and the completions that are left, or
// more if the client says so. When the processors are oversubscribed the server has other
// clients to serve, and posting early gains a client nothing but wake-ups.
//
// Source: [LWIO §Wakeup]
func (l clientLoad) enough(n, bytes, left int, sharedMemory, oversubscribed bool) bool {
	return bytes >= flushBytes || !oversubscribed && worthWaking(n, max(l.begun+left, l.hinted), sharedMemory)
}

// heldAnswers are the answers of workers that stay in the outbox for a moment. A wake-up
// costs both sides more than a small write: a client with many in flight is woken once
// for several. A client that polls is not woken; but a post costs a system call where the
// fabric has no shared memory, and on either side that is more than a small write costs.
// sendQueue.mu guards it.
type heldAnswers struct {
	sharedMemory bool
	post         func()          // posts the outbox
	jobs         *sync.WaitGroup // counts the timer while it runs

	n     int // answers that are held
	since time.Time
	limit time.Duration // of the timer: the shortest of the held answers
	timer *time.Timer   // posts the held answers if nothing else does
}

// hold decides whether the last n answers, which a worker began to work on at begun, stay in
// the outbox: until there are enough to wake the client (as many as are still outstanding, or
// polledEnough if they wake no client), the time is over, or anything else is posted.
//
// Source: [LWIO §Wakeup]
func (h *heldAnswers) hold(n, pending int, wakes bool, begun, now time.Time) bool {
	limit := holdTime
	if !wakes {
		if limit = polledTime; h.sharedMemory {
			return false
		}
	}
	if now.Sub(begun) > limit {
		return false
	}
	if h.n += n; h.n == n {
		h.since = now
	}
	enough := h.n >= min(pending, polledEnough)
	if wakes {
		enough = worthWaking(h.n, h.n+pending, h.sharedMemory)
	}
	if enough || now.Sub(h.since) > limit {
		return false
	}
	if h.n == n || h.limit > limit {
		h.start(limit)
	}
	return true
}

// start starts the timer, or shortens it.
func (h *heldAnswers) start(limit time.Duration) {
	switch {
	case h.timer == nil:
		h.jobs.Add(1)
		h.timer = time.AfterFunc(limit, func() {
			defer h.jobs.Done()
			h.post()
		})
	case !h.timer.Reset(limit):
		h.jobs.Add(1)
	}
	h.limit = limit
}

// stop stops the timer.
func (h *heldAnswers) stop() {
	if h.timer != nil && h.timer.Stop() {
		h.jobs.Done()
	}
}
