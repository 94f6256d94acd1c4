package server

import (
	"sync"
	"sync/atomic"
	"time"

	"lwio/internal/account"
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
// memory is Limits.MaxRecvBufferSize. The connections of one user get at most three quarters of it.
// Each connection has at least one credit, even beyond the limits. Safe for concurrent use.
//
// Source: [OP-69] [OP-74c]
type creditPool struct {
	sum      *account.Sum  // of the memory
	returned atomic.Uint64 // number of times that credits came back
	// exhausted receives a value when a connection gets no credit, and credits were not short
	// before.
	exhausted chan struct{}

	mu    sync.Mutex
	short bool // since the last look, a connection got less than it asked for
	// wanted is the memory of all hints while credits are short, else 0. wantedBy has the hints
	// of each user.
	wanted   int
	wantedBy map[string]int
}

// creditHolder is the holder of credits: a connection.
type creditHolder struct {
	user   string // canonical name
	weight int    // memory of one credit
}

// init makes the pool ready for use. budget is the memory of all credits.
func (p *creditPool) init(budget int) {
	p.sum, p.exhausted = account.NewSum(int64(budget), 0), make(chan struct{}, 1)
}

// budget returns the memory of all credits.
func (p *creditPool) budget() int { return int(p.sum.Limit()) }

// leftLocked returns the memory that is left for a user, and for all. Precondition: mu is held.
func (p *creditPool) leftLocked(user string) (mine, all int) {
	all = max(p.budget()-int(p.sum.Held()), 0)
	return min(max(int(p.sum.UserLimit()-p.sum.HeldBy(user)), 0), all), all
}

// first takes up to want credits, and at least one, for a new connection. It takes fewer the less of
// the budget is left, so some credits are left for connections that need more later.
func (p *creditPool) first(want int, h creditHolder) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	mine, all := p.leftLocked(h.user)
	n := max(min((want*all+p.budget()-1)/p.budget(), mine/h.weight), 1)
	p.sum.Force(h.user, int64(n*h.weight), account.Last)
	return n
}

// grow returns n, the credits that a connection with grant of them gets more, if it asks for a total of
// want. It holds spare receives without a credit. grow takes fresh, the part of n beyond these.
func (p *creditPool) grow(grant, spare, want int, h creditHolder) (n, fresh int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	most := want
	if p.wanted > 0 {
		most = min(want, p.shareLocked(want, h))
	}
	mine, _ := p.leftLocked(h.user)
	n = max(min(most-grant, mine/h.weight+spare), 0)
	fresh = max(n-spare, 0)
	p.short = p.short || grant+n < want
	if n == 0 && p.wanted == 0 {
		select {
		case p.exhausted <- struct{}{}:
		default:
		}
	}
	p.sum.Force(h.user, int64(fresh*h.weight), account.Last)
	return n, fresh
}

// give returns the memory of n receives.
func (p *creditPool) give(n int, h creditHolder) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sum.Give(h.user, int64(n*h.weight), account.Last)
	p.returned.Add(1)
}

// shareLocked returns the credits that a connection with a hint may hold while they are short.
func (p *creditPool) shareLocked(hint int, h creditHolder) int {
	all := hint * p.budget() / max(p.wanted, 1)
	mine := hint * int(p.sum.UserLimit()) / max(p.wantedBy[h.user], 1)
	return max(min(all, mine), 1)
}

// look reports whether credits were short since the last look. wanted is the memory of all hints of
// each user since the last look, which belongs to the pool from now on.
func (p *creditPool) look(wanted map[string]int) (short bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	short, p.short = p.short, false
	p.wanted, p.wantedBy = 0, nil
	if short {
		for _, n := range wanted {
			p.wanted += n
		}
		p.wanted, p.wantedBy = max(p.wanted, 1), wanted
	}
	return short
}

// share returns the credits that a connection with a hint may hold, once look reported that
// they are short.
func (p *creditPool) share(hint int, h creditHolder) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.shareLocked(hint, h)
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
			if err := e.replay.expire(now); err != nil {
				e.records.check(err)
			}
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
	most, wanted := make([]int, len(conns)), make(map[string]int)
	for i, c := range conns {
		most[i] = int(c.credits.hint.Swap(0))
		c.credits.exhausted.Store(0)
		wanted[c.credits.holder.user] += most[i] * c.credits.holder.weight
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
			c.shrink(look.grant - e.credits.share(most[i], c.credits.holder))
		case look.idle:
			c.shrink(look.grant - idleCredits)
		}
	}
}
