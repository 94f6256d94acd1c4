package rping

import (
	"context"
	"fmt"
	"time"

	"lwio/rdma"
)

// ClientConfig describes the rounds of a client.
type ClientConfig struct {
	// Sizes are the bytes of each round, 1 to MaxSize, one round after another on
	// one connection.
	Sizes []int
	// Pause is the wait between the handshake and the first message: a Linux server may
	// miss an early message.
	Pause time.Duration
	// PrivateData is sent with the connection request.
	PrivateData []byte
}

// Client connects to a server and pings it. Only the last byte of every round is zero: the
// C server echoes up to the first zero.
//
// Errors: ErrMismatch; the errors of rdma.Dial; the end of the connection.
func Client(ctx context.Context, a rdma.Adapter, server rdma.Addr, cfg ClientConfig) error {
	e, err := newEnd(ctx, a)
	if err != nil {
		return err
	}
	defer e.Close()
	c, err := rdma.Dial(ctx, a, e.QP, server, rdma.DialConfig{
		Limits:      rdma.ReadLimits{Inbound: 1, Outbound: 1},
		PrivateData: cfg.PrivateData,
	})
	if err != nil {
		return err
	}
	defer c.Close()
	select {
	case <-time.After(cfg.Pause):
	case <-ctx.Done():
		return ctx.Err()
	}
	for i, n := range cfg.Sizes {
		if n < 1 || n > MaxSize {
			return fmt.Errorf("rping: size %d", n)
		}
		if err := e.ping(ctx, i, n); err != nil {
			return fmt.Errorf("rping: round %d of %d bytes: %w", i, n, because(c, err))
		}
	}
	return c.Disconnect(ctx)
}
