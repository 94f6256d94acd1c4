package rdmaconn

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lwio/internal/client/base"
	"lwio/rdma"
)

func newLifecycle(onFail func()) *lifecycle {
	l := new(lifecycle)
	l.init("fake", onFail)
	return l
}

// The first failure is the error of the connection: it wraps the cause, and names the provider
// once.
func TestFirstFailureIsKept(t *testing.T) {
	for name, cause := range map[string]error{
		"connection lost: fake: the fake connection ended":                     errFake,
		"connection lost: fake: send: " + rdma.StatusConnectionAborted.Error(): &rdma.Error{Op: "fake: send", Status: rdma.StatusConnectionAborted},
	} {
		calls := 0
		l := newLifecycle(func() { calls++ })
		if l.IsDown() {
			t.Fatal("a new connection is down")
		}
		l.Fail(cause)
		l.Fail(errors.New("later"))
		if !l.IsDown() || !errors.Is(l.Err(), cause) || !base.IsLost(l.Err()) || calls != 1 {
			t.Errorf("%v after %d calls", l.Err(), calls)
		}
		if got := l.Err().Error(); got != name {
			t.Errorf("%q, want %q", got, name)
		}
		select {
		case <-l.Down():
		default:
			t.Error("Down is open")
		}
	}
}

// A connection that is down cannot be pinned. The teardown waits for pins and holds, and Hold waits
// for a teardown that has begun.
func TestTeardownWaitsForPins(t *testing.T) {
	l := newLifecycle(func() {})
	if err := l.Pin(); err != nil {
		t.Fatal(err)
	}
	l.Fail(errFake)
	if err := l.Pin(); !errors.Is(err, errFake) {
		t.Errorf("pinned: %v", err)
	}
	l.Hold()
	var freed atomic.Bool
	begun := make(chan struct{})
	go func() {
		close(begun)
		l.mu.Lock()
		freed.Store(true)
		l.mu.Unlock()
		close(l.gone)
	}()
	<-begun
	for l.mu.TryRLock() { // until the teardown waits for its lock
		l.mu.RUnlock()
		time.Sleep(time.Millisecond)
	}
	pinned := make(chan error, 1)
	go func() { pinned <- l.Pin() }()
	select {
	case err := <-pinned:
		if !errors.Is(err, errFake) {
			t.Errorf("pinned during the teardown: %v", err)
		}
	case <-time.After(waitLimit):
		t.Error("Pin waits for the teardown, which waits for Hold")
	}
	l.Unpin()
	if freed.Load() || l.isGone() {
		t.Error("the teardown did not wait for Hold")
	}
	l.Unpin()
	l.Hold()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	if err := l.TornDown(ctx); err != nil || !freed.Load() || !l.isGone() {
		t.Errorf("freed %v, %v", freed.Load(), err)
	}
	l.Unpin()
}

// TornDown ends with its context.
func TestTornDownEndsWithContext(t *testing.T) {
	l := newLifecycle(func() {})
	l.Fail(errFake)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errFake)
	if err := l.TornDown(ctx); !errors.Is(err, errFake) {
		t.Error(err)
	}
}

// Each watcher is notified of the end, even if it is added while the connection fails. A
// removed watcher is not.
func TestWatchersAreNotified(t *testing.T) {
	for range 100 {
		l := newLifecycle(func() {})
		var list [4]Arrivals
		var removed Arrivals
		l.watch(&removed)
		l.watchers.remove(&removed)
		var all sync.WaitGroup
		for i := range list {
			all.Go(func() { l.watch(&list[i]) })
		}
		all.Go(func() { l.Fail(errFake) })
		all.Wait()
		for i := range list {
			if !list[i].failed.Load() || !list[i].Ready() {
				t.Fatalf("watcher %d was not notified", i)
			}
		}
		if removed.failed.Load() {
			t.Fatal("a watcher was notified that had been removed")
		}
	}
}

// DelegatePolling of a connection that is down reports the loss to the goroutine that waits.
func TestDelegatePollingOfLostConnection(t *testing.T) {
	c, _ := newFake(2, base.Interrupt, 0)
	var a Arrivals
	a.need.Store(1)
	if err := c.DelegatePolling(&a); err != nil || a.Ready() {
		t.Fatalf("%v, ready %v", err, a.Ready())
	}
	c.EndDelegation(&a)
	c.Fail(errFake)
	if a.Ready() {
		t.Error("notified after the end of the delegation")
	}
	if err := c.DelegatePolling(&a); !errors.Is(err, errFake) || !a.Ready() {
		t.Errorf("%v, ready %v", err, a.Ready())
	}
	if a.SeeFailure(); a.Ready() {
		t.Error("the failure is not forgotten")
	}
}
