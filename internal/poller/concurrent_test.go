package poller

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// hangLimit bounds a test that hangs.
const hangLimit = 20 * time.Second

// queue is a completion queue whose completions are waiters that are to be woken. An element of
// more says that there may be completions.
type queue struct {
	p       Poller
	pollers atomic.Int32
	more    chan struct{}

	mu   sync.Mutex
	done []*call
}

// call is a waiter with its condition.
type call struct {
	Waiter
	ready atomic.Bool
}

// Ready implements [Condition].
func (c *call) Ready() bool { return c.ready.Load() }

// complete adds a completion.
func (q *queue) complete(c *call) {
	q.mu.Lock()
	q.done = append(q.done, c)
	q.mu.Unlock()
	select {
	case q.more <- struct{}{}:
	default:
	}
}

// step delivers the completions that are there, or sleeps at w until end holds or there are
// more.
func (q *queue) step(t *testing.T, w *Waiter, end Condition) {
	if q.pollers.Add(1) != 1 {
		t.Error("there are two pollers")
	}
	defer q.pollers.Add(-1)
	q.mu.Lock()
	done := q.done
	q.done = nil
	q.mu.Unlock()
	for _, c := range done {
		c.ready.Store(true)
		q.p.Wake(&c.Waiter)
	}
	if len(done) > 0 {
		return
	}
	ctx := q.p.SleepContext()
	w.BeginSleep()
	defer w.EndSleep()
	if end.Ready() {
		return
	}
	select {
	case <-q.more:
	case <-ctx.Done():
	}
}

// wait waits for the completion of c, or until ctx ends.
func (q *queue) wait(ctx context.Context, t *testing.T, c *call, mayPoll bool) {
	drive := func() {
		for !c.Ready() {
			q.step(t, &c.Waiter, c)
		}
		q.p.Pass()
	}
	for !c.Ready() {
		if q.p.Park(&c.Waiter, mayPoll) {
			drive()
			return
		}
		if c.Ready() {
			q.p.Leave(&c.Waiter)
			return
		}
		select {
		case <-c.C():
			if c.HasRole() {
				drive()
			}
		case <-ctx.Done():
			q.p.Leave(&c.Waiter)
			return
		}
	}
}

// use does one wait of a random kind.
func (q *queue) use(t *testing.T, rnd *rand.Rand) {
	c := &call{Waiter: NewWaiter()}
	switch rnd.IntN(4) {
	case 0: // a call that can be the poller
		go q.complete(c)
		q.wait(t.Context(), t, c, true)
	case 1: // a call that cannot
		go q.complete(c)
		q.wait(t.Context(), t, c, false)
	case 2: // a call that gives up at about the time of its completion
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go q.complete(c)
		go cancel()
		q.wait(ctx, t, c, false)
	default: // a call that busy-polls, and then waits for another goroutine's completion
		q.p.Claim()
		if q.p.Take() {
			q.p.Pass()
		}
		q.p.Block()
		defer q.p.Unblock()
		go q.complete(c)
		for !c.Ready() {
			time.Sleep(time.Microsecond)
		}
	}
}

// TestEveryWaitEnds has many goroutines wait at the same time in all ways, with a reader: there
// is never more than one poller, and every wait ends.
func TestEveryWaitEnds(t *testing.T) {
	q := &queue{more: make(chan struct{}, 1)}
	q.p.Init(100*time.Microsecond, time.Millisecond)
	over, served := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(served)
		q.p.Serve(over, func(w *Waiter, end Condition) { q.step(t, w, end) })
	}()
	waits := 2000
	if testing.Short() {
		waits = 200
	}
	var users sync.WaitGroup
	for i := range uint64(16) {
		rnd := rand.New(rand.NewPCG(i, 1))
		users.Go(func() {
			for range waits {
				q.use(t, rnd)
			}
		})
	}
	done := make(chan struct{})
	go func() { users.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(hangLimit):
		panic("a wait does not end") // which shows the goroutines
	}
	close(over)
	q.p.WakePoller()
	<-served
}
