package rdmaconn

import (
	"sync/atomic"
	"time"
)

// traffic are the counters of a connection that its components share. Safe for concurrent use.
type traffic struct {
	sent       atomic.Int64 // I/O requests; changes under sendQueue.mu
	seen       atomic.Int64 // I/O requests that were seen complete
	unanswered atomic.Int64 // requests that change a file, and were sent and not answered
	pending    atomic.Int64 // requests in flight or queued, the hint in every header
	ticks      atomic.Int64 // of the watchdog
	born       time.Time
}

// now is the time since the connection was made, in nanoseconds.
func (t *traffic) now() int64 { return int64(time.Since(t.born)) }

// inFlight is how many I/O requests were sent and not seen complete. Requests that are sent and
// answered meanwhile do not make the number too low, because seen is loaded first.
func (t *traffic) inFlight() int64 {
	seen := t.seen.Load()
	return t.sent.Load() - seen
}
