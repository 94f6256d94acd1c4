package rdmaconn

import (
	"context"
	"sync/atomic"
	"time"

	"lwio/rdma"
)

// Post sends the requests of tickets that were prepared. The headers are made by Message.
// Each ticket comes back by its Arrivals. call says that they belong to a blocking call,
// which waits for them next: calls that run at the same time then share a post.
// Precondition: the caller holds up the teardown until it has waited, and has counted the
// requests with AddPending.
//
// Source: [LWIO §I/O Processing], [LWIO claim 22]
func (c *Conn) Post(list []*Ticket, call bool) { c.send.postAll(list, call, c.count.now()) }

// AddPending counts n requests more as in flight or queued. The number is a hint for the server
// in every header.
func (c *Conn) AddPending(n int) { c.count.pending.Add(int64(n)) }

// Pending is how many requests are in flight or queued.
func (c *Conn) Pending() int { return int(c.count.pending.Load()) }

// UnansweredWrites is how many writes were sent and not answered.
func (c *Conn) UnansweredWrites() int { return int(c.count.unanswered.Load()) }

// Used reports whether a read or write was ever answered.
func (c *Conn) Used() bool { return c.count.seen.Load() > 0 }

// Credits returns how many messages the server allows in flight, and how many more may be sent
// now.
func (c *Conn) Credits() (granted, free int) { return c.credits.current(), c.table.free.size() }

// maxBehind is how many messages ago a write may have been sent for the first time that is sent
// again: its Sequence has 16 bits. [OP-112]
const maxBehind = 1<<15 - 1

// maxFarBehind is maxBehind for writes of connections before the last one: of these the server
// forgets the oldest outcomes when there are many. [OP-112]
const maxFarBehind = 512

// TooOld reports whether a message was sent too long ago to be sent again. The limits leave room
// for the messages that other goroutines send meanwhile.
func (c *Conn) TooOld(number uint64) bool {
	behind := c.send.nextNumber() - number
	return behind > maxBehind || number < c.priorFirst && behind > maxFarBehind
}

// busyPolls is how often a call looks for its own answer, for a few microseconds, before it waits
// as the others do.
const busyPolls = 1000

// BusyPoll busy-polls for the answer to t, if t is the only request in flight and the server
// writes the status block without help of this side. It reports whether the answer came; then t
// has the answer and is not in flight any more. A single call does not take the poller role. With
// GOMAXPROCS=1 a call busy-polls only in mode Polling or when recent answers were fast, because
// the server may need the processor.
//
// Source: [LWIO §I/O Processing]
func (c *Conn) BusyPoll(t *Ticket) bool {
	if !c.info.Caps.Has(rdma.CapDirectAlloc) || t.request == nil || !t.polled || c.count.inFlight() != 1 {
		return false
	}
	if c.progress.single.Load() && t.pace != nil && !t.pace.isPrompt() {
		return false
	}
	var apart atomic.Uint32
	for range busyPolls {
		if ios, came := c.answers.takeOwn(t); came {
			s := t.request
			t.Owner.Deliver(s.bounce, ios)
			t.Owner.Answer(ios, nil)
			t.request = nil
			c.credits.release(s)
			return true
		}
		// The processor begins the loads of the next turns before this turn is over, and has to
		// undo them when the answer comes. The atomic addition prevents that.
		apart.Add(1)
	}
	return false
}

// DelegatePolling has other goroutines deliver the answers of this connection, while the goroutine
// of a waits on another one. a is notified if the connection ends. EndDelegation follows, unless
// the connection is down already.
//
// Errors: the error of the connection.
func (c *Conn) DelegatePolling(a *Arrivals) error {
	c.watch(a)
	if err := c.Pin(); err != nil {
		c.watchers.remove(a)
		a.failed.Store(true) // the failure may have come before the watch
		return err
	}
	c.progress.require()
	return nil
}

// EndDelegation ends DelegatePolling.
func (c *Conn) EndDelegation(a *Arrivals) {
	c.watchers.remove(a)
	c.progress.poller.Unblock()
	c.Unpin()
}

// WakeOn lets the end of ctx end the sleep of the poller, until stop is called.
func (c *Conn) WakeOn(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, c.progress.poller.WakePoller)
}

// Age is the time since the connection was made.
func (c *Conn) Age() time.Duration { return time.Since(c.count.born) }

// PollForOthers has the answers of this connection delivered though the caller does not wait for
// them. Precondition: the caller has pinned the connection.
func (c *Conn) PollForOthers() { c.progress.armIfAsleep() }

// RequirePoller has the answers of this connection delivered while the caller waits for their effects
// elsewhere. The caller calls ReleasePoller after true. False says that the connection is down.
func (c *Conn) RequirePoller() bool {
	if c.Pin() != nil {
		return false
	}
	defer c.Unpin()
	c.progress.require()
	return true
}

// ReleasePoller ends RequirePoller. The connection may be down.
func (c *Conn) ReleasePoller() { c.progress.poller.Unblock() }
