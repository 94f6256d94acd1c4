package stream

import (
	"context"
	"sync/atomic"
	"testing"
	"time"
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
func waitFor(p *progress, w *waiter) <-chan struct{} {
	w.init()
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.wait(w)
	}()
	return done
}

// TestSignalEndsWait has two calls wait: the first is the poller and sleeps. The signal of each
// ends its wait, whether the call is the poller, is parked, or has become the poller.
func TestSignalEndsWait(t *testing.T) {
	for _, firstEndsFirst := range []bool{true, false} {
		src, p := newFakeSource(), new(progress)
		p.init(src, 0)
		var first, second waiter
		firstDone := waitFor(p, &first)
		<-src.sleeping
		secondDone := waitFor(p, &second)
		if firstEndsFirst {
			p.signal(&first)
			<-firstDone
			<-src.sleeping // the second call is the poller
			p.signal(&second)
			<-secondDone
			continue
		}
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
}

// TestPollerPollsAgainAfterCompletions polls until there are no completions before it sleeps.
func TestPollerPollsAgainAfterCompletions(t *testing.T) {
	src := newFakeSource()
	src.pending.Store(3)
	var p progress
	p.init(src, 0)
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

// TestGoroutineOfStreamPolls has no call wait: the goroutine of the stream polls, hands the
// role to a call that claims it, takes it back later, and returns when the stream is over.
func TestGoroutineOfStreamPolls(t *testing.T) {
	src := newFakeSource()
	var p progress
	p.init(src, time.Hour) // a call claims the role, and does not sleep
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		p.attend(over)
	}()
	<-src.sleeping // the goroutine of the stream
	var w waiter
	polls := src.polls.Load()
	call := waitFor(&p, &w)
	until(t, "the call is the poller", func() bool { return src.polls.Load() > polls+1 })
	p.signal(&w)
	<-call
	<-src.sleeping // the goroutine of the stream again, after pollerIdle
	close(over)
	p.WakePoller()
	<-done
}
