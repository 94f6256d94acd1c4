package rdmaconn

import (
	"math/bits"
	"sync/atomic"
)

// requestSet is a set of entries of the request table, by index. Safe for concurrent use.
type requestSet []atomic.Uint64

// newRequestSet returns an empty set for entries 0 to n-1.
func newRequestSet(n int) requestSet { return make(requestSet, (n+63)/64) }

func (s requestSet) add(i int)    { s[i/64].Or(1 << (i % 64)) }
func (s requestSet) remove(i int) { s[i/64].And(^(uint64(1) << (i % 64))) }

func (s requestSet) empty() bool {
	for i := range s {
		if s[i].Load() != 0 {
			return false
		}
	}
	return true
}

// each calls do for every member. A member that is added meanwhile may be left out.
func (s requestSet) each(do func(i int)) {
	for i := range s {
		for w := s[i].Load(); w != 0; w &= w - 1 {
			do(64*i + bits.TrailingZeros64(w))
		}
	}
}

// Credits are credits that a goroutine has taken and not used.
type Credits = someRequests

// Empty reports whether there are none.
func (m someRequests) Empty() bool { return m.members == 0 }

// someRequests are up to 64 members of one word of a set.
type someRequests struct {
	word    int
	members uint64
}

// add adds a member. False says that the member belongs to another word.
func (m *someRequests) add(i int) bool {
	if m.members != 0 && m.word != i/64 {
		return false
	}
	m.word = i / 64
	m.members |= 1 << (i % 64)
	return true
}

// addSome adds members.
func (s requestSet) addSome(m someRequests) {
	if m.members != 0 {
		s[m.word].Or(m.members)
	}
}

// removeSome removes members.
func (s requestSet) removeSome(m someRequests) {
	if m.members != 0 {
		s[m.word].And(^m.members)
	}
}

// takeSome removes up to n members of one word, and returns them. It returns none if the set is
// empty.
func (s requestSet) takeSome(n int) someRequests {
	for i := range s {
		for w := s[i].Load(); w != 0; w = s[i].Load() {
			rest := w
			for k := 0; k < n && rest != 0; k++ {
				rest &= rest - 1
			}
			if s[i].CompareAndSwap(w, rest) {
				return someRequests{i, w &^ rest}
			}
		}
	}
	return someRequests{}
}
