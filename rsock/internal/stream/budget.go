package stream

import (
	"errors"
	"sync/atomic"
)

// Budget bounds the memory for large data that several streams have together; nil has no
// bound. Safe for concurrent use.
type Budget struct{ left atomic.Int64 }

// NewBudget makes one of so many bytes.
func NewBudget(limit int64) *Budget {
	b := new(Budget)
	b.left.Store(limit)
	return b
}

// Left is how many bytes nobody has.
func (b *Budget) Left() int64 { return b.left.Load() }

// take takes n bytes, if they are there.
func (b *Budget) take(n int) bool {
	if b == nil {
		return true
	}
	for {
		left := b.left.Load()
		if left < int64(n) {
			return false
		}
		if b.left.CompareAndSwap(left, left-int64(n)) {
			return true
		}
	}
}

// give gives n bytes back.
func (b *Budget) give(n int) {
	if b != nil {
		b.left.Add(int64(n))
	}
}

// errNoStage: the budget has nothing left to offer data from, which then goes by control
// messages.
var errNoStage = errors.New("the memory for large data is used up")

// settleBudget gives back what a stream has whose socket is closed.
func (s *Stream) settleBudget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out.mu.Lock()
	defer s.out.mu.Unlock()
	held := s.in.drained
	if s.in.fetching.temp != nil {
		held += fetchSize
	}
	if s.out.stage.mem != nil {
		held += stagePieces * stageSize
	}
	s.cfg.Memory.give(held)
}
