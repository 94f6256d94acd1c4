//go:build linux

package shm

import (
	"sync/atomic"
	"time"
)

// wakePrediction predicts whether this side will answer soon the message that wakes it. A
// wake-up takes ten times as long as a short answer. If the program has answered promptly
// many times, this side wakes the peer as soon as it wakes itself, and the peer wakes up
// while the answer is made. A wrong prediction costs one wake-up: if the peer sleeps
// again by then, a post wakes it as usual.
type wakePrediction struct {
	began   time.Time     // zero of its clock
	woken   atomic.Int64  // the time when an unanswered message woke this side, or 0
	early   atomic.Uint64 // the sleep of the peer that was ended early, or 0
	prompts atomic.Int32  // consecutive prompt answers
}

const (
	// promptTime is the longest time from a wake-up to a prompt answer. It is shorter
	// than a wake-up takes.
	promptTime = 15 * time.Microsecond
	// promptRun is the number of consecutive prompt answers after which the next one is
	// predicted. At most one early wake-up in promptRun is thus wasted.
	promptRun = 16
	// earlyLook is how long a side that was woken early polls for the message.
	earlyLook = 10 * time.Microsecond
)

func (p *wakePrediction) init() { p.began = time.Now() }

// now returns the time in nanoseconds, never 0.
func (p *wakePrediction) now() int64 { return int64(time.Since(p.began)) | 1 }

// answered records a post; word is the sleep word in the peer's segment.
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

// slept records that this side sleeps again. An answer that is still missing is not
// prompt.
func (p *wakePrediction) slept() {
	if p.woken.Load() != 0 && p.woken.Swap(0) != 0 {
		p.early.Store(0)
		p.prompts.Store(0)
	}
}

// expected reports whether a prompt answer to the next message is likely.
func (p *wakePrediction) expected() bool { return p.prompts.Load() >= promptRun }
