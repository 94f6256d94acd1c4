package softrdma

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"time"
)

// LongAgo is a deadline that ends every wait for a socket.
var LongAgo = time.Unix(1, 0)

// Exchange calls do, which reads from nc or writes to it during a start-up. The end of ctx
// ends the waits of do with os.ErrDeadlineExceeded. If do succeeds though ctx has ended, the
// error is the cause of ctx. After a success nc has no deadlines. The caller sets the
// deadlines of nc before.
func Exchange(ctx context.Context, nc net.Conn, do func() error) error {
	stop := context.AfterFunc(ctx, func() { _ = nc.SetDeadline(LongAgo) })
	err := do()
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		err = nc.SetDeadline(time.Time{})
	}
	return err
}

// IsHangup reports whether an error of a socket means that the peer has closed it.
func IsHangup(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
