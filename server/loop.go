package server

import (
	"context"
	"fmt"
	"sync"

	"lwio/rdma"
)

// pollSize is how many results are polled at a time.
const pollSize = 32

// flushBytes is how much data the loop moves, in a fraction of a millisecond,
// before it posts the answers.
const flushBytes = 3 << 19

// flushPolls is how often the loop polls before it posts what is answered, though that is
// not enough: other results may come for good, as fast as it handles them.
const flushPolls = 8

// manyInFlight is how many requests in flight are many, see enough: of few there is too
// little left for the time in which the client wakes up.
const manyInFlight = 16

// results are the loops' scratch memory, so that idle connections have none.
var results = sync.Pool{New: func() any { return new([pollSize]rdma.Result) }}

// loop serves the connection until it ends, and says why.
func (c *conn) loop() error {
	for {
		batch := results.Get().(*[pollSize]rdma.Result)
		_, err := c.drain(batch)
		for more := true; more && err == nil; {
			more, err = c.spin(batch)
		}
		results.Put(batch)
		if err != nil {
			return err
		}
		if err := c.cq.Wait(c.ctx, rdma.NotifyAny); err != nil {
			if cause := context.Cause(c.ctx); cause != nil {
				return cause
			}
			return fmt.Errorf("notify: %w", err)
		}
		c.slept = true
	}
}

// drain handles results until there are none, and tells whether there were any.
func (c *conn) drain(batch *[pollSize]rdma.Result) (found bool, err error) {
	for turn := 1; ; turn++ {
		if err := context.Cause(c.ctx); err != nil {
			return found, err
		}
		n, err := c.poll(batch)
		if err != nil {
			return found, fmt.Errorf("poll: %w", err)
		}
		if n == 0 {
			c.flush()
			if c.drained() {
				return found, errShutdown
			}
			return found, nil
		}
		found = true
		if err := c.handleAll(batch[:n]); err != nil {
			return found, err
		}
		if turn%flushPolls == 0 {
			c.flush()
		}
	}
}

// handleAll handles results that were polled together. What is answered goes out when
// it is enough, or with the next flush. READs of what is in the page cache are done
// several at a time.
func (c *conn) handleAll(all []rdma.Result) error {
	c.now = 0
	for c.rest = all; len(c.rest) > 0; {
		r := &c.rest[0]
		c.rest = c.rest[1:]
		if err := c.handle(r); err != nil {
			return err
		}
		if c.enough(len(c.rest)) {
			c.flush()
		}
	}
	c.postDirects()
	return nil
}

// enough tells whether to post the answers now, though there are more results in hand.
// A client that sleeps is woken by them, which costs both sides more than many small
// requests: half of what is in flight makes it worth that, and leaves the server
// the other half to do while the client wakes up and sends more. Where the client sends
// without a system call, and so sooner, three eighths of many are enough for the server.
//
// In flight is what began and what is left of the results in hand, or more if the
// client says so, as far as there is more to do at once. In a crowd the server has
// other clients to see to, and all that a client gets are wake-ups.
//
// Source: [LWIO §Wakeup]
func (c *conn) enough(left int) bool {
	return c.readySum >= flushBytes ||
		!c.crowded && c.worthWaking(c.readyNum+len(c.directs), max(c.begun+left, c.told))
}

// worthWaking tells whether that many answers, of what is in flight, are worth a wake-up.
func (c *conn) worthWaking(answers, inFlight int) bool {
	eighths := 4
	if inFlight >= manyInFlight && c.f.info.Caps.Has(rdma.CapDirectAlloc) {
		eighths = 5
	}
	return 8*answers > eighths*inFlight
}

// handle handles one result.
func (c *conn) handle(r *rdma.Result) error {
	if r.Status != rdma.StatusSuccess {
		return c.lost(r.Op, r.Status)
	}
	if r.Op == rdma.OpReceive {
		return c.receive(int32(r.ID), r)
	}
	return c.settle(r.ID, r.Bytes)
}

// settle handles the result of an initiator request, which for one of direct's tells
// a number of bytes.
func (c *conn) settle(id uint64, bytes int) error {
	slots := int(id >> idSlots & idCount)
	c.freed += slots
	c.settled.Add(1)
	c.owing.Add(-int64(slots))
	c.over(int(id >> idAnswers & idCount))
	o := c.ops[uint32(id)]
	switch id & idKind {
	case idStage:
		c.nextStage(o)
	case idDirect:
		c.placed(o, bytes)
	case idAnswer:
		if o.hangUp {
			return errAuthFailed
		}
		c.announced()
	}
	return nil
}

// over ends the first n operations whose answers were posted.
func (c *conn) over(n int) {
	if n == 0 {
		return
	}
	var done opList
	c.mu.Lock()
	for range n {
		done.push(c.posted.pop())
	}
	c.mu.Unlock()
	c.f.arena.giveAll(&done)
	for o := done.pop(); o != nil; o = done.pop() {
		o.reset()
		c.free = append(c.free, o)
	}
}

// answer ends the work on o in the loop.
func (c *conn) answer(o *op) {
	c.readySum += int(o.info)
	c.readyNum++
	c.ready.push(o)
}
