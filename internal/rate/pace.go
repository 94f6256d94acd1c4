package rate

import (
	"context"
	"sync"
	"time"
)

// Pace lets those who share it go on so many times a second. Who comes when that is
// used up waits his turn. A nil Pace lets everybody go on. Safe for concurrent use.
type Pace struct {
	perSecond float64
	mu        sync.Mutex
	debt      Debt
}

// burst is how much of a second may be had at once.
const burst = 0.1

// NewPace makes a pace of so many turns a second.
func NewPace(perSecond int) *Pace { return &Pace{perSecond: float64(perSecond)} }

// Take takes n turns, and says how long the caller has to wait before the last of
// them: 0 while there is no hurry.
func (p *Pace) Take(n int) time.Duration {
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	ahead := p.debt.Add(time.Now(), p.perSecond, float64(n)) - max(burst*p.perSecond, 1)
	return max(time.Duration(ahead/p.perSecond*float64(time.Second)), 0)
}

// Wait takes a turn and waits for it.
//
// Errors: ctx's cause.
func (p *Pace) Wait(ctx context.Context) error { return Sleep(ctx, p.Take(1)) }

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
