package server

import (
	"runtime"
	"sync/atomic"
	"time"

	"lwio/rdma"
)

// spinners bounds how many loops look for work instead of sleeping: a sleep and a
// wake-up cost more than a request on a fast provider, but a processor that spins
// does nothing else.
type spinners struct {
	most int32
	now  atomic.Int32
}

func newSpinners(limit time.Duration) *spinners {
	s := new(spinners)
	if limit > 0 {
		s.most = int32(max(runtime.GOMAXPROCS(0)/2, 1))
	}
	return s
}

// enter takes a place; false says that all are taken.
func (s *spinners) enter() bool {
	if s.now.Add(1) <= s.most {
		return true
	}
	s.now.Add(-1)
	return false
}

func (s *spinners) leave() { s.now.Add(-1) }

// crowd counts the wake-ups of all loops. A loop that wakes up when many others have
// since it did last is one of more than there are processors for: then spinning takes
// from the others what they have use for, and so does handing a client a part of its
// answers.
type crowd struct {
	most  uint64 // wake-ups of others that are no crowd
	wakes atomic.Uint64
}

func newCrowd() *crowd { return &crowd{most: 2 * uint64(runtime.GOMAXPROCS(0))} }

// wake counts a wake-up of a loop whose last one had the number last, and tells its
// number and whether there is a crowd.
func (w *crowd) wake(last uint64) (number uint64, crowded bool) {
	number = w.wakes.Add(1)
	return number, number-last > w.most+1
}

// spinsPerCheck is how often a loop that spins looks for results before it looks at the
// time and lets others run, a few microseconds: to do that costs as much as a dozen looks.
const spinsPerCheck = 64

// maxSkip bounds for how many sleeps a loop that spun in vain does not try again.
const maxSkip = 64

// hope is what a loop knows of whether spinning pays: each time that it did not, it
// sleeps twice as often before it tries again. So a client that leaves the server
// alone for long, or that shares its processor, is not spun for.
type hope struct{ failed, skip int }

// tries tells whether to spin before this sleep.
func (h *hope) tries() bool {
	if h.skip > 0 {
		h.skip--
		return false
	}
	return true
}

// learn takes in how it went.
func (h *hope) learn(paid bool) {
	if paid {
		*h = hope{}
		return
	}
	h.failed++
	h.skip = min(1<<min(h.failed, 10), maxSkip)
}

// stopSpinning gives the place back, if the loop has one.
func (c *conn) stopSpinning() {
	if c.spinning {
		c.spinning = false
		c.e.spinners.leave()
	}
}

// spin looks for results for a while, if that is likely to find some, and handles
// them; false says that there are none and the loop is to sleep.
func (c *conn) spin(batch *[pollSize]rdma.Result) (bool, error) {
	if c.crowded || !c.hope.tries() || !c.e.spinners.enter() {
		return false, nil
	}
	c.spinning = true
	defer c.stopSpinning()
	for end := time.Duration(0); ; {
		for range spinsPerCheck {
			n, err := c.cq.Poll(batch[:])
			if n == 0 && err == nil {
				continue
			}
			c.hope.learn(true)
			if err == nil {
				err = c.handleAll(batch[:n])
			}
			if err == nil {
				_, err = c.drain(batch)
			}
			return true, err
		}
		if found, err := c.drain(batch); found || err != nil {
			c.hope.learn(true)
			return true, err
		}
		now := c.e.clock()
		if end == 0 {
			end = now + c.e.limits.SpinTime
		}
		if now >= end {
			c.hope.learn(false)
			return false, nil
		}
		runtime.Gosched()
	}
}
