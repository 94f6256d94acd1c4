package rdmaconn

import (
	"runtime"
	"time"
)

// readerRest is how long the reader leaves a connection alone that calls have used:
// for as long as that, the loss of a credit or a late answer goes unnoticed. It doubles,
// up to longestRest, each time that there is nothing to do for the reader: those of a
// thousand connections in use are not to keep a processor busy.
const (
	readerRest  = 5 * time.Millisecond
	longestRest = 64 * readerRest
)

// read is the poller whenever no call does, until the connection is down.
func (c *Conn) read() {
	defer c.Life.reading.Done()
	rest := readerRest
	timer := time.NewTimer(rest)
	defer timer.Stop()
	for {
		c.Progress.single.Store(runtime.GOMAXPROCS(0) == 1) // it may change
		if c.Progress.Poller.takeForReader() {
			for !c.Progress.Poller.Ready() && !c.IsDown() {
				c.doze(nil, nil, &c.Progress.Poller)
			}
			c.Progress.Poller.pass()
			rest = readerRest
		} else {
			rest = min(2*rest, longestRest)
		}
		timer.Reset(rest)
		select {
		case <-c.Progress.Poller.summon:
		case <-timer.C:
		case <-c.Life.Down:
			return
		}
	}
}

// Ready tells the reader that a call wants to poll.
func (b *poller) Ready() bool { return b.used.Load() }

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
