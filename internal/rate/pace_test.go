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
		p := NewPace(100)
		start := time.Now()
		done := make(chan struct{})
		for range 10 {
			go func() {
				for range 100 {
					if err := p.Wait(t.Context()); err != nil {
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
		if d := p.Take(10); d != 0 {
			t.Errorf("ten turns after an hour wait %v", d)
		}
		if d := p.Take(5); d.Round(time.Millisecond) != 50*time.Millisecond {
			t.Errorf("five more wait %v", d)
		}
	})
}

// The end of the context ends the wait, and nobody waits without a pace.
func TestPaceEnds(t *testing.T) {
	p := NewPace(1)
	p.Take(1 << 30)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("why")
	cancel(why)
	if err := p.Wait(ctx); !errors.Is(err, why) {
		t.Errorf("error %v", err)
	}
	if err := (*Pace)(nil).Wait(ctx); err != nil {
		t.Errorf("no pace: %v", err)
	}
}
