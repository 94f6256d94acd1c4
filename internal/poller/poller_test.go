package poller

import (
	"testing"
	"time"
)

// newPoller returns a poller whose reader is summoned only for waits that need it.
func newPoller(t testing.TB) *Poller {
	p := new(Poller)
	p.Init(time.Hour, time.Hour)
	t.Cleanup(func() { p.timer.Stop() })
	return p
}

// waiters returns n waiters.
func waiters(n int) []*Waiter {
	list := make([]*Waiter, n)
	for i := range list {
		w := NewWaiter()
		list[i] = &w
	}
	return list
}

// isReleased receives the token of w if it is there. hasRole says that the token came with the
// role.
func isReleased(w *Waiter) (released, hasRole bool) {
	select {
	case <-w.C():
		return true, w.HasRole()
	default:
		return false, false
	}
}

// isSummoned reports whether the reader is summoned, and ends the summons.
func isSummoned(p *Poller) bool {
	select {
	case <-p.summon:
		return true
	default:
		return false
	}
}

// TestPassGivesRoleToLongestWaiter parks three waiters behind a poller: the role goes to them
// in the order of their coming, and is free after the last.
func TestPassGivesRoleToLongestWaiter(t *testing.T) {
	p, w := newPoller(t), waiters(4)
	if !p.Park(w[0], true) {
		t.Fatal("the first waiter is not the poller")
	}
	for _, next := range w[1:] {
		if p.Park(next, true) {
			t.Fatal("there are two pollers")
		}
	}
	for i, next := range w[1:] {
		p.Pass()
		if released, hasRole := isReleased(next); !released || !hasRole {
			t.Fatalf("waiter %d: released %t, poller %t", i+1, released, hasRole)
		}
	}
	if p.Take() {
		t.Error("a second goroutine takes the role")
	}
	if p.Pass(); !p.Take() {
		t.Error("the role is not free after the last poller")
	}
	if isSummoned(p) {
		t.Error("the reader is summoned while calls use the role")
	}
}

// TestWakeReleasesParkedWaiterWithoutRole wakes waiters in the middle, at the end and at the
// beginning of the list: the poller stays the poller, and the rest keeps its order.
func TestWakeReleasesParkedWaiterWithoutRole(t *testing.T) {
	p, w := newPoller(t), waiters(5)
	p.Take()
	for _, x := range w {
		p.Park(x, true)
	}
	for _, i := range []int{2, 4, 0} {
		p.Wake(w[i])
		if released, hasRole := isReleased(w[i]); !released || hasRole {
			t.Errorf("waiter %d: released %t, poller %t", i, released, hasRole)
		}
		p.Wake(w[i])
		if released, _ := isReleased(w[i]); released {
			t.Errorf("waiter %d is released twice", i)
		}
	}
	for _, i := range []int{1, 3} {
		p.Pass()
		if released, hasRole := isReleased(w[i]); !released || !hasRole {
			t.Errorf("waiter %d: released %t, poller %t", i, released, hasRole)
		}
	}
}

// TestWakeAfterLeaveReleasesNothing has a waiter leave while a wake-up waits for the lock: the
// wake-up leaves no token, and the list of parked waiters stays whole.
func TestWakeAfterLeaveReleasesNothing(t *testing.T) {
	p, w := newPoller(t), waiters(2)
	p.Take()
	for _, x := range w {
		p.Park(x, true)
	}
	p.mu.Lock()
	woken := make(chan struct{})
	go func() { defer close(woken); p.Wake(w[0]) }()
	time.Sleep(20 * time.Millisecond) // Wake has found a parked waiter; if it has not, the test is easier
	p.removeLocked(w[0])
	p.mu.Unlock()
	<-woken
	if released, _ := isReleased(w[0]); released {
		t.Error("a waiter that has left is released")
	}
	p.Pass()
	if released, hasRole := isReleased(w[1]); !released || !hasRole {
		t.Errorf("the parked waiter: released %t, poller %t", released, hasRole)
	}
}

// TestLeavePassesRoleOn has a waiter leave that has become the poller meanwhile: the role goes
// to the next waiter. A waiter that is parked leaves without a token.
func TestLeavePassesRoleOn(t *testing.T) {
	p, w := newPoller(t), waiters(3)
	p.Take()
	for _, x := range w {
		p.Park(x, true)
	}
	p.Leave(w[1])
	p.Pass() // to the first
	p.Leave(w[0])
	if released, hasRole := isReleased(w[2]); !released || !hasRole {
		t.Errorf("the last waiter: released %t, poller %t", released, hasRole)
	}
	for _, x := range w[:2] {
		if released, _ := isReleased(x); released {
			t.Error("a token is left in a waiter that has left")
		}
	}
}

// TestLeaveAfterWakeKeepsRole has a waiter leave that was woken: the poller stays the poller.
func TestLeaveAfterWakeKeepsRole(t *testing.T) {
	p, w := newPoller(t), waiters(2)
	p.Take()
	for _, x := range w {
		p.Park(x, true)
	}
	p.Wake(w[0])
	p.Leave(w[0])
	if released, _ := isReleased(w[1]); released {
		t.Error("a waiter that is not the poller has passed the role on")
	}
}

