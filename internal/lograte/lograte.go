// Package lograte bounds how much strangers can make a server log.
package lograte

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Interval is the least time between two lines of a kind.
const Interval = time.Second

// Limiter lets one line of each kind through in an Interval, and counts the
// others: the next line of the kind says, as "suppressed", how many were left
// out. The message is the kind, so it must be one of a fixed set and never a
// peer's words. The zero value is ready; it is safe for concurrent use.
type Limiter struct {
	mu    sync.Mutex
	kinds map[string]*kind
}

// kind is what is known of one message.
type kind struct {
	last       time.Time
	suppressed int
}

// Warn logs at slog.LevelWarn, or counts.
func (l *Limiter) Warn(log *slog.Logger, message string, args ...any) {
	suppressed, ok := l.admit(message, time.Now())
	if !ok {
		return
	}
	if suppressed > 0 {
		args = append(args[:len(args):len(args)], "suppressed", suppressed)
	}
	log.Log(context.Background(), slog.LevelWarn, message, args...)
}

// admit says whether a line may be logged now, and how many were not before it.
func (l *Limiter) admit(message string, now time.Time) (suppressed int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.kinds[message]
	if k == nil {
		if l.kinds == nil {
			l.kinds = make(map[string]*kind)
		}
		l.kinds[message] = &kind{last: now}
		return 0, true
	}
	if now.Sub(k.last) < Interval {
		k.suppressed++
		return 0, false
	}
	suppressed, k.suppressed, k.last = k.suppressed, 0, now
	return suppressed, true
}
