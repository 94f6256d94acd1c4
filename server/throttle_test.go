package server

import (
	"context"
	"errors"
	"testing"

	"lwio/internal/ratelimit"
	"lwio/internal/wire"
	"lwio/rdma"
)

// idleQueue has no completions; a wait for one calls notify.
type idleQueue struct {
	rdma.CompletionQueue
	notify func()
}

func (q idleQueue) Poll([]rdma.Result) (int, error) { return 0, nil }

func (q idleQueue) Wait(ctx context.Context, _ rdma.NotifyKind) error {
	q.notify()
	return ctx.Err()
}

// A connection that is throttled first handles the completions polled together with the message
// that exceeds the limit, and defers the other messages in their order.
//
// Source: [OP-58b]
func TestThrottleHandlesRestOfBatchFirst(t *testing.T) {
	c, _ := newFuzzConn(t)
	c.auth.limiter = ratelimit.NewLimiter(1, 0, 0)
	c.auth.limiter.Take(1<<20, 0)
	errSeen := errors.New("seen")
	c.loop.cq = idleQueue{notify: func() { c.cut(errSeen) }}
	h := by(wire.NewInterrupt(1), completion{Cookie: 1})
	copy(c.receives.mem, h.AppendTo(nil))
	message := func(entry uint64) rdma.Result {
		return rdma.Result{Op: rdma.OpReceive, ID: entry, Bytes: wire.HeaderSize}
	}
	c.loop.deferred = []rdma.Result{message(3)}
	c.send.inUse.Add(2)
	sent := rdma.Result{Op: rdma.OpSend, ID: requestID(idProgress, 1, 0, 0)}
	err := c.loop.handleAll([]rdma.Result{message(0), sent, message(1), sent, message(2)})
	if !errors.Is(err, errSeen) || c.send.inUse.Load() != 0 || c.send.completed.Load() != 2 {
		t.Errorf("%v, %d of 2 results were handled", err, c.send.completed.Load())
	}
	var kept []uint64
	for _, r := range c.loop.deferred {
		kept = append(kept, r.ID)
	}
	if len(kept) != 3 || kept[0] != 1 || kept[1] != 2 || kept[2] != 3 {
		t.Errorf("kept messages %d", kept)
	}
}
