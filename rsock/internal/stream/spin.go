package stream

import (
	"runtime"
	"sync/atomic"
	"time"
)

// pollsPerCheck is the number of polls between two checks of the time in a busy-poll. Each
// check also yields the processor.
const pollsPerCheck = 32

// bulkSpin is how long a call that waits for the next part of a bulk transfer polls before
// it sleeps, if Config.BusyPoll is less, and not negative. A part takes about that time, and a wake-up for each
// part costs more.
const bulkSpin = 100 * time.Microsecond

// bulkThreshold is how many bytes in one direction, without bytes in the opposite direction,
// make a bulk transfer. bulkPart is the least size of its parts.
const (
	bulkThreshold = 64 << 10
	bulkPart      = 2 << 10
)

// bulkRun counts the bytes that moved in one direction in parts of at least bulkPart. The
// count begins again with a smaller part, and with bytes in the opposite direction. Safe for
// concurrent use.
type bulkRun struct{ n atomic.Int64 }

// add counts a part, and ends the run in the opposite direction.
func (r *bulkRun) add(n int, other *bulkRun) {
	if n >= bulkPart {
		r.n.Add(int64(n))
	} else if r.n.Load() != 0 {
		r.n.Store(0)
	}
	if other.n.Load() != 0 {
		other.n.Store(0)
	}
}

// isBulk reports whether the run is a bulk transfer.
func (r *bulkRun) isBulk() bool { return r.n.Load() >= bulkThreshold }

// spinner bounds a busy-poll. With a limit of 0 or less it never polls again.
type spinner struct {
	limit time.Duration
	polls int // polls without a completion; 0 begins again
	since time.Time
}

// again reports whether to poll once more before a sleep.
func (p *spinner) again() bool {
	if p.limit <= 0 {
		return false
	}
	if p.polls == 0 {
		p.since = time.Time{}
	}
	if p.polls++; p.polls%pollsPerCheck != 1 {
		return true
	}
	runtime.Gosched()
	if p.since.IsZero() {
		p.since = time.Now()
		return true
	}
	if time.Since(p.since) < p.limit {
		return true
	}
	p.polls = 0
	return false
}
