// Package faultconn dials TCP connections for tests that end, or fall silent, after a given
// number of bytes.
package faultconn

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"syscall"
)

// Dialer limits the first connection that it dials and counts the bytes on it. Later
// connections are not limited.
type Dialer struct {
	// SendLimit and ReceiveLimit are the bytes that may be sent and received; below 0 any
	// number.
	SendLimit, ReceiveLimit int64
	// Freeze makes the connection silent in both directions at the limit instead of closing
	// it: sent bytes are dropped and no bytes arrive.
	Freeze bool

	sent, received atomic.Int64
	dead, begun    atomic.Bool
}

// Sent is the number of bytes passed to Write so far, dropped ones included.
func (d *Dialer) Sent() int64 { return d.sent.Load() }

// Received is the number of bytes received so far.
func (d *Dialer) Received() int64 { return d.received.Load() }

// DialTCP connects. It fits iwarp.Config.Dial.
func (d *Dialer) DialTCP(ctx context.Context, _, remote *net.TCPAddr) (net.Conn, error) {
	return d.DialContext(ctx, "tcp", remote.String())
}

// DialContext connects. It fits lwio.Config.DialContext.
func (d *Dialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	nc, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil || d.begun.Swap(true) {
		return nc, err
	}
	return &conn{nc, d}, nil
}

// conn is the limited connection of a Dialer.
type conn struct {
	net.Conn
	d *Dialer
}

// fail closes the connection, or makes it silent.
func (c *conn) fail() {
	c.d.dead.Store(true)
	if !c.d.Freeze {
		c.Conn.Close()
	}
}

// Write sends the bytes within the limit and drops the rest. The write at the limit reports
// success: the system does not know yet either that the bytes do not arrive.
func (c *conn) Write(p []byte) (int, error) {
	d := c.d
	over := d.sent.Add(int64(len(p))) - d.SendLimit
	switch {
	case d.dead.Load() && d.Freeze:
		return len(p), nil
	case d.dead.Load():
		return 0, syscall.ECONNRESET
	case d.SendLimit < 0 || over < 0:
		return c.Conn.Write(p)
	}
	_, _ = c.Conn.Write(p[:max(0, int64(len(p))-over)])
	c.fail()
	return len(p), nil
}

// Read receives the bytes within the limit. A silent connection discards input until it is
// closed.
func (c *conn) Read(p []byte) (int, error) {
	d := c.d
	if d.ReceiveLimit >= 0 {
		left := d.ReceiveLimit - d.received.Load()
		if left <= 0 {
			c.fail()
		}
		p = p[:max(1, min(int64(len(p)), left))]
	}
	n, err := c.Conn.Read(p)
	for d.dead.Load() && err == nil {
		n, err = c.Conn.Read(p)
	}
	switch {
	case err != nil && d.dead.Load() && !d.Freeze:
		return 0, io.EOF // as if the peer had closed it
	case err != nil:
		return 0, err
	}
	d.received.Add(int64(n))
	return n, nil
}
