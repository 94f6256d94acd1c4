package rate

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// However many share a pace, together they go on so many times a second.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPace(100, 0, 0)
		start := time.Now()
		done := make(chan struct{})
		for range 10 {
			go func() {
				for range 100 {
					if err := Sleep(t.Context(), p.Take(1, 1<<20)); err != nil {
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
			t.Errorf("1000 turns at 100 a second, ten at once, took %v", took)
		}
		time.Sleep(time.Hour)
		if d := p.Take(10, 0); d != 0 {
			t.Errorf("ten turns after an hour wait %v", d)
		}
		if d := p.Take(5, 0); d.Round(time.Millisecond) != 50*time.Millisecond {
			t.Errorf("five more wait %v", d)
		}
	})
}

// The end of the context ends the wait, and nobody waits without a pace.
func TestPaceEnds(t *testing.T) {
	p := NewPace(1, 0, 0)
	p.Take(1<<30, 0)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("why")
	cancel(why)
	if err := Sleep(ctx, p.Take(1, 0)); !errors.Is(err, why) {
		t.Errorf("error %v", err)
	}
	if err := Sleep(ctx, (*Pace)(nil).Take(1, 1)); err != nil {
		t.Errorf("no pace: %v", err)
	}
}

// Bytes have a bound and a burst of their own; who is short of either waits for it.
func TestPaceOfBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, r := range []struct {
			burst int64
			free  int
		}{{0, 100}, {50, 50}, {5000, 5000}} {
			p := NewPace(0, 1000, r.burst)
			if d := p.Take(1000, r.free); d != 0 {
				t.Errorf("burst %d: the first %d bytes wait %v", r.burst, r.free, d)
			}
			if d := p.Take(1, 500); d != 500*time.Millisecond {
				t.Errorf("burst %d: 500 more wait %v", r.burst, d)
			}
			time.Sleep(500 * time.Millisecond)
			if d := p.Take(1, 1); d.Round(time.Microsecond) != time.Millisecond {
				t.Errorf("burst %d: one more waits %v", r.burst, d)
			}
		}
		p := NewPace(10, 1000, 1000)
		if d := p.Take(6, 1); d != 500*time.Millisecond {
			t.Errorf("turns: %v", d)
		}
	})
}
