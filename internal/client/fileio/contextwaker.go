package fileio

import (
	"context"

	"lwio/internal/client/rdmaconn"
)

// contextWaker wakes the poller of one connection when a context ends. The zero value wakes nothing.
// It belongs to the goroutine of the queue.
type contextWaker struct {
	done <-chan struct{} // of the context, or nil
	conn *rdmaconn.Conn
	stop func() bool
}

// set wakes the poller of c when ctx ends, in place of the earlier context and connection. Calls with
// the same arguments cost nothing: to set another pair allocates.
func (w *contextWaker) set(ctx context.Context, c *rdmaconn.Conn) {
	if w.done == ctx.Done() && w.conn == c {
		return
	}
	w.clear()
	w.done, w.conn = ctx.Done(), c
	if w.done != nil {
		w.stop = c.WakeOn(ctx)
	}
}

// clear wakes nothing from now on.
func (w *contextWaker) clear() {
	if w.stop != nil {
		w.stop()
	}
	*w = contextWaker{}
}
