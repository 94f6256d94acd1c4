package stream

import "sync/atomic"

// Budget bounds the memory for large data of several streams together. Nil has no bound. Safe
// for concurrent use.
type Budget struct{ left atomic.Int64 }

// NewBudget returns a budget of limit bytes.
func NewBudget(limit int64) *Budget {
	b := new(Budget)
	b.left.Store(limit)
	return b
}

// take takes n bytes, and returns false if fewer are free.
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

// give returns n bytes.
func (b *Budget) give(n int) {
	if b != nil {
		b.left.Add(int64(n))
	}
}
