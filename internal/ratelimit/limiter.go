package ratelimit

import (
	"context"
	"sync"
	"time"
)

// Limiter bounds the requests and the bytes per second of all callers that share it.
// Callers above the bound wait in turn. A nil Limiter has no bound. It is safe for
// concurrent use.
type Limiter struct {
	mu       sync.Mutex
	requests throttle
	bytes    throttle
}

// throttle is a leaky bucket with a rate and a burst.
type throttle struct {
	perSecond float64 // 0: no bound
	burst     float64
	bucket    Bucket
}

// defaultBurst is the burst, in seconds of the rate.
const defaultBurst = 0.1

// NewLimiter returns a limiter of requests and bytes per second; zero is no bound.
// burstBytes is the number of bytes that pass without a wait; zero is the bytes of a
// tenth of a second.
func NewLimiter(requests int, bytes, burstBytes int64) *Limiter {
	l := &Limiter{
		requests: throttle{perSecond: float64(requests), burst: max(defaultBurst*float64(requests), 1)},
		bytes:    throttle{perSecond: float64(bytes), burst: float64(burstBytes)},
	}
	if burstBytes <= 0 {
		l.bytes.burst = defaultBurst * float64(bytes)
	}
	return l
}

// take enters n and returns the wait until the last of them is within the rate.
func (t *throttle) take(now time.Time, n int) time.Duration {
	if t.perSecond == 0 {
		return 0
	}
	ahead := t.bucket.Add(now, t.perSecond, float64(n)) - t.burst
	return max(time.Duration(ahead/t.perSecond*float64(time.Second)), 0)
}

// Take enters n requests with their bytes and returns how long the caller waits before
// the last of them; zero within the burst.
func (l *Limiter) Take(n, bytes int) time.Duration {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	return max(l.requests.take(now, n), l.bytes.take(now, bytes))
}

// Sleep waits for d, the result of Take.
//
// Errors: the cause of ctx.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
