package server

import (
	"sync"
	"time"
)

const (
	// flushBytes is the number of bytes that the receive loop moves before it posts the
	// answers. It stands for a fraction of a millisecond of work.
	flushBytes = 3 << 19
	// manyInFlight is the least number of requests in flight for which a client with shared
	// memory gets its answers a little earlier, see worthWaking.
	manyInFlight = 16
	// holdTime bounds the time for which an answer that wakes the client stays in the outbox.
	// The answer of an operation that took longer is not held.
	holdTime = 200 * time.Microsecond
	// polledTime is the bound for an answer that wakes no client, because the client polls. It
	// is a part of the time for which a client polls before it sleeps. polledEnough such
	// answers are always enough for a post.
	polledTime   = 30 * time.Microsecond
	polledEnough = 8
)

// worthWaking reports whether the answers to a part of the requests in flight are worth a wake-up of
// the client. A wake-up costs both sides more than many small requests. More than half of the
// requests is worth it: the server works on the other half while the client wakes up and sends
// more. A client with shared memory sends without a system call, and so sooner: of many requests
// it gets its answers when three eighths are left for the server.
func worthWaking(answers, inFlight int, sharedMemory bool) bool {
	eighths := 4
	if inFlight >= manyInFlight && sharedMemory {
		eighths = 5
	}
	return 8*answers > eighths*inFlight
}

// clientLoad is the receive loop's view of the requests in flight of its client.
type clientLoad struct {
	begun  int // outstanding I/O requests at the arrival of the last one
	hinted int // I/O requests of the client, by the hint in the last header
}

// enough reports whether to post n answers with that number of bytes now. left is the number of
// completions of the batch that are not handled yet.
//
// The requests in flight are the arrived ones and the completions that are left, or the hint of
// the client if that is more. If the processors are oversubscribed, the server has other clients
// to serve, and an early post only costs the client additional wake-ups.
//
// Source: [LWIO §Wakeup]
func (l clientLoad) enough(n, bytes, left int, sharedMemory, oversubscribed bool) bool {
	return bytes >= flushBytes || !oversubscribed && worthWaking(n, max(l.begun+left, l.hinted), sharedMemory)
}

// heldAnswers are the answers of workers that stay in the outbox for a moment. A wake-up costs both
// sides more than a small write, so one wake-up serves several writes of a client. A client that
// polls needs no wake-up. But on a fabric without shared memory a post costs a system call on each
// side, which is also more than a small write. sendQueue.mu guards heldAnswers.
type heldAnswers struct {
	sharedMemory bool
	post         func()          // posts the outbox
	jobs         *sync.WaitGroup // counts the timer while it runs

	n     int // held answers
	since time.Time
	limit time.Duration // of the timer: the shortest limit of the held answers
	timer *time.Timer   // posts the held answers unless another post does
}

// hold decides whether the last n answers stay in the outbox. A worker began their operations at
// begun. Held answers are posted by the next other post, at the end of the time limit, or when
// there are enough: see worthWaking. If they wake no client, enough is the number of outstanding
// requests, at most polledEnough.
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

// start starts the timer, or shortens its time.
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
