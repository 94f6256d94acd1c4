package rping

import (
	"context"
	"fmt"

	"lwio/rdma"
)

// Serve takes the next connection of l and serves it until the client ends it.
// It returns the number of complete rounds and the client's private data.
//
// Errors: the errors of ConnectionRequest and Accept; an abnormal end of the connection.
func Serve(ctx context.Context, a rdma.Adapter, l rdma.Listener) (rounds int, private []byte, err error) {
	e, err := newEnd(ctx, a)
	if err != nil {
		return 0, nil, err
	}
	defer e.Close()
	c, err := a.CreateConnector()
	if err != nil {
		return 0, nil, err
	}
	defer c.Close()
	if err := l.ConnectionRequest(ctx, c); err != nil {
		return 0, nil, err
	}
	if private, err = c.PrivateData(); err != nil {
		return 0, nil, err
	}
	if err := c.Accept(ctx, e.QP, rdma.ReadLimits{Inbound: 1, Outbound: 1}, nil); err != nil {
		return 0, private, err
	}
	for ; ; rounds++ {
		first, err := e.Receive(ctx)
		if err == nil {
			err = e.pong(ctx, first)
		} else if ended(c, err) {
			return rounds, private, nil
		}
		if err != nil {
			return rounds, private, fmt.Errorf("rping: round %d: %w", rounds, because(c, err))
		}
	}
}
