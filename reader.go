package lwio

import (
	"runtime"
	"time"
)

// readerRest is how long the reader leaves a connection alone that calls have used:
// for as long as that, the loss of a credit or a late answer goes unnoticed.
const readerRest = 5 * time.Millisecond

// read has the baton whenever no call does, until the connection is down.
func (c *conn) read() {
	defer c.reading.Done()
	rest := time.NewTimer(readerRest)
	defer rest.Stop()
	for {
		c.single.Store(runtime.GOMAXPROCS(0) == 1) // it may change
		if c.baton.takeForReader() {
			for !c.baton.ready() && !c.isDown() {
				c.doze(nil, nil, &c.baton)
			}
			c.baton.pass()
		}
		rest.Reset(readerRest)
		select {
		case <-c.baton.summon:
		case <-rest.C:
		case <-c.down:
			return
		}
	}
}

// ready tells the reader that a call wants the baton.
func (b *baton) ready() bool { return b.used.Load() }

// reason prefers what the connector says about the end of the connection to what
// the queue saw of it.
func (c *conn) reason(err error) error {
	select {
	case <-c.connector.Done():
		if e := c.connector.Err(); e != nil {
			return e
		}
	default:
	}
	return err
}
