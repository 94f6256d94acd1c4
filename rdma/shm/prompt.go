//go:build linux

package shm

import (
	"sync/atomic"
	"time"

	"lwio/rdma/shm/internal/ring"
)

// prompter foresees that this side answers what it is woken for. To wake a peer takes ten
// times as long as to make a short answer. So where the program was prompt to answer each
// time, the peer is rung as soon as this side is woken, and gets up while the answer is
// made. It is a hint and no more: what is posted wakes the peer as ever, if it has gone to
// sleep again by then.
type prompter struct {
	began time.Time     // when its clock was started
	woken atomic.Int64  // when this side was woken by a message that is not answered; 0: it was not
	early atomic.Uint64 // the sleep of the peer that was ended for the answer; 0: none was
	times atomic.Int32  // how often in a row the program was prompt
}

const (
	// promptTime is what counts as prompt. It is less than it takes to get up.
	promptTime = 15 * time.Microsecond
	// promptTimes is how many prompt answers in a row let another one be expected, so that
	// at most one wake-up in so many is for nothing.
	promptTimes = 16
	// promptLook is for how long one that was rung looks for what it was rung for.
	promptLook = 10 * time.Microsecond
)

// now is the time in nanoseconds, never 0.
func (p *prompter) now() int64 { return int64(time.Since(p.began)) | 1 }

// answered says that something is posted while the peer's segment has this word.
func (p *prompter) answered(word uint64) {
	if p.woken.Load() == 0 {
		return
	}
	woken, early := p.woken.Swap(0), p.early.Swap(0)
	switch {
	case woken == 0: // another was faster
	case p.now()-woken > int64(promptTime), early != 0 && early != word:
		p.times.Store(0)
	case p.times.Load() < promptTimes:
		p.times.Add(1)
	}
}

// missed says that this side sleeps again: what is not answered by now was not prompt.
func (p *prompter) missed() {
	if p.woken.Load() != 0 && p.woken.Swap(0) != 0 {
		p.early.Store(0)
		p.times.Store(0)
	}
}

// foresee is what one does first that the peer's ring has woken. If it came before there
// is anything it looks for that a moment, and if an answer is to be expected it rings the
// peer. The caller has the seat, so that the segments are mapped.
func (c *conn) foresee() {
	r, p := &c.rest, &c.rest.prompt
	if !c.pending() {
		for end := p.now() + int64(promptLook); !c.pending() && !r.over() && p.now() < end; {
		}
	}
	if c.peer.Tail.Load() == c.own.Head.Load() {
		return
	}
	if s := c.peer.Sleep.Load(); s&ring.SleepMask == ring.SleepDoorbell && p.times.Load() >= promptTimes {
		p.early.Store(s)
		c.ring(s)
	}
	p.woken.Store(p.now())
}
