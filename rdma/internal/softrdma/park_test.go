package softrdma

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lwio/rdma"
)

// fakeParker parks on a channel.
type fakeParker struct {
	fakePair
	parked atomic.Int32 // calls of Park in progress
	parks  chan struct{}
	wakes  chan struct{}
	off    atomic.Bool
	before func() // called at the beginning of Park
}

func newParker(q *CompletionQueue) *fakeParker {
	return &fakeParker{fakePair: fakePair{q: q}, parks: make(chan struct{}, 64), wakes: make(chan struct{}, 1)}
}

func (p *fakeParker) Park(over func() bool) bool {
	if p.off.Load() {
		return false
	}
	if p.before != nil {
		p.before()
	}
	p.parked.Add(1)
	defer p.parked.Add(-1)
	p.parks <- struct{}{}
	if !over() {
		<-p.wakes
	}
	return true
}

func (p *fakeParker) Unpark() {
	if p.parked.Load() == 0 {
		return
	}
	select {
	case p.wakes <- struct{}{}:
	default:
	}
}

// A Wait on a queue of one connection sleeps in Park until any goroutine pushes a result.
// Spurious wake-ups do not end it.
//
// Source: [ND CompletionQueue.Notify]
func TestWaitSleepsInTheOnlyParker(t *testing.T) {
	q := newQueue(t, 8)
	p := newParker(q)
	if !q.Attach(p) {
		t.Fatal("refused")
	}
	for range 3 {
		n := startNotify(t, q, rdma.NotifyAny)
		<-p.parks
		p.Unpark()
		<-p.parks
		if q.Sleepers() != 0 || p.sleeps != 0 {
			t.Error("a parked Wait counts as a sleeper")
		}
		q.Push([]rdma.Result{plainResult})
		if err := <-n.done; err != nil {
			t.Fatal(err)
		}
		var res [2]rdma.Result
		if n, err := q.Poll(res[:]); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	if p.parked.Load() != 0 {
		t.Error("a Park is still in progress")
	}
}

// A context, and the close of the queue, end a parked Wait.
func TestContextAndCloseEndAPark(t *testing.T) {
	q := newQueue(t, 8)
	p := newParker(q)
	q.Attach(p)
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- q.Wait(ctx, rdma.NotifyAny) }()
		<-p.parks
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) || !errors.Is(err, rdma.StatusCanceled) {
			t.Errorf("canceled: %v", err)
		}
	}
	n := startNotify(t, q, rdma.NotifyAny)
	<-p.parks
	q.Close()
	if err := <-n.done; !errors.Is(err, rdma.StatusCanceled) {
		t.Errorf("closed: %v", err)
	}
}

// refuser refuses to park, and calls a function while it refuses.
type refuser struct {
	fakePair
	meanwhile func()
}

func (p *refuser) Park(func() bool) bool {
	p.meanwhile()
	return false
}

func (p *refuser) Unpark() {}

// A result ends a Wait that cannot park, both while the Wait tries to park and while it
// waits on its channel.
//
// Source: [ND CompletionQueue.Notify]
func TestResultEndsWaitThatCannotPark(t *testing.T) {
	q := newQueue(t, 8)
	p := &refuser{fakePair: fakePair{q: q}, meanwhile: func() { q.Push([]rdma.Result{plainResult}) }}
	if !q.Attach(p) {
		t.Fatal("refused")
	}
	if err := q.Wait(t.Context(), rdma.NotifyAny); err != nil {
		t.Fatal(err)
	}
	p.meanwhile = func() {}
	n := startNotify(t, q, rdma.NotifyAny)
	for q.Sleepers() == 0 {
		runtime.Gosched()
	}
	q.Push([]rdma.Result{plainResult})
	if err := <-n.done; err != nil {
		t.Fatal(err)
	}
	var res [4]rdma.Result
	if n, err := q.Poll(res[:]); n != 2 || err != nil {
		t.Fatal(n, err)
	}
}

