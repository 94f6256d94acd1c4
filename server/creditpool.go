package server

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// balanceInterval is the time between two balances of the credits.
	balanceInterval = time.Second
	// exhaustedDelay is the time from the first request for credits that gets none to the next
	// balance. Meanwhile other connections send their hints.
	exhaustedDelay = 50 * time.Millisecond
	// idleTime is the time without a message after which a connection is idle. The next
	// balance takes its credits back.
	idleTime = 10 * time.Second
	// idleCredits is the number of credits that an idle connection keeps.
	idleCredits = 4
)

// creditPool divides the memory of receives between all connections, as credits. The unit of the
// memory is Limits.MaxRecvBufferSize. The weight of a connection is the memory of one of its
// credits. Each connection has at least one credit, even beyond the budget. Safe for concurrent use.
//
// Source: [OP-69] [OP-74c]
type creditPool struct {
	budget   int           // of the memory
	returned atomic.Uint64 // number of times that credits came back
	// exhausted receives a value when a connection gets no credit, and credits were not short
	// before.
	exhausted chan struct{}

	mu    sync.Mutex
	held  int  // of the memory
	short bool // since the last look, a connection got less than it asked for
	// wanted is the memory of all hints while credits are short, else 0.
	wanted int
}

// first takes up to want credits, and at least one, for a new connection. It takes fewer the less of
// the budget is left, so some credits are left for connections that need more later.
func (p *creditPool) first(want, weight int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	left := max(p.budget-p.held, 0)
	n := max(min((want*left+p.budget-1)/p.budget, left/weight), 1)
	p.held += n * weight
	return n
}

// grow takes more credits for a connection that holds grant and asks for a total of want.
func (p *creditPool) grow(grant, want, weight int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	most := want
	if p.wanted > 0 {
		most = min(want, p.shareLocked(want))
	}
	n := max(min(most-grant, (p.budget-p.held)/weight), 0)
	p.short = p.short || grant+n < want
	if n == 0 && p.wanted == 0 {
		select {
		case p.exhausted <- struct{}{}:
		default:
		}
	}
	p.held += n * weight
	return n
}

// memory returns the memory that all connections hold.
func (p *creditPool) memory() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}

// give returns n credits.
func (p *creditPool) give(n, weight int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held -= n * weight
	p.returned.Add(1)
}

// shareLocked returns the credits that a connection with a hint may hold while they are short.
func (p *creditPool) shareLocked(hint int) int { return max(hint*p.budget/max(p.wanted, 1), 1) }

// look reports whether credits were short since the last look. wanted is the memory of all hints since
// the last look.
func (p *creditPool) look(wanted int) (short bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	short, p.short = p.short, false
	p.wanted = 0
	if short {
		p.wanted = max(wanted, 1)
	}
	return short
}

// share returns the credits that a connection with a hint may hold, once look reported that
// they are short.
func (p *creditPool) share(hint int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.shareLocked(hint)
}

// watchCredits balances the credits until the engine is closed.
func (e *engine) watchCredits() {
	tick := time.NewTicker(balanceInterval)
	defer tick.Stop()
	for {
		select {
		case <-e.ctx.Done():
			return
		case <-e.credits.exhausted:
			select {
			case <-e.ctx.Done():
				return
			case <-time.After(exhaustedDelay):
				e.balance(time.Now())
			}
		case now := <-tick.C:
			e.balance(now)
			e.replay.expire(now)
		}
	}
}

// balance looks at the hints of all connections. While credits are short, each connection may hold a
// share in proportion to its hint. Otherwise an idle connection gives up most of its credits, and
// their memory. balance cuts a client that does not answer a delta.
//
// Source: [LWIO §Credits] [OP-61c] [OP-74c]
func (e *engine) balance(now time.Time) {
	conns := e.conns.authenticated()
	most, wanted := make([]int, len(conns)), 0
	for i, c := range conns {
		most[i] = int(c.credits.hint.Swap(0))
		c.credits.exhausted.Store(0)
		wanted += most[i] * c.credits.weight
	}
	short := e.credits.look(wanted)
	for i, c := range conns {
		// pending is read first: it falls only after the progress of a change is recorded.
		pending := int(c.send.wakeups.pending.Load())
		look := c.credits.look(pending, now, now.Sub(e.born), e.limits.StallTimeout)
		switch {
		case look.late:
			c.cut(errCreditStall)
		case short:
			c.shrink(look.grant - e.credits.share(most[i]))
		case look.idle:
			c.shrink(look.grant - idleCredits)
		}
	}
}
