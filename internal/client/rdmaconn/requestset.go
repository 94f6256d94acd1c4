package rdmaconn

import (
	"math/bits"
	"sync/atomic"
)

// requestSet is a set of entries by their index. Safe for concurrent use.
type requestSet []atomic.Uint64

// NewRequestSet returns an empty set for entries 0 to n-1.
func NewRequestSet(n int) requestSet { return make(requestSet, (n+63)/64) }

func (s requestSet) Add(i int)    { s[i/64].Or(1 << (i % 64)) }
func (s requestSet) Remove(i int) { s[i/64].And(^(uint64(1) << (i % 64))) }

func (s requestSet) Empty() bool {
	for i := range s {
		if s[i].Load() != 0 {
			return false
		}
	}
	return true
}

// each calls do for every member at the moment that its word is looked at.
func (s requestSet) each(do func(i int)) {
	for i := range s {
		for w := s[i].Load(); w != 0; w &= w - 1 {
			do(64*i + bits.TrailingZeros64(w))
		}
	}
}

// SomeRequests are members of one word of a set.
type SomeRequests struct {
	word    int
	Members uint64
}

// add adds a member; false says that it is of another word.
func (m *SomeRequests) add(i int) bool {
	if m.Members != 0 && m.word != i/64 {
		return false
	}
	m.word = i / 64
	m.Members |= 1 << (i % 64)
	return true
}

// addSome and removeSome add and remove members.
func (s requestSet) addSome(m SomeRequests) {
	if m.Members != 0 {
		s[m.word].Or(m.Members)
	}
}

func (s requestSet) removeSome(m SomeRequests) {
	if m.Members != 0 {
		s[m.word].And(^m.Members)
	}
}

// RequestsAtOnce is how many takeSome can take.
const RequestsAtOnce = 64

// takeSome removes up to n members of one word, and returns them; none says that the set
// is empty.
func (s requestSet) takeSome(n int) SomeRequests {
	for i := range s {
		for w := s[i].Load(); w != 0; w = s[i].Load() {
			rest := w
			for k := 0; k < n && rest != 0; k++ {
				rest &= rest - 1
			}
			if s[i].CompareAndSwap(w, rest) {
				return SomeRequests{i, w &^ rest}
			}
		}
	}
	return SomeRequests{}
}
