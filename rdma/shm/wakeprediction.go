//go:build linux

package shm

import (
	"sync/atomic"
	"time"
)

// wakePrediction predicts that this side soon answers the message that wakes it. A wake-up
// takes ten times as long as a short answer. Where the program answered promptly each time,
// the peer is woken as soon as this side is, and wakes up while the answer is made. A wrong
// prediction costs one wake-up: a post wakes the peer as usual if it sleeps again
// by then.
type wakePrediction struct {
	began   time.Time     // the origin of its clock
	woken   atomic.Int64  // when a message that is not answered woke this side, or 0
	early   atomic.Uint64 // the sleep of the peer that was ended early, or 0
	prompts atomic.Int32  // consecutive prompt answers
}

const (
	// promptTime is the longest time from a wake-up to a prompt answer. It is shorter than
	// a wake-up takes.
	promptTime = 15 * time.Microsecond
	// promptRun is the number of consecutive prompt answers after which the next one is
	// predicted, so at most one early wake-up in as many is wasted.
	promptRun = 16
	// earlyLook is how long a side that was woken early polls for the message.
	earlyLook = 10 * time.Microsecond
)

func (p *wakePrediction) init() { p.began = time.Now() }

// now is the time in nanoseconds, never 0.
func (p *wakePrediction) now() int64 { return int64(time.Since(p.began)) | 1 }

// answered notes that something is posted while the peer's segment has this sleep word.
func (p *wakePrediction) answered(word uint64) {
	if p.woken.Load() == 0 {
		return
	}
	woken, early := p.woken.Swap(0), p.early.Swap(0)
	switch {
	case woken == 0: // another goroutine was faster
	case p.now()-woken > int64(promptTime), early != 0 && early != word:
		p.prompts.Store(0)
	case p.prompts.Load() < promptRun:
		p.prompts.Add(1)
	}
}

// slept notes that this side sleeps again: an answer that is still missing is not prompt.
func (p *wakePrediction) slept() {
	if p.woken.Load() != 0 && p.woken.Swap(0) != 0 {
		p.early.Store(0)
		p.prompts.Store(0)
	}
}

// expected reports whether a prompt answer to the next message is likely.
func (p *wakePrediction) expected() bool { return p.prompts.Load() >= promptRun }
