package rdmaconn

import "testing"

// Source: [OP-73], [OP-85]
func TestSlotCookies(t *testing.T) {
	s := Request{Index: 0}
	seen := map[uint64]bool{}
	for range 1000 {
		s.renew()
		if s.cookie() == 0 || s.immediate() == 0 || seen[s.cookie()] {
			t.Fatalf("cookie %#x, immediate %#x", s.cookie(), s.immediate())
		}
		seen[s.cookie()] = true
		other := Request{Index: 1}
		other.Word.Store(s.Word.Load())
		if other.cookie() == s.cookie() || other.immediate() == s.immediate() {
			t.Fatal("two requests share a cookie")
		}
	}
}

func TestSlotStates(t *testing.T) {
	var s Request
	s.renew()
	if s.to(RequestPending, RequestDone) || !s.to(requestFree, RequestPending) || !s.State().isOutstanding() || !s.to(RequestPending, RequestAbandoned) || !s.State().isOutstanding() {
		t.Fatal("a transition went wrong")
	}
	gen := s.Word.Load() >> stateBits
	s.Set(RequestDone)
	if s.State() != RequestDone || s.State().isOutstanding() || s.Word.Load()>>stateBits != gen {
		t.Fatal("set changed more than the state")
	}
	s.renew()
	if s.State() != requestFree || s.Word.Load()>>stateBits != gen+1 {
		t.Fatal("renew")
	}
}
