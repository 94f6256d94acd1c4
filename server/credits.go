package server

import (
	"sync"
	"sync/atomic"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/wire"
)

// credits are the server's books of a connection's credits. A credit is a
// receive: the client may have as many messages in flight as it holds credits.
// The server changes their number by transactions, one at a time: it sends a
// delta, and the client answers one of growth with one CREDIT, one of N to give
// up with N, whose receives are not posted again.
//
// Guarded by conn.mu; only the loop changes grant, so it may read it without.
//
// Source: [LWIO §Credits] [OP-64] to [OP-74c] [OP-98] [LWIO claim 24]
type credits struct {
	grant int
	// delta is the change in progress: what the grant grew by, or, below zero,
	// what is still to be given up; 0 if there is none. It began at began.
	delta int
	began time.Time
	// paused: the client's messages are kept back, its answer perhaps among them.
	paused bool
	// sending: the message of the last delta is not settled.
	sending bool
	// refused: the client had no use for all of a growth; there is no other until
	// some are given up. [OP-74b]
	refused bool
	// extra are receives that were posted for credits the client did not use.
	extra int
	// quiet is the number of looks in a row that saw no request.
	quiet int
}

// Balancing.
const (
	// balanceEvery is how often credits are taken back.
	balanceEvery = time.Second
	// hungryWait is how long others may tell of their needs when one gets nothing.
	hungryWait = 50 * time.Millisecond
	// quietLooks is after how many looks without a request a connection is idle.
	quietLooks = 10
	// idleCredits is what an idle connection keeps.
	idleCredits = 4
)

// creditPool shares the budget of all connections' credits. Each has one at least,
// whatever the budget.
//
// Source: [OP-69] [OP-74c]
type creditPool struct {
	mu       sync.Mutex
	budget   int
	held     int
	returned atomic.Uint64 // counts how often credits came back
	short    bool          // a connection got less than it asked for, since the last look
	// wanted is the sum of all hints while credits are short, else 0.
	wanted int
	// hungry is told of the first that gets nothing since credits were not short.
	hungry chan struct{}
}

// first takes up to want credits for a new connection, and one at least: the fewer the
// more of the budget is taken, so that something is left for those who turn out to need
// more than they have.
func (p *creditPool) first(want int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	left := max(p.budget-p.held, 0)
	n := max(min((want*left+p.budget-1)/p.budget, left), 1)
	p.held += n
	return n
}

// grow takes more for a connection that holds grant and would have want.
func (p *creditPool) grow(grant, want int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	most := want
	if p.wanted > 0 {
		most = min(want, p.shareLocked(want))
	}
	n := max(min(most-grant, p.budget-p.held), 0)
	p.short = p.short || grant+n < want
	if n == 0 && p.wanted == 0 {
		select {
		case p.hungry <- struct{}{}:
		default:
		}
	}
	p.held += n
	return n
}

func (p *creditPool) give(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held -= n
	p.returned.Add(1)
}

// shareLocked is what a connection with a hint may hold while credits are short.
func (p *creditPool) shareLocked(hint int) int { return max(hint*p.budget/max(p.wanted, 1), 1) }

// look tells whether credits were short since the last time; wanted is the sum of
// the hints since then.
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

// share is shareLocked for who does not hold mu; look said that credits are short.
func (p *creditPool) share(hint int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.shareLocked(hint)
}

// hear notes how many requests the client has, and gives it more credits if they
// are more than it may have in flight.
//
// Source: [LWIO §Credits] [OP-64] [OP-74c] [LWIO claim 22]
func (c *conn) hear(h *wire.Header) error {
	if h.Opcode == wire.OpInterrupt {
		return nil // counts something else [OP-93a]
	}
	n := int32(h.Credits)
	if h.Opcode.IO() {
		n = max(n, 1) // itself
	}
	if n > c.hint.Load() {
		c.hint.Store(n)
	}
	c.told = min(int(n), c.credits.grant)
	want := min(int(n), c.f.layout.slots)
	if want <= c.credits.grant || c.refused.Load() == c.e.credits.returned.Load()+1 {
		return nil
	}
	return c.grow(want)
}

// grow lets the client have want messages in flight, as far as the budget goes. The
// receives are there before the client is told.
//
// Source: [OP-71] [OP-74b]
func (c *conn) grow(want int) error {
	k := &c.credits
	c.mu.Lock()
	if k.delta != 0 || k.sending || k.refused {
		c.mu.Unlock()
		return nil
	}
	returned := c.e.credits.returned.Load()
	n := c.e.credits.grow(k.grant, want)
	if n == 0 {
		c.refused.Store(returned + 1)
		c.mu.Unlock()
		return nil
	}
	k.delta, k.began = n, time.Now()
	fresh := max(n-k.extra, 0)
	c.mu.Unlock()
	if err := c.postSpare(fresh); err != nil {
		c.e.credits.give(n)
		return err
	}
	c.e.count.credits.Add(int64(n))
	c.mu.Lock()
	k.grant += n
	k.extra -= n - fresh
	c.announceLocked(n)
	return nil
}

