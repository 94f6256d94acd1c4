package softrdma

import "sync/atomic"

// firstTokens is how many slots a table of tokens begins with.
const firstTokens = 16

// tokenTable finds things by their tokens. A thing stands in the one slot that
// the low bits of its token name: a token is drawn again until its slot is free,
// and the table is kept half empty, so that tokens are as random as the draws,
// over all of their bits. Who looks takes no lock; who changes the table holds one.
//
// Source: [RFC 5042 §6.1.1]
type tokenTable[T any] struct {
	slots atomic.Pointer[[]atomic.Pointer[T]]
	used  int
}

// slot is where a token stands, or would stand; nil while the table is empty.
func (t *tokenTable[T]) slot(token uint32) *atomic.Pointer[T] {
	slots := t.slots.Load()
	if slots == nil {
		return nil
	}
	return &(*slots)[int(token>>1)&(len(*slots)-1)]
}

// reserve makes room for one more. Those that are in the table move to their
// slots in a larger one; there is a slot for each, as there was in the smaller.
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
