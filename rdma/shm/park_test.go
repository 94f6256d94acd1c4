//go:build linux

package shm

import (
	"runtime"
	"testing"

	"lwio/rdma"
	"lwio/rdma/shm/internal/ring"
)

// TestParkAsks: over is asked before a sleep in Wait, when an event that
// which makes it so would already wake it, so that nothing falls in between, and
// no earlier sleeper can take the event.
//
// Source: [ND CompletionQueue.Notify]
func TestParkAsks(t *testing.T) {
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

// TestParkFlood: a peer that sends more and more does not hold up a goroutine in
// Wait, and the rest is done without it, whether it comes back soon or others
// wait.
func TestParkFlood(t *testing.T) {
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

// leaveToOthers makes run sleep on the socket, and stay there for any content of the ring until
// nudge: a run that has not slept yet would take the entries of a test.
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
		c.nudge() // it may not have seen that
	}
	eventually(tb, "run sleeps", func() bool { return parked(true) })
}

// isParked tells whether run sleeps on the socket, or has seen that there is nothing to do
// and is about to.
func (r *sleeper) isParked() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.runSleeps
}

// TestArrives: a goroutine about to sleep lets others run, and neither sleeps nor announces it if
// there is something to do then; unless the peer would wake the connection's goroutine.
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
		for r.peer.Head.Load() != r.own.Tail.Load() { // it was poked too late the last time
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
