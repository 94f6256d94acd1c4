package rdmaconn

import (
	"time"

	"lwio/internal/poller"
)

// readerRest is how long the reader leaves a connection alone that calls have used. For that
// time the loss of a credit or a late answer goes unnoticed. The time doubles, up to
// longestRest, while calls use the connection: the readers of a thousand connections in use
// must not keep a processor busy.
const (
	readerRest  = 5 * time.Millisecond
	longestRest = 64 * readerRest
)

// read is the work of the reader goroutine: it is the poller while no call is, until the
// connection is down.
func (c *Conn) read() {
	defer c.Life.reading.Done()
	c.Progress.Poller.Serve(c.Life.Down, func(w *poller.Waiter, end poller.Condition) { c.doze(nil, w, end) })
}

// reason prefers the error of the connector at the end of the connection to that of
// the queue.
func (c *Conn) reason(err error) error {
	select {
	case <-c.connector.Done():
		if e := c.connector.Err(); e != nil {
			return e
		}
	default:
	}
	return err
}
