package rate

import (
	"context"
	"sync"
	"time"
)

// Pace lets those who share it go on so many times a second, with so many bytes a second.
// Who comes when that is used up waits his turn. A nil Pace lets everybody go on. Safe for
// concurrent use.
type Pace struct {
	mu    sync.Mutex
	turns bucket
	bytes bucket
}

// bucket is what becomes free steadily, and may be had in advance up to a burst.
type bucket struct {
	perSecond float64 // 0: no bound
	burst     float64
	debt      Debt
}

// burst is how much of a second may be had at once.
const burst = 0.1

// NewPace makes a pace of so many turns a second, and so many bytes a second of which
// burst may be had at once; 0 is no bound, and as a burst a tenth of a second's.
func NewPace(turns int, bytes, burstBytes int64) *Pace {
	p := &Pace{
		turns: bucket{perSecond: float64(turns), burst: max(burst*float64(turns), 1)},
		bytes: bucket{perSecond: float64(bytes), burst: float64(burstBytes)},
	}
	if burstBytes <= 0 {
		p.bytes.burst = burst * float64(bytes)
	}
	return p
}

// take takes n, and says how long to wait for the last of them.
func (b *bucket) take(now time.Time, n int) time.Duration {
	if b.perSecond == 0 {
		return 0
	}
	ahead := b.debt.Add(now, b.perSecond, float64(n)) - b.burst
	return max(time.Duration(ahead/b.perSecond*float64(time.Second)), 0)
}

// Take takes n turns and so many bytes, and says how long the caller has to wait before
// the last of them: 0 while there is no hurry.
func (p *Pace) Take(n, bytes int) time.Duration {
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	return max(p.turns.take(now, n), p.bytes.take(now, bytes))
}

// Sleep waits for as long as Take said.
//
// Errors: ctx's cause.
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
