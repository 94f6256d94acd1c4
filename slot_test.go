package lwio

import "testing"

// Source: [OP-73], [OP-85]
func TestSlotCookies(t *testing.T) {
	s := slot{index: 0}
	seen := map[uint64]bool{}
	for range 1000 {
		s.renew()
		if s.cookie() == 0 || s.immediate() == 0 || seen[s.cookie()] {
			t.Fatalf("cookie %#x, immediate %#x", s.cookie(), s.immediate())
		}
		seen[s.cookie()] = true
		other := slot{index: 1}
		other.word.Store(s.word.Load())
		if other.cookie() == s.cookie() || other.immediate() == s.immediate() {
			t.Fatal("two slots share a cookie")
		}
	}
}

func TestSlotStates(t *testing.T) {
	var s slot
	s.renew()
	if s.to(slotPending, slotDone) || !s.to(slotFree, slotPending) || !s.outstanding() || !s.to(slotPending, slotAbandoned) || !s.outstanding() {
		t.Fatal("a transition went wrong")
	}
	gen := s.word.Load() >> stateBits
	s.set(slotDone)
	if s.state() != slotDone || s.outstanding() || s.word.Load()>>stateBits != gen {
		t.Fatal("set changed more than the state")
	}
	s.renew()
	if s.state() != slotFree || s.word.Load()>>stateBits != gen+1 {
		t.Fatal("renew")
	}
}
