package fault

import (
	"context"

	"lwio/rdma"
)

// connector wraps a connector.
type connector struct {
	p     *Provider
	inner rdma.Connector
}

var _ rdma.Connector = (*connector)(nil)

// bareConnector unwraps a connector.
func bareConnector(c rdma.Connector) rdma.Connector {
	if k, ok := c.(*connector); ok && k != nil {
		return k.inner
	}
	return c
}

// serves records the connection of a queue pair, for faults that cut it.
func (c *connector) serves(qp rdma.QueuePair) {
	if q, ok := qp.(*queuePair); ok && q != nil {
		q.conn.Store(c)
	}
}

// made counts a connection.
func (c *connector) made(err error) {
	if err == nil {
		c.p.count.connections.Add(1)
	}
}

func (c *connector) Bind(ctx context.Context, local rdma.Addr) error {
	start := c.p.start()
	err := c.inner.Bind(ctx, local)
	c.p.control(start, "bind", local, err)
	return err
}

func (c *connector) Connect(ctx context.Context, qp rdma.QueuePair, remote rdma.Addr, limits rdma.ReadLimits, privateData []byte) error {
	start := c.p.start()
	err := c.inner.Connect(ctx, barePair(qp), remote, limits, privateData)
	c.p.control(start, "connect", remote, err)
	if err == nil {
		c.serves(qp)
	}
	return err
}

func (c *connector) CompleteConnect(ctx context.Context) error {
	start := c.p.start()
	err := c.inner.CompleteConnect(ctx)
	c.p.control(start, "complete connect", nil, err)
	c.made(err)
	return err
}

func (c *connector) Accept(ctx context.Context, qp rdma.QueuePair, limits rdma.ReadLimits, privateData []byte) error {
	start := c.p.start()
	err := c.inner.Accept(ctx, barePair(qp), limits, privateData)
	c.p.control(start, "accept", nil, err)
	if err == nil {
		c.serves(qp)
	}
	c.made(err)
	return err
}

func (c *connector) Reject(privateData []byte) error {
	start := c.p.start()
	err := c.inner.Reject(privateData)
	c.p.control(start, "reject", nil, err)
	return err
}

func (c *connector) Disconnect(ctx context.Context) error {
	start := c.p.start()
	err := c.inner.Disconnect(ctx)
	c.p.control(start, "disconnect", nil, err)
	return err
}

func (c *connector) ReadLimits() (rdma.ReadLimits, error) { return c.inner.ReadLimits() }
func (c *connector) PrivateData() ([]byte, error)         { return c.inner.PrivateData() }
func (c *connector) LocalAddr() (rdma.Addr, error)        { return c.inner.LocalAddr() }
func (c *connector) PeerAddr() (rdma.Addr, error)         { return c.inner.PeerAddr() }
func (c *connector) Done() <-chan struct{}                { return c.inner.Done() }
func (c *connector) Err() error                           { return c.inner.Err() }
func (c *connector) Close() error                         { return c.p.close("connector", c.inner) }
