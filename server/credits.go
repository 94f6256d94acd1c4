package server

import (
	"sync"
	"sync/atomic"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/wire"
)

// creditState is the state of the credits of one connection. A credit is a receive: the client may
// have as many messages in flight as it holds credits. The server changes the number by
// transactions, one at a time. It sends a delta. The client answers a growth with one CREDIT, and a
// delta of -N with N of them. The receives of these N are not posted again. The pool is charged for
// the posted receives: grant and extra.
//
// The receive loop changes grant, and reads it without the lock.
//
// Source: [LWIO §Credits] [OP-64] to [OP-74c] [OP-98] [LWIO claim 24]
type creditState struct {
	holder creditHolder // fixed before the first credit

	// hint is the largest number of requests that the client has reported since the last
	// balance.
	hint atomic.Int32
	// exhausted is 1 + creditPool.returned of the time when the pool had no credit left, until
	// the next balance; else 0.
	exhausted atomic.Uint64
	// changing: delta is not 0.
	changing atomic.Bool
	// lastMessage is the arrival of the last message on the engine's clock, at most
	// arrivalStep too early. noted is its value, for the receive loop: a look costs less than
	// a store.
	lastMessage atomic.Int64
	noted       time.Duration

	mu    sync.Mutex
	grant int
	// delta is the change in progress: the growth, or, below zero, the credits that the
	// client still has to return; 0 for none. began is its last progress.
	delta int
	began time.Time
	// paused: the messages of the client are deferred, perhaps with its answer.
	paused bool
	// sending: the message of the last delta has not completed, or the answer to AUTH is not queued.
	sending bool
	// refused: the client returned a part of a growth. The next growth follows a shrink.
	// [OP-74b]
	refused bool
	// extra is the number of posted receives whose credits the client returned unused.
	extra int
}

// setDeltaLocked begins or ends a change.
func (k *creditState) setDeltaLocked(n int) {
	k.delta, k.began = n, time.Now()
	k.changing.Store(n != 0)
}

// arrivalStep is the accuracy of creditState.lastMessage.
const arrivalStep = time.Millisecond

// arrived notes the arrival of a message, on the engine's clock. The receive loop calls it.
func (k *creditState) arrived(now time.Duration) {
	if now-k.noted >= arrivalStep {
		k.noted = now
		k.lastMessage.Store(int64(now))
	}
}

// observe records a hint: the client has n requests.
func (k *creditState) observe(n int32) {
	if n > k.hint.Load() {
		k.hint.Store(n)
	}
}

// beginGrowth begins to grant n credits more, for a total of at most want. fresh of them have no
// receive yet, and are taken from the pool. n is 0 if the connection cannot grow now.
func (k *creditState) beginGrowth(pool *creditPool, want int) (n, fresh int) {
	if want <= k.grant || k.exhausted.Load() == pool.returned.Load()+1 {
		return 0, 0
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.delta != 0 || k.sending || k.refused {
		return 0, 0
	}
	returned := pool.returned.Load()
	n, fresh = pool.grow(k.grant, k.extra, want, k.holder)
	if n == 0 {
		k.exhausted.Store(returned + 1)
		return 0, 0
	}
	k.setDeltaLocked(n)
	return n, fresh
}

// endGrowth gives the n credits of beginGrowth to the client. The caller sends the delta.
func (k *creditState) endGrowth(n, fresh int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.grant += n
	k.extra -= n - fresh
	k.sending = true
}

// beginShrink begins to take n credits back and returns their number. The client keeps at least one.
// The caller sends the delta. The result is 0 if the connection cannot shrink now.
func (k *creditState) beginShrink(n int) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	if n = min(n, k.grant-1); n <= 0 || k.delta != 0 || k.sending {
		return 0
	}
	k.setDeltaLocked(-n)
	k.sending = true
	return n
}

// begin sets the credits that the answer to AUTH grants. No delta is sent before the answer: the caller
// calls sent once the answer is queued.
func (k *creditState) begin(n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.grant, k.sending = n, true
}

// sent ends the sending of a delta, or of the answer to AUTH.
func (k *creditState) sent() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sending = false
}