// TestWaiterThatMayNotPoll parks a waiter that may not be the poller: the reader is summoned if
// the role is free, at once or when it becomes free. The waiter never gets the role.
func TestWaiterThatMayNotPoll(t *testing.T) {
	p, w := newPoller(t), waiters(2)
	if p.Park(w[0], false) {
		t.Fatal("the waiter is the poller")
	}
	if !isSummoned(p) {
		t.Error("the reader is not summoned for a free role")
	}
	p.Wake(w[0])
	if released, hasRole := isReleased(w[0]); !released || hasRole {
		t.Errorf("after Wake: released %t, poller %t", released, hasRole)
	}

	p.Take()
	p.Park(w[1], false)
	if isSummoned(p) {
		t.Error("the reader is summoned while there is a poller")
	}
	p.Pass()
	if !isSummoned(p) {
		t.Error("the reader is not summoned when the role becomes free")
	}
	if released, _ := isReleased(w[1]); released {
		t.Error("the waiter is released by Pass")
	}
	if p.Leave(w[1]); p.readerOnly.Load() != 0 {
		t.Errorf("%d waits that need the reader are left", p.readerOnly.Load())
	}
}

// TestBlockSummonsReader counts waits that need a poller: the reader takes the role even if
// calls have just used it, until the last of the waits is over.
func TestBlockSummonsReader(t *testing.T) {
	p := newPoller(t)
	p.Take()
	p.Block()
	if isSummoned(p) {
		t.Error("the reader is summoned while there is a poller")
	}
	p.Pass()
	if !isSummoned(p) || !p.takeForReader() {
		t.Fatal("the reader does not take the role for a blocked wait")
	}
	p.Claim()
	p.Pass()
	if !isSummoned(p) {
		t.Error("the reader is not summoned again")
	}
	p.Unblock()
	p.used.Store(true)
	if p.takeForReader() {
		t.Error("the reader takes a role that calls use, though no wait needs it")
	}
	p.Block()
	if !isSummoned(p) {
		t.Error("the reader is not summoned for a free role")
	}
	p.Unblock()
}

// TestWakeEndsSleepOfPoller wakes the waiter at which the poller sleeps, and no other sleep.
func TestWakeEndsSleepOfPoller(t *testing.T) {
	p, w := newPoller(t), waiters(2)
	p.Park(w[0], true)
	ctx := p.SleepContext()
	p.Wake(w[0])
	if ctx.Err() != nil {
		t.Error("Wake ends a sleep that has not begun")
	}
	w[0].BeginSleep()
	p.Wake(w[1])
	if ctx.Err() != nil {
		t.Error("Wake of another waiter ends the sleep")
	}
	p.Wake(w[0])
	if ctx.Err() == nil {
		t.Error("Wake does not end the sleep")
	}
	w[0].EndSleep()
	ctx = p.SleepContext()
	p.Wake(w[0])
	if ctx.Err() != nil {
		t.Error("Wake after the sleep ends the next sleep")
	}
	p.WakePoller()
	if ctx.Err() == nil {
		t.Error("WakePoller does not end the sleep")
	}
}

// TestClaimEndsTurnOfReader claims the role while the reader is the poller: the reader wakes up
// and its turn is over. A claim does not wake a call that is the poller.
func TestClaimEndsTurnOfReader(t *testing.T) {
	p, w := newPoller(t), waiters(1)
	end := &turnEnd{p, nil}
	if !p.takeForReader() || end.Ready() {
		t.Fatal("the reader has no turn")
	}
	ctx := p.SleepContext()
	p.reader.BeginSleep()
	if p.Claim(); ctx.Err() == nil || !end.Ready() {
		t.Error("the reader keeps the role after a claim")
	}
	p.reader.EndSleep()
	p.Pass()

	p.Park(w[0], true)
	ctx = p.SleepContext()
	w[0].BeginSleep()
	if p.Claim(); ctx.Err() != nil {
		t.Error("a claim wakes a call that is the poller")
	}
}

// TestNoAllocations counts the allocations of the ways of a call: none.
func TestNoAllocations(t *testing.T) {
	p, w := newPoller(t), waiters(3)
	for _, way := range []struct {
		name string
		call func()
	}{
		{"poller", func() { p.Park(w[0], true); p.Pass() }},
		{"busy-poll", func() { p.Take(); p.Claim(); p.Pass() }},
		{"sleep", func() { p.Take(); p.SleepContext(); w[0].BeginSleep(); w[0].EndSleep(); p.Pass() }},
		{"parked", func() {
			p.Take()
			p.Park(w[0], true)
			p.Park(w[1], true)
			p.Park(w[2], false)
			p.Wake(w[1])
			<-w[1].C()
			p.Pass()
			<-w[0].C()
			p.Pass()
			p.Leave(w[2])
		}},
	} {
		if n := testing.AllocsPerRun(100, way.call); n != 0 {
			t.Errorf("%s: %v allocations", way.name, n)
		}
	}
}
