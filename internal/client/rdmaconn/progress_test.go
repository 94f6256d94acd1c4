package rdmaconn

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"lwio/internal/client/base"
	"lwio/internal/wire"
	"lwio/rdma"
)

// fakeQueue is a completion queue without completions.
type fakeQueue struct {
	rdma.CompletionQueue
	onPoll func()
	waits  atomic.Int64
}

func (q *fakeQueue) Poll([]rdma.Result) (int, error) {
	if q.onPoll != nil {
		q.onPoll()
	}
	return 0, nil
}

func (q *fakeQueue) Wait(ctx context.Context, _ rdma.NotifyKind) error {
	q.waits.Add(1)
	<-ctx.Done()
	return ctx.Err()
}

// newProgress makes a connection in mode Polling with a completion queue, and starts its reader.
// The reader takes the role only if it is summoned, after the timer that newFake began has run out.
func newProgress(t *testing.T, q *fakeQueue) *Conn {
	t.Helper()
	c, _ := newFake(8, base.Polling, 0)
	c.progress.cq = q
	c.progress.poller.Init(time.Hour, time.Hour)
	c.progress.begin()
	t.Cleanup(func() {
		c.lifecycle.Fail(errors.New("the test is over"))
		c.progress.reading.Wait()
	})
	return c
}

// In mode Polling the reader busy-polls for a call that cannot be the poller: the answer comes
// without a sleep and without an INTERRUPT. The reader leaves the role free after the last answer.
func TestReaderBusyPollsForWaitingCall(t *testing.T) {
	q := new(fakeQueue)
	var answered atomic.Pointer[Request]
	var looks atomic.Int64
	q.onPoll = func() {
		// The third look comes before the reader looks at the time. So it is never too late.
		if s := answered.Load(); s != nil && looks.Add(1) == 3 {
			s.block.Store(0)
		}
	}
	c := newProgress(t, q)
	p := &c.progress
	waitFor(t, c, func() bool {
		p.poller.Claim()
		return p.poller.Take()
	})
	q.waits.Store(0)
	for range 100 {
		looks.Store(0)
		o := postRead(t, c, 1)
		place, over := NewPlace(c), make(chan struct{})
		o.To.SleepAt(&place, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			defer close(over)
			c.Await(ctx, &place, o.To, false)
		}()
		waitFor(t, c, p.poller.NeedsReader)
		answered.Store(o.request)
		p.poller.Pass() // to the reader
		waitFor(t, c, func() bool { return ended(over) || q.waits.Load() > 0 })
		cancel()
		<-over
		if o.answers != 1 || o.ios.Status != 0 {
			t.Fatalf("%d answers, status %#x, %d sleeps", o.answers, o.ios.Status, q.waits.Load())
		}
		answered.Store(nil)
		o.To.Take()
		waitFor(t, c, func() bool { return p.poller.Take() || q.waits.Load() > 0 })
		if n := q.waits.Load(); n > 0 {
			t.Fatalf("the reader keeps the role, and sleeps")
		}
	}
	p.poller.Pass()
	if h := c.send.qp.(*fakePair).sent(); len(h) != 100 || h[0].Opcode != wire.OpRead {
		t.Errorf("%d messages", len(h))
	}
}
