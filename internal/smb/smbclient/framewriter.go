package smbclient

import (
	"context"
	"net"
	"time"
)

// cancelGrace bounds the rest of a write whose context has ended, before the connection is
// cut: a partly written message cannot be cancelled. It also bounds the cancellation of a
// lock.
const cancelGrace = 2 * time.Second

// frameWriter writes messages to a connection. The goroutine that has the turn writes.
type frameWriter struct {
	nc      net.Conn
	timeout time.Duration
	end     *ending
	turn    chan struct{} // holds one token
}

func newFrameWriter(nc net.Conn, timeout time.Duration, end *ending) frameWriter {
	w := frameWriter{nc: nc, timeout: timeout, end: end, turn: make(chan struct{}, 1)}
	w.turn <- struct{}{}
	return w
}

// acquire waits for the turn to write. Only its holder takes message ids: a gap between ids
// would cost credits until the connection ends.
//
// Errors: the error of ctx; the end of the connection.
func (w *frameWriter) acquire(ctx context.Context) error {
	select {
	case <-w.turn:
		return nil
	default:
	}
	select {
	case <-w.turn:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-w.end.down:
		return w.end.cause()
	}
}

// release passes the turn on.
func (w *frameWriter) release() { w.turn <- struct{}{} }

// write writes a message and returns the number of bytes that were written. If ctx ends during
// the write, the rest has cancelGrace. After an error the connection cannot be used, because the
// server cannot find the next message. Precondition: the caller has the turn.
func (w *frameWriter) write(ctx context.Context, b []byte) (int, error) {
	if err := w.nc.SetWriteDeadline(time.Now().Add(w.timeout)); err != nil {
		return 0, err
	}
	defer w.limit(ctx)()
	return w.nc.Write(b)
}

// limit gives a Write cancelGrace to finish after ctx has ended, until stop is called.
func (w *frameWriter) limit(ctx context.Context) (stop func()) {
	if ctx.Done() == nil {
		return func() {}
	}
	done := make(chan struct{})
	prevent := context.AfterFunc(ctx, func() {
		_ = w.nc.SetWriteDeadline(time.Now().Add(cancelGrace)) // Write returns the error
		close(done)
	})
	return func() {
		if !prevent() {
			<-done // later it would limit the next message
		}
	}
}
