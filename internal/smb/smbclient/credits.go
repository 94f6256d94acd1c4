package smbclient

import (
	"fmt"
	"math"
)

// credits is what the server lets this side send. Guarded by conn.mu.
//
// Source: [MS-SMB2 3.2.4.1.2], [MS-SMB2 3.2.5.1.4]
type credits struct {
	target int // how many this side would like to have
	held   int // can be spent
	spent  int // by requests without final answer
	queue  []*creditWaiter
}

// creditWaiter is a call that waits for least to want credits.
type creditWaiter struct {
	least, want int
	got         chan int // how many it was given; closed without if there will never be enough
}

// tryLocked takes credits if that is possible at once: as many as wanted, or, if
// no more can be expected, what there is. It reports whether to wait.
func (c *credits) tryLocked(least, want int) (got int, wait bool) {
	switch {
	case c.held >= want:
		got = want
	case c.spent > 0:
		return 0, true
	case c.held >= least:
		got = c.held
	default:
		return 0, false
	}
	c.held -= got
	c.spent += got
	return got, false
}

// grantedLocked enters a server's answer: what it cost is not spent any more (in
// an interim answer that is nothing yet), and new credits are there.
func (c *credits) grantedLocked(charge, granted int) {
	c.spent -= charge
	c.held = min(c.held+granted, math.MaxInt32)
	for len(c.queue) > 0 {
		w := c.queue[0]
		got, wait := c.tryLocked(w.least, w.want)
		if wait {
			return
		}
		c.queue = c.queue[1:]
		if got > 0 {
			w.got <- got
		} else {
			close(w.got)
		}
	}
}

// moreLocked is how many credits to ask for beyond those that a request costs.
func (c *credits) moreLocked() uint16 {
	return uint16(min(max(c.target-c.held-c.spent, 0), math.MaxUint16))
}

// errCredits is what a call gets that can never be sent.
func errCredits(least int) error {
	return fmt.Errorf("%w: it gave too few credits for a request that costs %d", ErrProtocol, least)
}
