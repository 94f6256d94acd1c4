package smbclient

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"lwio/internal/smb/smbwire"
)

// looks is the number of looks at the arrivals in the time of keepAlive.
const looks = 4

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

// keepAlive ends the connection if no byte has arrived for d. It looks at the arrivals every d/looks. At the first look
// without an arrival it sends an ECHO, and at look number looks-1 without any it ends the connection: the last byte
// came before the look ahead of these. While a long message is written no ECHO can be sent; the write has a time limit
// of its own.
//
// Source: [MS-SMB2 3.2.4.22]
func (c *conn) keepAlive(d time.Duration) {
	look := time.NewTicker(d / looks)
	defer look.Stop()
	quiet := 0             // looks in a row without an arrival
	var unsent atomic.Bool // the last ECHO has to wait for a message that is written
	for before := c.seen.n.Load(); ; {
		select {
		case <-c.end.down:
			return
		case <-look.C:
		}
		now := c.seen.n.Load()
		if now != before {
			before, quiet = now, 0
			continue
		}
		switch quiet++; quiet {
		case 1:
			unsent.Store(false)
			c.wg.Go(func() { c.askForLife(d-2*d/looks, &unsent) })
		case looks - 1:
			if unsent.Load() {
				quiet = 0
				continue
			}
			c.fail(errSilent)
			return
		}
	}
}

// askForLife sends an ECHO, and waits for the answer for at most patience. It sets unsent until the ECHO is sent. Without
// a credit, each request in flight is as good as an ECHO.
func (c *conn) askForLife(patience time.Duration, unsent *atomic.Bool) {
	ctx, cancel := context.WithTimeout(c.renewal.ctx, patience)
	defer cancel()
	if err := c.credits.takeEcho(ctx); err != nil {
		return
	}
	unsent.Store(true)
	list, err := c.sendTaken(ctx, []request{{command: smbwire.CommandEcho, body: smbwire.Empty{}}})
	if err != nil {
		return
	}
	unsent.Store(false)
	if r, err := c.wait(ctx, list[0]); err == nil {
		c.free(r)
	}
}
