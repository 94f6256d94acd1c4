package rdmaconn

import (
	"context"
	"errors"
	"testing"

	"lwio/internal/client/barrier"
	"lwio/internal/client/base"
	"lwio/internal/wire"
)

// A request that is given up keeps its credit until the server has answered, and CANCEL is sent
// once no operation waits for I/O of the file.
//
// Source: [LWIO §Cancel], [OP-66], [OP-94a], [OP-113]
func TestGiveUpKeepsCredit(t *testing.T) {
	c, pair := newFake(4, base.Interrupt, 0)
	first, second := postRead(t, c, 1), postRead(t, c, 1)
	reads := pair.sent()
	giveUp := func(o *fakeOperation) {
		t.Helper()
		if !c.GiveUp(&o.Ticket) || o.InFlight() || o.abandoned != 1 {
			t.Fatalf("in flight %v, abandoned %d times", o.InFlight(), o.abandoned)
		}
		c.Cancel(5)
	}
	giveUp(first)
	if list := pair.sent(); len(list) != 0 || freeRequestsOf(c) != 2 {
		t.Fatalf("%d messages while an operation waits, %d free", len(list), freeRequestsOf(c))
	}
	giveUp(second)
	cancels := pair.sent()
	if len(cancels) != 1 || cancels[0].Opcode != wire.OpCancel || cancels[0].Fid != 5 || freeRequestsOf(c) != 1 {
		t.Fatalf("%+v, %d free", cancels, freeRequestsOf(c))
	}
	c.Cancel(5)
	if len(pair.sent()) != 0 {
		t.Error("CANCEL is sent again for the same requests")
	}
	for _, h := range append(reads, cancels...) {
		answer(t, c, messageFor(h, 0, 0))
	}
	if freeRequestsOf(c) != 4 || first.answers+second.answers != 0 {
		t.Errorf("%d free, %d answers after the operations had left", freeRequestsOf(c), first.answers+second.answers)
	}
}

// Without a free credit CANCEL waits for the next one, and comes before new requests.
//
// Source: [OP-68]
func TestCancelWaitsForCredit(t *testing.T) {
	c, pair := newFake(2, base.Interrupt, 0)
	first, second := postRead(t, c, 1), postRead(t, c, 1)
	reads := pair.sent()
	if !c.GiveUp(&first.Ticket) {
		t.Fatal("not given up")
	}
	c.Cancel(5)
	answer(t, c, messageFor(reads[1], 1, 0))
	if list := pair.sent(); len(list) != 1 || list[0].Opcode != wire.OpCancel || second.answers != 1 || freeRequestsOf(c) != 0 {
		t.Fatalf("%+v, %d free", list, freeRequestsOf(c))
	}
}

// A request that came back cannot be given up, nor taken back: its answer counts.
func TestGiveUpAfterAnswer(t *testing.T) {
	c, pair := newFake(2, base.Interrupt, 0)
	o := postRead(t, c, 1)
	answer(t, c, messageFor(pair.sent()[0], 1, 0))
	if c.GiveUp(&o.Ticket) {
		t.Error("given up")
	}
	if _, ok := c.TakeBack(&o.Ticket); ok {
		t.Error("taken back")
	}
	if came, n := o.To.Take(); came != &o.Ticket || n != 1 || o.InFlight() {
		t.Error("it did not come back")
	}
}

// An answer against the protocol ends its request before the connection is down. A file call that is given up in between
// is over when the connection is torn down, and the wait for it ends.
//
// Source: [OP-113], [OP-116]
func TestGiveUpOfDeadRequest(t *testing.T) {
	c, _ := newFake(2, base.Interrupt, 0)
	var inFlight barrier.Barrier
	o := &FileCall{Header: wire.NewLock(5, wire.FileLock{Length: 1}, false), Epoch: inFlight.Begin()}
	ctx, cancel := context.WithCancel(t.Context())
	set := c.TakeCredits(1)
	s := c.NextCredit(&set)
	o.prepare(ctx, c, s)
	c.Post(o.list[:], true)
	s.kill()
	cancel()
	if err := o.collect(ctx); !errors.Is(err, context.Canceled) || c.IsDown() {
		t.Fatalf("%v", err)
	}
	if o.Epoch != nil || !inFlight.Pending() {
		t.Error("nothing waits for the end of the connection")
	}
	s.drop() // as the teardown does
	if inFlight.Pending() {
		t.Error("the call is in flight on a connection that is torn down")
	}
}

