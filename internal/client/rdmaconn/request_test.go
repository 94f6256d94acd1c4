package rdmaconn

import (
	"testing"

	"pgregory.net/rapid"
)

// Cookies and immediate data name one request among all that are in flight.
//
// Source: [OP-73], [OP-85]
func TestCookiesAreUnique(t *testing.T) {
	var table requestTable
	table.init(2, 2)
	s, other := &table.entries[0], &table.entries[1]
	seen := map[uint64]bool{}
	for range 1000 {
		s.free()
		if s.cookie() == 0 || s.immediate() == 0 || seen[s.cookie()] {
			t.Fatalf("cookie %#x, immediate %#x", s.cookie(), s.immediate())
		}
		seen[s.cookie()] = true
		other.word.Store(s.word.Load())
		if other.cookie() == s.cookie() || other.immediate() == s.immediate() {
			t.Fatal("two requests share a cookie")
		}
		if table.ofCookie(s.cookie()) != s || table.ofCookie(uint64(s.immediate())) != s {
			t.Fatal("a cookie names another entry")
		}
	}
	if table.ofCookie(0) != nil || table.ofCookie(3) != nil || table.ofCookie(indexMask) != nil {
		t.Error("a cookie names an entry that does not exist")
	}
}

// Transitions of a request, in any order, keep its generation and the way of its answer, until
// the entry is free. Only an outstanding request that did not change can be settled.
func TestRequestTransitions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Request
		s.free()
		generation, state, polled := uint64(1), requestFree, false
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			stale := s.load()
			switch {
			case state == requestFree:
				state, polled = rapid.SampledFrom([]requestState{requestPending, requestAbandoned}).Draw(t, "as"), rapid.Bool().Draw(t, "polled")
				s.start(state, polled)
				if s.settle(stale) {
					t.Fatal("a free request was settled")
				}
			case state != requestSettling:
				if !s.settle(s.load()) || s.settle(stale) {
					t.Fatal("not settled, or twice")
				}
				state = requestSettling
			case rapid.Bool().Draw(t, "abandon"):
				s.abandon()
				state = requestAbandoned
			default:
				s.free()
				generation, state, polled = generation+1, requestFree, false
			}
			w := s.load()
			outstanding := state == requestPending || state == requestAbandoned
			if w.state() != state || w.polled() != polled || w.generation() != generation || w.isOutstanding() != outstanding {
				t.Fatalf("%#x, want state %d of generation %d", w, state, generation)
			}
		}
	})
}
