package ratelimit

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// LogInterval is the least time between two log lines of a kind.
const LogInterval = time.Second

// Log bounds the log lines that unauthenticated peers can cause. It logs one line of each
// kind per LogInterval and counts the others; the next line of the kind has the count as
// "suppressed". The message is the kind, so it must be one of a fixed set and never bytes
// of a peer. The zero value is ready. It is safe for concurrent use.
type Log struct {
	mu    sync.Mutex
	kinds map[string]*logKind
}

// logKind is the state of one kind of line.
type logKind struct {
	last       time.Time // the last line that was logged
	suppressed int       // lines since then
}

// Warn is Log at slog.LevelWarn.
func (l *Log) Warn(log *slog.Logger, message string, args ...any) {
	l.Log(log, slog.LevelWarn, message, args...)
}

// Log logs a line, or counts it as suppressed.
func (l *Log) Log(log *slog.Logger, level slog.Level, message string, args ...any) {
	suppressed, ok := l.admit(message, time.Now())
	if !ok {
		return
	}
	if suppressed > 0 {
		args = append(args[:len(args):len(args)], "suppressed", suppressed)
	}
	log.Log(context.Background(), level, message, args...)
}

// admit reports whether a line may be logged now, and how many were suppressed before it.
func (l *Log) admit(message string, now time.Time) (suppressed int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.kinds[message]
	if k == nil {
		if l.kinds == nil {
			l.kinds = make(map[string]*logKind)
		}
		l.kinds[message] = &logKind{last: now}
		return 0, true
	}
	if now.Sub(k.last) < LogInterval {
		k.suppressed++
		return 0, false
	}
	suppressed, k.suppressed, k.last = k.suppressed, 0, now
	return suppressed, true
}
