package server

import (
	"runtime"
	"sync/atomic"
	"time"
)

// spinners bounds the number of receive loops that busy-poll instead of sleeping. On a fast provider
// a sleep and a wake-up cost more than a request. But a processor that busy-polls does no other
// work. Safe for concurrent use.
type spinners struct {
	most int32
	now  atomic.Int32
}

// newSpinners returns a bound of half of the processors. limit is the time of a busy-poll; if it is
// not positive, no loop busy-polls.
func newSpinners(limit time.Duration) *spinners {
	s := new(spinners)
	if limit > 0 {
		s.most = int32(max(runtime.GOMAXPROCS(0)/2, 1))
	}
	return s
}

// enter takes a place; false without a free one.
func (s *spinners) enter() bool {
	if s.now.Add(1) <= s.most {
		return true
	}
	s.now.Add(-1)
	return false
}

// leave returns a place.
func (s *spinners) leave() { s.now.Add(-1) }

// oversubscription counts the wake-ups of all receive loops. If other loops have woken up many times
// since the last wake-up of a loop, more loops are active than processors. Then a busy-poll takes
// processor time from the other loops, and so does a wake-up of a client for a part of its
// answers. Safe for concurrent use.
type oversubscription struct {
	most  uint64 // wake-ups of other loops without oversubscription
	wakes atomic.Uint64
}

func newOversubscription() *oversubscription {
	return &oversubscription{most: 2 * uint64(runtime.GOMAXPROCS(0))}
}

// wake counts a wake-up of a loop. last is the number of the previous wake-up of that loop. wake
// returns the number of this one, and whether the processors are oversubscribed.
func (w *oversubscription) wake(last uint64) (number uint64, oversubscribed bool) {
	number = w.wakes.Add(1)
	return number, number-last > w.most+1
}

// maxSkip bounds the number of sleeps before the next busy-poll.
const maxSkip = 64

// spinBackoff doubles the number of sleeps without a busy-poll after each fruitless busy-poll. So the
// server does not busy-poll for a client that is idle for long or shares the processor.
type spinBackoff struct{ failed, skip int }

// next reports whether to busy-poll before this sleep.
func (b *spinBackoff) next() bool {
	if b.skip > 0 {
		b.skip--
		return false
	}
	return true
}

// record notes the result of a busy-poll.
func (b *spinBackoff) record(fruitful bool) {
	if fruitful {
		*b = spinBackoff{}
		return
	}
	b.failed++
	b.skip = min(1<<min(b.failed, 10), maxSkip)
}
