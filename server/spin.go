package server

import (
	"runtime"
	"sync/atomic"
	"time"
)

// spinners bounds the number of receive loops that busy-poll instead of sleeping: a sleep
// and a wake-up cost more than a request on a fast provider, but a processor that
// busy-polls does nothing else. Safe for concurrent use.
type spinners struct {
	most int32
	now  atomic.Int32
}

// newSpinners returns a bound of half of the processors; none if limit, the time of a
// busy-poll, is not positive.
func newSpinners(limit time.Duration) *spinners {
	s := new(spinners)
	if limit > 0 {
		s.most = int32(max(runtime.GOMAXPROCS(0)/2, 1))
	}
	return s
}

// enter takes a place; false if all are taken.
func (s *spinners) enter() bool {
	if s.now.Add(1) <= s.most {
		return true
	}
	s.now.Add(-1)
	return false
}

// leave gives a place back.
func (s *spinners) leave() { s.now.Add(-1) }

// oversubscription counts the wake-ups of all receive loops. A loop that wakes up after many
// wake-ups of other loops is one of more than there are processors for: then busy-polling
// takes processors from the others, and so does giving a client a part of its answers. Safe
// for concurrent use.
type oversubscription struct {
	most  uint64 // wake-ups of others that are no sign of it
	wakes atomic.Uint64
}

func newOversubscription() *oversubscription {
	return &oversubscription{most: 2 * uint64(runtime.GOMAXPROCS(0))}
}

// wake counts a wake-up of a loop whose last wake-up had the number last, and returns its
// number and whether the processors are oversubscribed.
func (w *oversubscription) wake(last uint64) (number uint64, oversubscribed bool) {
	number = w.wakes.Add(1)
	return number, number-last > w.most+1
}

// maxSkip bounds the number of sleeps before the next busy-poll.
const maxSkip = 64

// spinBackoff doubles the number of sleeps to skip after each fruitless busy-poll. So a
// client that leaves the server alone for long, or that shares its processor, is not
// busy-polled for.
type spinBackoff struct{ failed, skip int }

// next reports whether to busy-poll before this sleep.
func (b *spinBackoff) next() bool {
	if b.skip > 0 {
		b.skip--
		return false
	}
	return true
}

// record takes in the result of a busy-poll.
func (b *spinBackoff) record(fruitful bool) {
	if fruitful {
		*b = spinBackoff{}
		return
	}
	b.failed++
	b.skip = min(1<<min(b.failed, 10), maxSkip)
}
