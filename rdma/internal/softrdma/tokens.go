package softrdma

import "sync/atomic"

// firstTokens is the number of slots that a token table begins with.
const firstTokens = 16

// tokenTable finds objects by their tokens. An object is in the one slot that the low
// bits of its token name. A token is drawn again until its slot is free, and at least
// half of the table is kept free, so that tokens are as random as the draws, in all of
// their bits. Readers take no lock; writers hold one.
//
// Source: [RFC 5042 §6.1.1]
type tokenTable[T any] struct {
	slots atomic.Pointer[[]atomic.Pointer[T]]
	used  int
}

// slot returns the slot of a token, or nil while the table is empty.
func (t *tokenTable[T]) slot(token uint32) *atomic.Pointer[T] {
	slots := t.slots.Load()
	if slots == nil {
		return nil
	}
	return &(*slots)[int(token>>1)&(len(*slots)-1)]
}

// reserve makes room for one more object. The objects move to their slots in a larger
// table, which has a slot for each, as the smaller one had.
func (t *tokenTable[T]) reserve(tokenOf func(*T) uint32) {
	t.used++
	old := t.slots.Load()
	if old != nil && 2*t.used <= len(*old) {
		return
	}
	n := firstTokens
	if old != nil {
		n = 2 * len(*old)
	}
	slots := make([]atomic.Pointer[T], n)
	if old != nil {
		for i := range *old {
			x := (*old)[i].Load()
			if x == nil {
				continue
			}
			if token := tokenOf(x); token != 0 {
				slots[int(token>>1)&(n-1)].Store(x)
			}
		}
	}
	t.slots.Store(&slots)
}
