//go:build linux

package shm

import (
	"testing"

	"lwio/rdma"
)

// TestParkAsks: whether one who waits in Notify need not sleep is asked when that
// which makes it so would already wake it, so that nothing falls in between, and
// nobody who slept before can take the news.
//
// Source: [ND CompletionQueue.Notify]
func TestParkAsks(t *testing.T) {
	for name, way := range sleepWays {
		t.Run(name, func(t *testing.T) {
			_, passive := connected(t, way.cfg, 4096)
			c := passive.inside()
			asked := 0
			if !c.park(func() bool {
				if c.rest.napping.Load() {
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
					go func() { defer close(poked); c.rest.poke() }()
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

// TestParkFlood: a peer that gives more and more to do does not hold who waits in
// Notify, and what is left is done without it, whether it comes back soon or others
// wait.
func TestParkFlood(t *testing.T) {
	for name, others := range map[string]bool{"alone": false, "others sleep": true} {
		t.Run(name, func(t *testing.T) {
			r, victim, accepted := attack(t, nil)
			if err := <-accepted; err != nil {
				t.Fatal(err)
			}
			for i := 0; i < len(r.own.ring); i += headerSize {
				(&entry{kind: entryWrite}).store(r.own.ring, i)
			}
			c := victim.inside()
			leaveToOthers(t, c)
			given := uint64(len(r.own.ring) / 2)
			asked, taken := 0, uint64(0)
			if !c.park(func() bool {
				if asked++; asked == 1 {
					if others {
						go func() { _ = victim.icq.Notify(t.Context(), rdma.NotifyAny) }()
						eventually(t, "another sleeps", func() bool { return c.qp.queues.Initiator.Sleepers() > 0 })
					}
					r.own.tail.Store(given)
					return false
				}
				taken = r.peer.head.Load()
				return true
			}) {
				t.Fatal("refused")
			}
			if asked != 2 || !others && taken != pollBudget*headerSize {
				t.Errorf("asked %d times, took %d bytes", asked, taken)
			}
			if !others {
				c.rest.check()
				c.rest.check()
			}
			eventually(t, "the rest is done", func() bool { return r.peer.head.Load() == given })
			victim.icq.Close()
		})
	}
}

// leaveToOthers makes run sleep on the socket, and stay there whatever is in the ring until
// somebody calls it: a run that has not slept yet would take what a test puts there.
func leaveToOthers(tb testing.TB, c *conn) {
	tb.Helper()
	r := &c.rest
	parked := func(keep bool) bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		was := r.parked
		r.parked = was && keep
		return was
	}
	r.armed.Store(true) // no timer calls it
	r.attend(true)
	if parked(false) {
		c.nudge() // it may not have seen that
	}
	eventually(tb, "run sleeps", func() bool { return parked(true) })
}
