package server

import (
	"context"
	"errors"
	"testing"

	"lwio/internal/ratelimit"
	"lwio/internal/wire"
	"lwio/rdma"
)

// idleQueue has no results; who waits for some calls notify.
type idleQueue struct {
	rdma.CompletionQueue
	notify func()
}

func (q idleQueue) Poll([]rdma.Result) (int, error) { return 0, nil }

func (q idleQueue) Wait(ctx context.Context, _ rdma.NotifyKind) error {
	q.notify()
	return ctx.Err()
}

// A connection that is held back handles first what was polled together with the message
// that is too much, and keeps the other messages in their order.
//
// Source: [OP-58b]
func TestRateAndResultsOfOneBatch(t *testing.T) {
	c, _ := newFuzzConn(t)
	c.pace = ratelimit.NewLimiter(1, 0, 0)
	c.pace.Take(1<<20, 0)
	errSeen := errors.New("seen")
	c.cq = idleQueue{notify: func() { c.cut(errSeen) }}
	h := wire.NewInterrupt(1, 1)
	copy(c.buf, h.AppendTo(nil))
	message := func(slot uint64) rdma.Result {
		return rdma.Result{Op: rdma.OpReceive, ID: slot, Bytes: wire.HeaderSize}
	}
	c.late = []rdma.Result{message(3)}
	c.owing.Add(2)
	sent := rdma.Result{Op: rdma.OpSend, ID: resultID(idProgress, 1, 0, 0)}
	err := c.handleAll([]rdma.Result{message(0), sent, message(1), sent, message(2)})
	if !errors.Is(err, errSeen) || c.owing.Load() != 0 || c.settled.Load() != 2 {
		t.Errorf("%v, %d of 2 results were handled", err, c.settled.Load())
	}
	var kept []uint64
	for _, r := range c.late {
		kept = append(kept, r.ID)
	}
	if len(kept) != 3 || kept[0] != 1 || kept[1] != 2 || kept[2] != 3 {
		t.Errorf("kept messages %d", kept)
	}
}
