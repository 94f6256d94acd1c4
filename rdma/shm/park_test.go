//go:build linux

package shm

import (
	"runtime"
	"testing"

	"lwio/rdma"
	"lwio/rdma/shm/internal/ring"
)

// Park calls over before a sleep in Wait, at a time when an event that changes its result
// would already wake it. No event is missed then, and no earlier sleeper can take the
// event.
//
// Source: [ND CompletionQueue.Notify]
func TestParkChecksOverAfterUnparkCanFindIt(t *testing.T) {
	for name, way := range sleepWays {
		t.Run(name, func(t *testing.T) {
			_, passive := connected(t, way.cfg, 4096)
			c := passive.inside()
			asked := 0
			if !c.park(func() bool {
				if c.sleeper.inWait.Load() {
					asked++
				}
				return true
			}) || asked != 1 {
				t.Errorf("asked %d times", asked)
			}
			poked := make(chan struct{})
			over := false
			if !c.park(func() bool {
				if !over {
					go func() { defer close(poked); c.sleeper.interrupt() }()
				}
				defer func() { over = true }()
				return over
			}) {
				t.Error("refused")
			}
			<-poked
		})
	}
}

// A peer that sends without end does not hold a goroutine in Wait. The rest of the work
// is done without that goroutine, whether it returns soon or other goroutines wait.
func TestParkReturnsDuringFlood(t *testing.T) {
	for name, others := range map[string]bool{"alone": false, "others sleep": true} {
		t.Run(name, func(t *testing.T) {
			r, victim, accepted := attack(t, nil)
			if err := <-accepted; err != nil {
				t.Fatal(err)
			}
			for i := 0; i < len(r.own.Ring); i += ring.HeaderSize {
				(&ring.Entry{Kind: ring.Write}).Store(r.own.Ring, i)
			}
			c := victim.inside()
			leaveToOthers(t, c)
			given := uint64(len(r.own.Ring) / 2)
			asked, taken := 0, uint64(0)
			if !c.park(func() bool {
				if asked++; asked == 1 {
					if others {
						go func() { _ = victim.icq.Wait(t.Context(), rdma.NotifyAny) }()
						eventually(t, "another sleeps", func() bool { return c.qp.Queues.Initiator.Sleepers() > 0 })
					}
					r.own.Tail.Store(given)
					return false
				}
				taken = r.peer.Head.Load()
				return true
			}) {
				t.Fatal("refused")
			}
			if asked != 2 || !others && taken != pollBudget*ring.HeaderSize {
				t.Errorf("asked %d times, took %d bytes", asked, taken)
			}
			if !others {
				c.sleeper.check()
				c.sleeper.check()
			}
			eventually(t, "the rest is done", func() bool { return r.peer.Head.Load() == given })
			victim.icq.Close()
		})
	}
}

// leaveToOthers makes run sleep on the socket until nudge, with any content of the ring. A
// run that has not slept yet would take the entries of a test.
func leaveToOthers(tb testing.TB, c *conn) {
	tb.Helper()
	r := &c.sleeper
	parked := func(keep bool) bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		was := r.runSleeps
		r.runSleeps = was && keep
		return was
	}
	r.armed.Store(true) // no timer calls it
	r.setPolled(true)
	if parked(false) {
		c.nudge() // the waiter may not have seen that
	}
	eventually(tb, "run sleeps", func() bool { return parked(true) })
}

// isParked reports whether run sleeps on the socket, or is about to sleep after it found
// no work.
func (r *sleeper) isParked() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.runSleeps
}

// A goroutine that is about to sleep lets other goroutines run. If there is work
// afterwards, it neither sleeps nor announces a sleep. If the peer would wake the
// connection's goroutine, it sleeps in any case.
func TestWorkArrivesBeforeSleep(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	r, victim, accepted := attack(t, nil)
	if err := <-accepted; err != nil {
		t.Fatal(err)
	}
	c := victim.inside()
	leaveToOthers(t, c)
	const turns = 100
	skipped := uint64(0)
	for i := range turns {
		(&ring.Entry{Kind: ring.Write}).Store(r.own.Ring, i*ring.HeaderSize)
		naps, looks, word := c.sleeper.waitSleeps.Load(), c.sleeper.polls.Load(), c.own.Sleep.Load()
		given := make(chan struct{})
		go func() {
			defer close(given)
			r.own.Tail.Store(uint64(i+1) * ring.HeaderSize)
			c.sleeper.interrupt()
		}()
		if !c.park(func() bool { return false }) {
			t.Fatal("refused")
		}
		if c.sleeper.waitSleeps.Load() == naps {
			skipped++
			if c.own.Sleep.Load() != word || c.sleeper.polls.Load() == looks {
				t.Fatal("a sleep is announced to the peer, or no poll is counted")
			}
		}
		<-given
		for r.peer.Head.Load() != r.own.Tail.Load() { // it was woken too late the last time
			c.park(func() bool { return false })
		}
	}
	if skipped < turns/2 {
		t.Errorf("%d of %d times", skipped, turns)
	}
	c.sleeper.polled.Store(false)
	r.own.Tail.Store((turns + 1) * ring.HeaderSize)
	if c.sleeper.workArrives() {
		t.Error("the connection is not polled, and the goroutine does not sleep")
	}
}
