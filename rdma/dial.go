package rdma

import "context"

// DialConfig configures Dial.
type DialConfig struct {
	// Local is the address to connect from; with zero the provider chooses.
	Local Addr
	// Limits are the read limits offered.
	Limits ReadLimits
	// PrivateData is sent with the connection request.
	PrivateData []byte
}

// Dial connects qp to remote and completes the handshake. The caller closes the
// connector. Dial suits a protocol that needs no data of the peer's acceptance before the
// handshake ends.
//
// Errors: the errors of Connector.Bind, Connect and CompleteConnect.
func Dial(ctx context.Context, a Adapter, qp QueuePair, remote Addr, cfg DialConfig) (Connector, error) {
	c, err := a.CreateConnector()
	if err != nil {
		return nil, err
	}
	if err := dial(ctx, c, qp, remote, cfg); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func dial(ctx context.Context, c Connector, qp QueuePair, remote Addr, cfg DialConfig) error {
	if err := c.Bind(ctx, cfg.Local); err != nil {
		return err
	}
	if err := c.Connect(ctx, qp, remote, cfg.Limits, cfg.PrivateData); err != nil {
		return err
	}
	return c.CompleteConnect(ctx)
}

// Listen makes a listener of the adapter that takes connections at local.
//
// Errors: the errors of Listener.Bind and Listen.
func Listen(ctx context.Context, a Adapter, local Addr, backlog int) (Listener, error) {
	l, err := a.CreateListener()
	if err != nil {
		return nil, err
	}
	if err := l.Bind(ctx, local); err != nil {
		l.Close()
		return nil, err
	}
	if err := l.Listen(backlog); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}