// answer handles a CREDIT of n and returns the number of credits that the client gave up. If n is not
// below 0 their receives stay posted, and charged: the client can still fill the memory of each.
//
// Source: [OP-67] [OP-70] [OP-71] [OP-72] [OP-74a]
func (k *creditState) answer(n int) (given int, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.delta > 0 && n >= 0 && n <= k.delta:
		given = n
		k.setDeltaLocked(0)
		k.extra += n
		k.refused = n > 0
	case k.delta < 0 && n == k.delta:
		given, k.refused = 1, false
		k.setDeltaLocked(k.delta + 1)
	default:
		return 0, violation("a CREDIT of %d in a change of %d", n, k.delta)
	}
	k.grant -= given
	return given, nil
}

// progress records that an answer was completed: the change in progress is not stalled.
func (k *creditState) progress() {
	if !k.changing.Load() {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.began = time.Now()
}

// pause stops the time limit for the answer to a change, because the messages of the client are
// deferred. The returned function ends the pause.
func (k *creditState) pause() (resume func()) {
	since := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.paused = true
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.paused = false
		if k.began.Before(since) {
			k.began = k.began.Add(time.Since(since))
		} else {
			k.began = time.Now() // the change began meanwhile
		}
	}
}

// creditLook is the result of a look at the credits of a connection.
type creditLook struct {
	grant int
	idle  bool // no message for idleTime, and no request outstanding
	late  bool // the client does not answer a change
}

// look returns the state of the credits of a connection with pending I/O requests. clock is the
// engine's clock at now. A client that uses all its credits has none for a CREDIT, so it is not
// late.
func (k *creditState) look(pending int, now time.Time, clock, stall time.Duration) creditLook {
	k.mu.Lock()
	defer k.mu.Unlock()
	return creditLook{
		grant: k.grant,
		idle:  !k.paused && pending == 0 && clock-time.Duration(k.lastMessage.Load()) >= idleTime,
		late:  k.delta != 0 && !k.paused && pending < k.grant && now.Sub(k.began) > stall,
	}
}

// granted returns the number of credits.
func (k *creditState) granted() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.grant
}

// charged returns the number of receives that the connection holds of the pool.
func (k *creditState) charged() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.grant + k.extra
}

// observeLoad records the number of requests of the client. If the client has fewer credits, it gets
// more. The receives are posted before the delta is sent.
//
// Source: [LWIO §Credits] [OP-64] [OP-71] [OP-74b] [OP-74c] [LWIO claim 22]
func (c *conn) observeLoad(h *wire.Header) error {
	if h.Opcode == wire.OpInterrupt {
		return nil // its Credits field is not a hint [OP-93a]
	}
	k := &c.credits
	hint := int(h.Credits)
	if c.auth.messages.Counts(h.Opcode) {
		hint = max(hint, 1) // itself
	}
	k.observe(int32(hint))
	c.load.hinted = min(hint, k.grant)
	n, fresh := k.beginGrowth(&c.engine.credits, min(hint, c.fabric.layout.credits))
	if n == 0 {
		return nil
	}
	if err := c.receives.post(c.qp, fresh); err != nil {
		c.engine.credits.give(fresh, k.holder)
		return err
	}
	c.engine.count.credits.Add(int64(n))
	k.endGrowth(n, fresh)
	c.announce(n)
	return nil
}

// shrink asks the client to give up n credits; the client keeps at least one. balance calls it.
func (c *conn) shrink(n int) {
	if n = c.credits.beginShrink(n); n > 0 {
		c.announce(-n)
	}
}

// announce sends the delta n of the credits.
//
// Source: [LWIO §Credits] [OP-73]
func (c *conn) announce(n int) {
	o := c.notice
	o.h.Flags, o.info, o.status = wire.FlagInterrupt, uint32(int32(n)), ntstatus.Status(wire.NotifyCredit)
	var list opList
	list.push(o)
	c.send.enqueue(&list, 0)
}

// announced is called when the message of a delta has been sent.
func (c *conn) announced() {
	c.notice.reset()
	c.credits.sent()
}

// credit answers a CREDIT, the client's answer to a delta.
//
// Source: [LWIO §Credits] [OP-67] [OP-70] [OP-71] [OP-72] [OP-74a] [LWIO claim 24]
func (c *conn) credit(o *op) error {
	n := int(o.h.CreditCount())
	given, err := c.credits.answer(n)
	if err != nil {
		return err
	}
	if n < 0 {
		c.receives.retire(o.recv)
		o.recv = none
		c.engine.credits.give(given, c.credits.holder)
	}
	c.engine.count.credits.Add(-int64(given))
	c.reply(o, ntstatus.Status(wire.CreditStatus(int32(n))))
	return nil
}
