package base

import (
	"context"
	"math/rand/v2"
	"time"
)

// The times of reconnection.
const (
	// MinPause and MaxPause bound the time between two attempts to replace a connection. Each time it
	// doubles, and up to half of it is left to chance.
	MinPause = 5 * time.Millisecond
	MaxPause = 10 * time.Second
	// ProvenAfter is for how long a connection must have lived that is replaced without a pause.
	ProvenAfter = time.Second
)

// Backoff computes the pause before the next attempt. The pause doubles with each attempt. The zero
// value begins without a pause.
type Backoff struct{ pause time.Duration }

// NewBackoff returns a Backoff that begins with a pause of at most first.
func NewBackoff(first time.Duration) Backoff { return Backoff{first} }

// Lived says for how long the last connection was there, and whether it was of use.
func (b *Backoff) Lived(d time.Duration, used bool) {
	switch {
	case d >= ProvenAfter:
		b.pause = 0
	case used:
		b.pause = min(b.pause, MinPause)
	}
}

// next is the longest pause before the next attempt, if it must not be longer than most.
func (b *Backoff) next(most time.Duration) time.Duration {
	d := min(b.pause, most)
	b.pause = max(2*d, MinPause)
	return d
}

// Sleep waits for the next attempt, at most for most, and reports false if ctx has ended.
func (b *Backoff) Sleep(ctx context.Context, most time.Duration) bool {
	if d := b.next(most); d > 0 {
		t := time.NewTimer(d/2 + rand.N(d/2+1))
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil
}