// shrink asks the client to give up n credits, of which it keeps one at least.
// Called by the balancer.
func (c *conn) shrink(n int) {
	k := &c.credits
	c.mu.Lock()
	if n = min(n, k.grant-1); n <= 0 || k.delta != 0 || k.sending || c.dead {
		c.mu.Unlock()
		return
	}
	k.delta, k.began = -n, time.Now()
	c.announceLocked(-n)
}

// announceLocked sends the delta. It is called with mu held and returns without.
//
// Source: [LWIO §Credits] [OP-73]
func (c *conn) announceLocked(n int) {
	c.credits.sending = true
	o := c.notice
	o.h.Flags, o.info, o.status = wire.FlagInterrupt, uint32(int32(n)), ntstatus.Status(wire.NotifyCredit)
	c.enqueueLocked(o)
	c.postOutbox()
}

// announced is called when the message of a delta is gone.
func (c *conn) announced() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.credits.sending = false
	c.notice.reset()
}

// credit takes the client's answer to a delta.
//
// Source: [LWIO §Credits] [OP-67] [OP-70] [OP-71] [OP-72] [OP-74a] [LWIO claim 24]
func (c *conn) credit(o *op) error {
	k := &c.credits
	n := int(wire.CreditCount(o.h.Offset))
	c.mu.Lock()
	given := 0
	switch {
	case k.delta > 0 && n >= 0 && n <= k.delta:
		given, k.delta = n, 0
		k.extra += n
		k.refused = n > 0
	case k.delta < 0 && n == k.delta:
		given, k.refused = 1, false
		k.delta++
	default:
		delta := k.delta
		c.mu.Unlock()
		return violation("a CREDIT of %d in a change of %d", n, delta)
	}
	k.grant -= given
	k.began = time.Now()
	c.mu.Unlock()
	if n < 0 {
		c.spare = append(c.spare, o.recv)
		c.discard(o.recv)
		o.recv = none
	}
	c.e.credits.give(given)
	c.e.count.credits.Add(-int64(given))
	c.reply(o, ntstatus.Status(wire.CreditStatus(int32(n))))
	return nil
}

// pauseCredits says that no answer to a change is due, as the client's messages are kept
// back, until what it returns is called.
func (c *conn) pauseCredits() (resume func()) {
	since := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.credits.paused = true
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		k := &c.credits
		k.paused = false
		if k.began.Before(since) {
			k.began = k.began.Add(time.Since(since))
		} else {
			k.began = time.Now() // the change is of meanwhile
		}
	}
}

// watchCredits takes credits back, from time to time.
func (e *engine) watchCredits() {
	tick := time.NewTicker(balanceEvery)
	defer tick.Stop()
	for {
		select {
		case <-e.ctx.Done():
			return
		case <-e.credits.hungry:
			select {
			case <-e.ctx.Done():
				return
			case <-time.After(hungryWait):
				e.balance(time.Now())
			}
		case now := <-tick.C:
			e.balance(now)
			e.outcomes.expire(now)
		}
	}
}

// balance looks at what all connections told. While credits are short each may
// hold a share as large as its hint is; else who is idle gives most of its own up,
// and with them their memory. Who does not answer a delta is cut.
//
// Source: [LWIO §Credits] [OP-61c] [OP-74c]
func (e *engine) balance(now time.Time) {
	e.mu.Lock()
	var conns []*conn
	for c := range e.conns {
		if c.authenticated {
			conns = append(conns, c)
		}
	}
	e.mu.Unlock()
	most, wanted := make([]int, len(conns)), 0
	for i, c := range conns {
		most[i] = int(c.hint.Swap(0))
		c.refused.Store(0)
		wanted += most[i]
	}
	short := e.credits.look(wanted)
	for i, c := range conns {
		c.mu.Lock()
		k := &c.credits
		if k.quiet++; most[i] > 0 {
			k.quiet = 0
		}
		grant, idle := k.grant, k.quiet >= quietLooks
		// Who has all credits in use has none for a CREDIT.
		late := k.delta != 0 && !k.paused && c.pending < grant && now.Sub(k.began) > e.limits.StallTimeout
		c.mu.Unlock()
		switch {
		case late:
			c.cut(errCreditStall)
		case short:
			c.shrink(grant - e.credits.share(most[i]))
		case idle:
			c.shrink(grant - idleCredits)
		}
	}
}
