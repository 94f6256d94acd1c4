package stream

import (
	"context"
	"sync/atomic"
	"testing"
)

// fakeSource is a source whose completions the test adds.
type fakeSource struct {
	pending  atomic.Int64
	polls    atomic.Int64
	sleeping chan struct{} // receives an element when the poller sleeps
	wake     chan struct{} // ends one sleep
}

func newFakeSource() *fakeSource {
	return &fakeSource{sleeping: make(chan struct{}, 64), wake: make(chan struct{}, 64)}
}

func (s *fakeSource) poll() int {
	s.polls.Add(1)
	return int(s.pending.Swap(0))
}

func (s *fakeSource) sleep(ctx context.Context) {
	s.sleeping <- struct{}{}
	select {
	case <-ctx.Done():
	case <-s.wake:
	}
}

// waitFor starts a call that waits, and returns a channel that is closed when it returns.
func waitFor(p *poller, w *waiter) <-chan struct{} {
	w.init()
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.wait(w)
	}()
	return done
}

// pollAndPark starts two calls: the first is the poller and sleeps, the second is parked.
func pollAndPark(t *testing.T, p *poller, src *fakeSource, first, second *waiter) (firstDone, secondDone <-chan struct{}) {
	t.Helper()
	firstDone = waitFor(p, first)
	<-src.sleeping
	secondDone = waitFor(p, second)
	until(t, "the second call parks", func() bool { return p.parkedWaiters() == 1 })
	return firstDone, secondDone
}

// parkedWaiters returns the number of parked calls.
func (p *poller) parkedWaiters() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.queue)
}

// TestPollerPassesRoleToParkedCall has two calls wait: the first is the poller and sleeps, the
// second parks, and becomes the poller when the first returns.
func TestPollerPassesRoleToParkedCall(t *testing.T) {
	src, p := newFakeSource(), new(poller)
	p.init(src, 0)
	defer p.stop()
	var first, second waiter
	firstDone, secondDone := pollAndPark(t, p, src, &first, &second)
	p.signal(&first)
	<-firstDone
	<-src.sleeping // of the second call
	p.signal(&second)
	<-secondDone
	if p.parkedWaiters() != 0 || !p.takeIdle() {
		t.Error("the role is not free after the last call")
	}
}

// TestPollerWakesParkedCall signals a parked call, which returns while the poller goes on.
func TestPollerWakesParkedCall(t *testing.T) {
	src, p := newFakeSource(), new(poller)
	p.init(src, 0)
	defer p.stop()
	var first, second waiter
	firstDone, secondDone := pollAndPark(t, p, src, &first, &second)
	p.signal(&second)
	<-secondDone
	select {
	case <-firstDone:
		t.Error("the poller has returned without a signal")
	default:
	}
	p.signal(&first)
	<-firstDone
}

// TestPollerPollsAgainAfterCompletions polls until there are no completions before it sleeps.
func TestPollerPollsAgainAfterCompletions(t *testing.T) {
	src := newFakeSource()
	src.pending.Store(3)
	var p poller
	p.init(src, 0)
	defer p.stop()
	var w waiter
	done := waitFor(&p, &w)
	<-src.sleeping
	if n := src.polls.Load(); n != 2 {
		t.Errorf("%d polls before the sleep, want 2", n)
	}
	src.wake <- struct{}{}
	<-src.sleeping
	if n := src.polls.Load(); n != 3 {
		t.Errorf("%d polls before the second sleep, want 3", n)
	}
	p.signal(&w)
	<-done
}

// TestIdleGoroutinePolls has no call wait: the goroutine of the stream polls, hands the role
// to a call that comes, and returns when the stream is over.
func TestIdleGoroutinePolls(t *testing.T) {
	src := newFakeSource()
	var p poller
	p.init(src, 0)
	defer p.stop()
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		p.attend(over)
	}()
	<-src.sleeping // the goroutine of the stream
	p.claim()
	until(t, "the role is free", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return !p.held
	})
	var w waiter
	call := waitFor(&p, &w)
	<-src.sleeping
	p.signal(&w)
	<-call
	<-src.sleeping // the goroutine of the stream again, after pollerIdle
	close(over)
	p.signal(&p.idler)
	<-done
}
