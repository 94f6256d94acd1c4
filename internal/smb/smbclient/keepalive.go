package smbclient

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"lwio/internal/smb/smbwire"
)

// errSilent reports a server that gives no sign of life.
var errSilent = errors.New("the server does not respond")

// arrivals counts the reads that brought bytes from the server.
type arrivals struct {
	net.Conn
	n atomic.Uint64
}

func (a *arrivals) Read(p []byte) (int, error) {
	n, err := a.Conn.Read(p)
	if n > 0 {
		a.n.Add(1)
	}
	return n, err
}

// keepAlive ends the connection if no byte has arrived for d: after a third of d it sends an ECHO, and
// the rest of d is the time for any sign of life.
//
// Source: [MS-SMB2 3.2.4.22]
func (c *conn) keepAlive(d time.Duration) {
	quiet := time.NewTimer(d / 3)
	defer quiet.Stop()
	for before := c.seen.n.Load(); ; before = c.seen.n.Load() {
		select {
		case <-c.end.down:
			return
		case <-quiet.C:
		}
		if c.seen.n.Load() == before {
			c.askForLife(before, d-d/3)
		}
		quiet.Reset(d / 3)
	}
}

// askForLife sends an ECHO. It ends the connection if no byte arrives after the number of reads
// before within patience. While a long message is written no ECHO can be sent; the write has a time limit of its own.
func (c *conn) askForLife(before uint64, patience time.Duration) {
	ctx, cancel := context.WithTimeout(c.renewal.ctx, patience)
	defer cancel()
	if err := c.credits.takeEcho(ctx); err == nil {
		list, err := c.sendTaken(ctx, []request{{command: smbwire.CommandEcho, body: smbwire.Empty{}}})
		if err != nil {
			return
		}
		if r, err := c.wait(ctx, list[0]); err == nil {
			c.free(r)
			return
		}
	}
	// Without a credit, each request in flight is as good as an ECHO.
	if c.seen.n.Load() == before && c.renewal.ctx.Err() == nil {
		c.fail(errSilent)
	}
}
