package lwio

import (
	"math/bits"
	"sync/atomic"
)

// slotSet is a set of slots by their index. Safe for concurrent use.
type slotSet []atomic.Uint64

func newSlotSet(n int) slotSet { return make(slotSet, (n+63)/64) }

func (s slotSet) add(i int)    { s[i/64].Or(1 << (i % 64)) }
func (s slotSet) remove(i int) { s[i/64].And(^(uint64(1) << (i % 64))) }

func (s slotSet) empty() bool {
	for i := range s {
		if s[i].Load() != 0 {
			return false
		}
	}
	return true
}

// each calls do for every member at the moment that its word is looked at.
func (s slotSet) each(do func(i int)) {
	for i := range s {
		for w := s[i].Load(); w != 0; w &= w - 1 {
			do(64*i + bits.TrailingZeros64(w))
		}
	}
}

// someSlots are members of one word of a set.
type someSlots struct {
	word    int
	members uint64
}

// add adds a member; false says that it is of another word.
func (m *someSlots) add(i int) bool {
	if m.members != 0 && m.word != i/64 {
		return false
	}
	m.word = i / 64
	m.members |= 1 << (i % 64)
	return true
}

// addSome and removeSome add and remove what there is.
func (s slotSet) addSome(m someSlots) {
	if m.members != 0 {
		s[m.word].Or(m.members)
	}
}

func (s slotSet) removeSome(m someSlots) {
	if m.members != 0 {
		s[m.word].And(^m.members)
	}
}

// slotsAtOnce is how many takeSome can take.
const slotsAtOnce = 64

// takeSome removes up to n members of one word, and returns them; none says that the set
// is empty.
func (s slotSet) takeSome(n int) someSlots {
	for i := range s {
		for w := s[i].Load(); w != 0; w = s[i].Load() {
			rest := w
			for k := 0; k < n && rest != 0; k++ {
				rest &= rest - 1
			}
			if s[i].CompareAndSwap(w, rest) {
				return someSlots{i, w &^ rest}
			}
		}
	}
	return someSlots{}
}