// CloseFid cancels also requests that an operation waits for.
//
// Source: [LWIO §Close], [OP-94e]
func TestCloseFidCancelsAll(t *testing.T) {
	c, pair := newFake(4, base.Interrupt, 0)
	o := postRead(t, c, 1)
	pair.sent()
	c.CloseFid(5)
	list := pair.sent()
	if len(list) != 2 || list[0].Opcode != wire.OpCancel || list[1].Opcode != wire.OpClose || list[1].Fid != 5 {
		t.Fatalf("%+v", list)
	}
	if !o.InFlight() || o.abandoned != 0 {
		t.Error("the operation does not wait any more")
	}
	c.CloseFid(6) // no I/O, and so no CANCEL
	if list := pair.sent(); len(list) != 1 || list[0].Opcode != wire.OpClose {
		t.Fatalf("%+v", list)
	}
}

// The watchdog ends the wait for a request after the timeout, and the connection after twice the
// timeout. It leaves an operation with a deadline of its own alone until that is given up.
//
// Source: [OP-110], [OP-113]
func TestWatchdogEndsWaits(t *testing.T) {
	c, _ := newFake(4, base.Interrupt, 0)
	o, timed := postRead(t, c, 1), postRead(t, c, 1)
	timed.request.timed = true
	timed.request.tick.Store(untimed)
	for i := range WatchParts + 1 {
		if o.answers != 0 {
			t.Fatalf("expired after %d ticks", i)
		}
		c.Watch()
	}
	if came, _ := o.To.Take(); came != &o.Ticket || !errors.Is(o.err, ErrTimeout) || o.abandoned != 1 || timed.answers != 0 {
		t.Fatalf("%v, abandoned %d times", o.err, o.abandoned)
	}
	if freeRequestsOf(c) != 2 {
		t.Error("the credit came back without an answer")
	}
	for range WatchParts {
		c.Watch()
	}
	if !c.IsDown() {
		t.Error("the connection lives with a request that was never answered")
	}
}

// A request that is given up is watched, though the operation had a deadline of its own.
//
// Source: [OP-113]
func TestWatchdogWatchesGivenUpRequests(t *testing.T) {
	c, _ := newFake(4, base.Interrupt, 0)
	o := newOperation(new(Arrivals), aRead)
	set := c.TakeCredits(1)
	o.Prepare(c.NextCredit(&set), IO{Bytes: 1, Timed: true})
	c.Post([]*Ticket{&o.Ticket}, false)
	for range 3 * WatchParts {
		c.Watch()
	}
	if c.IsDown() || !c.GiveUp(&o.Ticket) {
		t.Fatal("the request did not have its own deadline")
	}
	for range 2*WatchParts + 1 {
		c.Watch()
	}
	if !c.IsDown() {
		t.Error("the connection lives with a request that was never answered")
	}
}

// An operation has its error before its request can be used again: a goroutine that finds the
// request free, or in use by another operation, takes it for one that came back.
//
// Source: [OP-113]
func TestExpiredHasItsErrorFirst(t *testing.T) {
	c, pair := newFake(2, base.Interrupt, 0)
	o := postRead(t, c, 1)
	read, s := pair.sent()[0], o.request
	for range WatchParts {
		c.Watch()
	}
	c.credits.mu.Lock() // in the way of CANCEL
	over := make(chan struct{})
	go func() {
		defer close(over)
		c.Watch()
	}()
	waitFor(t, c, func() bool { return s.load().state() == requestAbandoned })
	answer(t, c, messageFor(read, 1, 0))
	if c.GiveUp(&o.Ticket) || !errors.Is(o.err, ErrTimeout) {
		t.Errorf("%v", o.err)
	}
	c.credits.mu.Unlock()
	<-over
	if came, n := o.To.Take(); came != &o.Ticket || n != 1 {
		t.Error("it did not come back")
	}
}
