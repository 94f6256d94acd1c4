package ratelimit

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// The requests of all callers that share a limiter stay within its rate.
func TestLimiterBoundsRequestsOfAllCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter(100, 0, 0)
		start := time.Now()
		done := make(chan struct{})
		for range 10 {
			go func() {
				for range 100 {
					if err := Sleep(t.Context(), l.Take(1, 1<<20)); err != nil {
						t.Error(err)
					}
				}
				done <- struct{}{}
			}()
		}
		for range 10 {
			<-done
		}
		if took := time.Since(start).Round(time.Millisecond); took != 9900*time.Millisecond {
			t.Errorf("1000 requests at 100 a second with a burst of ten took %v", took)
		}
		time.Sleep(time.Hour)
		if d := l.Take(10, 0); d != 0 {
			t.Errorf("ten requests after an hour wait %v", d)
		}
		if d := l.Take(5, 0); d.Round(time.Millisecond) != 50*time.Millisecond {
			t.Errorf("five more wait %v", d)
		}
	})
}

// The end of the context ends the wait, and a nil limiter has none.
func TestSleepEndsWithContext(t *testing.T) {
	l := NewLimiter(1, 0, 0)
	l.Take(1<<30, 0)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("why")
	cancel(why)
	if err := Sleep(ctx, l.Take(1, 0)); !errors.Is(err, why) {
		t.Errorf("error %v", err)
	}
	if err := Sleep(ctx, (*Limiter)(nil).Take(1, 1)); err != nil {
		t.Errorf("nil limiter: %v", err)
	}
}

// Bytes have a rate and a burst of their own; the longer of the two waits counts.
func TestLimiterBoundsBytesWithBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, r := range []struct {
			burst int64
			free  int
		}{{0, 100}, {50, 50}, {5000, 5000}} {
			l := NewLimiter(0, 1000, r.burst)
			if d := l.Take(1000, r.free); d != 0 {
				t.Errorf("burst %d: the first %d bytes wait %v", r.burst, r.free, d)
			}
			if d := l.Take(1, 500); d != 500*time.Millisecond {
				t.Errorf("burst %d: 500 more wait %v", r.burst, d)
			}
			time.Sleep(500 * time.Millisecond)
			if d := l.Take(1, 1); d.Round(time.Microsecond) != time.Millisecond {
				t.Errorf("burst %d: one more waits %v", r.burst, d)
			}
		}
		l := NewLimiter(10, 1000, 1000)
		if d := l.Take(6, 1); d != 500*time.Millisecond {
			t.Errorf("six requests wait %v", d)
		}
	})
}
