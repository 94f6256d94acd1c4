// Package mortal makes TCP connections for tests that end, or fall silent, at a byte
// of choice.
package mortal

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"syscall"
)

// Life says what becomes of a connection, and counts what goes over it. A Life is for
// the first connection that it dials; later ones live for ever.
type Life struct {
	// Out and In are how many bytes may be sent and received; below 0 any number.
	Out, In int64
	// Freeze lets the connection fall silent then, both ways, instead of ending: what
	// is sent gets nowhere, and nothing comes.
	Freeze bool

	sent, received atomic.Int64
	dead, begun    atomic.Bool
}

// Sent is how many bytes were to be sent so far.
func (l *Life) Sent() int64 { return l.sent.Load() }

// Received is how many bytes came so far.
func (l *Life) Received() int64 { return l.received.Load() }

// DialTCP connects. It fits iwarp.Config.Dial.
func (l *Life) DialTCP(ctx context.Context, _, remote *net.TCPAddr) (net.Conn, error) {
	return l.DialContext(ctx, "tcp", remote.String())
}

// DialContext connects. It fits lwio.Config.DialContext.
func (l *Life) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	nc, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil || l.begun.Swap(true) {
		return nc, err
	}
	return &conn{nc, l}, nil
}

type conn struct {
	net.Conn
	l *Life
}

// die is the end, or the beginning of the silence.
func (c *conn) die() {
	c.l.dead.Store(true)
	if !c.l.Freeze {
		c.Conn.Close()
	}
}

// Write sends what may be. The rest is lost without a word, as the system does not
// know yet either that nobody takes it.
func (c *conn) Write(p []byte) (int, error) {
	l := c.l
	over := l.sent.Add(int64(len(p))) - l.Out
	switch {
	case l.dead.Load() && l.Freeze:
		return len(p), nil
	case l.dead.Load():
		return 0, syscall.ECONNRESET
	case l.Out < 0 || over < 0:
		return c.Conn.Write(p)
	}
	_, _ = c.Conn.Write(p[:max(0, int64(len(p))-over)])
	c.die()
	return len(p), nil
}

func (c *conn) Read(p []byte) (int, error) {
	l := c.l
	if l.In >= 0 {
		left := l.In - l.received.Load()
		if left <= 0 {
			c.die()
		}
		p = p[:max(1, min(int64(len(p)), left))]
	}
	n, err := c.Conn.Read(p)
	for l.dead.Load() && err == nil { // silence
		n, err = c.Conn.Read(p)
	}
	switch {
	case err != nil && l.dead.Load() && !l.Freeze:
		return 0, io.EOF // as if the peer had closed it
	case err != nil:
		return 0, err
	}
	l.received.Add(int64(n))
	return n, nil
}
