package softrdma

import "sync/atomic"

// firstTokens is the number of slots that a token table begins with.
const firstTokens = 16

// tokenTable finds objects by their tokens. The low bits of a token name the only slot
// that can hold its object. A new token is drawn again until its slot is free, and at
// least half of the slots are free. All bits of a token are therefore as random as the
// draws. Readers take no lock; writers hold a lock of their own.
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

// reserve makes room for one more object. If the table grows, each object moves to its
// slot in the larger table: objects with different slots in the smaller table have
// different slots in the larger one.
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
