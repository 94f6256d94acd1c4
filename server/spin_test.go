package server

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A loop that spins in vain does so ever more seldom, and at once again when it paid.
func TestHope(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h hope
		asleep, bound := 0, 0
		for range rapid.IntRange(1, 300).Draw(t, "sleeps") {
			if !h.tries() {
				if asleep++; asleep > bound {
					t.Fatalf("%d sleeps without a try", asleep)
				}
				continue
			}
			if asleep != bound {
				t.Fatalf("a try after %d sleeps, want %d", asleep, bound)
			}
			paid := rapid.Bool().Draw(t, "paid")
			h.learn(paid)
			asleep, bound = 0, min(max(2*bound, 2), maxSkip)
			if paid {
				bound = 0
			}
		}
	})
}

// No more loops spin than may, and none where that is switched off.
func TestSpinners(t *testing.T) {
	if newSpinners(-1).enter() {
		t.Error("a loop spins though it must not")
	}
	s := newSpinners(time.Microsecond)
	for range s.most {
		if !s.enter() {
			t.Fatal("no place")
		}
	}
	if s.enter() {
		t.Error("one place too many")
	}
	s.leave()
	if !s.enter() {
		t.Error("no place though one came free")
	}
}