// An event that ends a wait immediately before its caller parks is not missed.
//
// Source: [ND CompletionQueue.Notify]
func TestUnparkBeforeParkIsNotMissed(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(q *CompletionQueue, cancel func())
		want error
	}{
		"result":  {func(q *CompletionQueue, _ func()) { q.Push([]rdma.Result{plainResult}) }, nil},
		"context": {func(_ *CompletionQueue, cancel func()) { cancel() }, context.Canceled},
		"close":   {func(q *CompletionQueue, _ func()) { q.Close() }, rdma.StatusCanceled},
	} {
		t.Run(name, func(t *testing.T) {
			q := newQueue(t, 8)
			p := newParker(q)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			p.before = func() { c.end(q, cancel) }
			q.Attach(p)
			if err := q.Wait(ctx, rdma.NotifyAny); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

// foreignContext is a context that is not of package context.
type foreignContext struct {
	context.Context
	done    chan struct{}
	watched atomic.Int32
}

func (c *foreignContext) Done() <-chan struct{} { return c.done }

func (c *foreignContext) AfterFunc(func()) (stop func() bool) {
	c.watched.Add(1)
	return func() bool { c.watched.Add(-1); return true }
}

// A context is watched while waits use it. The watch ends some time after the last use,
// and when the queue is closed.
func TestUnusedWatchEnds(t *testing.T) {
	for name, end := range map[string]func(q *CompletionQueue){
		"idle":  func(*CompletionQueue) { time.Sleep(3 * watchTime) },
		"close": func(q *CompletionQueue) { q.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue(t, 8)
				p := newParker(q)
				q.Attach(p)
				ctx := &foreignContext{Context: context.Background(), done: make(chan struct{})}
				p.before = func() { q.Push([]rdma.Result{plainResult}) }
				for range 8 {
					if err := q.Wait(ctx, rdma.NotifyAny); err != nil || ctx.watched.Load() != 1 {
						t.Fatal(err, ctx.watched.Load())
					}
					var res [1]rdma.Result
					_, _ = q.Poll(res[:])
					time.Sleep(watchTime / 2)
				}
				end(q)
				if n := ctx.watched.Load(); n != 0 {
					t.Error("watched still: ", n)
				}
			})
		})
	}
}

// Three waits sleep without parking: a second waiter, a waiter whose connection refuses,
// and a waiter of two connections.
func TestOnlyOneWaiterParks(t *testing.T) {
	q := newQueue(t, 8)
	p := newParker(q)
	q.Attach(p)
	startNotify(t, q, rdma.NotifyErrors) // it needs no connection
	first := startNotify(t, q, rdma.NotifyAny)
	<-p.parks
	second := startNotify(t, q, rdma.NotifyAny)
	eventuallySleepers(t, q, 1)
	if p.parked.Load() != 1 {
		t.Error("two park")
	}
	q.Push([]rdma.Result{plainResult})
	if err := errors.Join(<-first.done, <-second.done); err != nil {
		t.Fatal(err)
	}
	var res [2]rdma.Result
	_, _ = q.Poll(res[:])

	p.off.Store(true)
	n := startNotify(t, q, rdma.NotifyAny)
	eventuallySleepers(t, q, 1)
	q.Push([]rdma.Result{plainResult})
	if err := <-n.done; err != nil {
		t.Fatal(err)
	}
	_, _ = q.Poll(res[:])

	p.off.Store(false)
	q.Attach(newParker(q))
	n = startNotify(t, q, rdma.NotifyAny)
	eventuallySleepers(t, q, 1)
	q.Push([]rdma.Result{plainResult})
	if err := <-n.done; err != nil {
		t.Fatal(err)
	}
}

func eventuallySleepers(t *testing.T, q *CompletionQueue, n int) {
	t.Helper()
	for end := time.Now().Add(testTimeout); q.Sleepers() != n; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("no Wait sleeps")
		}
	}
}
