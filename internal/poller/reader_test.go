package poller

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// serve starts the reader of a poller. It sends the time of each turn to turns. stop ends it.
func serve(p *Poller) (turns <-chan time.Time, stop func()) {
	began := make(chan time.Time, 1000)
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		p.Serve(over, func(w *Waiter, end Condition) {
			began <- time.Now()
			sleepAt(p, w, end)
		})
	}()
	return began, func() {
		close(over)
		p.WakePoller()
		<-done
	}
}

// sleepAt sleeps at w until end holds.
func sleepAt(p *Poller, w *Waiter, end Condition) {
	for !end.Ready() {
		ctx := p.SleepContext()
		w.BeginSleep()
		if !end.Ready() {
			<-ctx.Done()
		}
		w.EndSleep()
	}
}

// TestReaderTakesUnusedRole has no call use the role: the reader takes it after the shortest
// rest. When a call has used it, the reader takes it after a whole rest without a use.
func TestReaderTakesUnusedRole(t *testing.T) {
	const rest = 5 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		var p Poller
		began := time.Now()
		p.Init(rest, rest)
		turns, stop := serve(&p)
		if took := (<-turns).Sub(began); took != rest {
			t.Errorf("the first turn begins after %v", took)
		}
		p.Claim()
		synctest.Wait()
		if !p.Take() {
			t.Fatal("the reader keeps the role after a claim")
		}
		time.Sleep(10 * rest)
		if len(turns) > 0 {
			t.Error("the reader takes the role from a call")
		}
		began = time.Now()
		p.Pass()
		if took := (<-turns).Sub(began); took != 2*rest {
			t.Errorf("the turn after a call begins after %v", took)
		}
		stop()
	})
}

// TestReaderLooksLessOftenAtUsedRole has a call use the role all the time: the ticks of the
// timer come at intervals that double up to the longest.
func TestReaderLooksLessOftenAtUsedRole(t *testing.T) {
	const ms = time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		var p Poller
		p.Init(ms, 8*ms)
		turns, stop := serve(&p)
		rest := func() time.Duration {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.rest
		}
		time.Sleep(ms / 4) // the ticks come at whole milliseconds
		var rests []time.Duration
		for range 100 {
			p.Take()
			p.Pass()
			if r := rest(); !slices.Contains(rests, r) {
				rests = append(rests, r)
			}
			time.Sleep(ms / 2)
		}
		if want := []time.Duration{ms, 2 * ms, 4 * ms, 8 * ms}; !slices.Equal(rests, want) {
			t.Errorf("rests of %v, want %v", rests, want)
		}
		if len(turns) > 0 {
			t.Error("the reader takes a role that calls use")
		}
		<-turns // the calls have ended
		if r := rest(); r != ms {
			t.Errorf("the rest is %v after a turn of the reader, want the shortest", r)
		}
		stop()
	})
}

// TestReaderHandsRoleToParkedCall parks a call while the reader sleeps as the poller. The call
// becomes the poller when the reader wakes up.
func TestReaderHandsRoleToParkedCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, w := new(Poller), NewWaiter()
		p.Init(time.Millisecond, time.Millisecond)
		turns, stop := serve(p)
		<-turns
		synctest.Wait() // the reader sleeps
		if p.Park(&w, true) {
			t.Fatal("there are two pollers")
		}
		p.WakePoller()
		if <-w.C(); !w.HasRole() {
			t.Error("the call is not the poller")
		}
		p.Pass()
		stop()
	})
}

// TestReaderServesBlockedWaits parks a waiter that may not be the poller while calls use the
// role: the reader takes the role at once when it becomes free.
func TestReaderServesBlockedWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, w := new(Poller), NewWaiter()
		p.Init(time.Hour, time.Hour)
		turns, stop := serve(p)
		began := time.Now()
		p.Take()
		p.Park(&w, false)
		p.Pass()
		if took := (<-turns).Sub(began); took != 0 {
			t.Errorf("the reader takes the role after %v", took)
		}
		p.Wake(&w)
		<-w.C()
		stop()
	})
}

// TestServeEndsWithConnection closes over while the reader sleeps as the poller, and while a
// call is the poller: Serve returns.
func TestServeEndsWithConnection(t *testing.T) {
	for _, byCall := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var p Poller
			p.Init(time.Millisecond, time.Millisecond)
			turns, stop := serve(&p)
			if byCall {
				p.Take()
			} else {
				<-turns
				synctest.Wait()
			}
			stop()
			if byCall {
				p.Pass()
			} else if !p.Take() {
				t.Error("the role is not free after the end of the reader")
			}
		})
	}
}
