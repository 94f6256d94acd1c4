package smbserver

import (
	"testing"

	"pgregory.net/rapid"
)

// Source: [MS-SMB2 3.3.1.1], [MS-SMB2 3.3.5.2.3]
func TestCreditWindowRefusesUsedAndFutureIDs(t *testing.T) {
	c := newCredits(128)
	if c.take(1, 1) {
		t.Error("id 1 taken before it was granted")
	}
	if !c.take(0, 0) {
		t.Fatal("first id refused")
	}
	if c.take(0, 1) {
		t.Error("id 0 taken twice")
	}
	if n := c.grant(0, 10); n != 10 {
		t.Fatalf("granted %d, want 10", n)
	}
	if c.take(5, 7) {
		t.Error("charge beyond the window taken")
	}
	if !c.take(5, 6) || c.take(4, 2) || !c.take(1, 4) {
		t.Error("ids 1 to 10 in two pieces: wrong result")
	}
	if n := c.grant(6, 1000); n != 124 {
		t.Errorf("granted %d, want 128 less the 4 that are pending", n)
	}
	if c.take(^uint64(0), 1) || c.take(^uint64(0)-1, 65535) {
		t.Error("id at the end of the range taken")
	}
}

// Source: [MS-SMB2 3.3.1.2]
func TestCreditsNeverRunDry(t *testing.T) {
	c := newCredits(128)
	for id := range uint64(1000) {
		if !c.take(id, 1) {
			t.Fatalf("id %d refused", id)
		}
		if n := c.grant(1, 0); n != 1 {
			t.Fatalf("granted %d for a request that asked for none", n)
		}
	}
}

// The window agrees with a model that keeps each id in a set.
//
// Source: [MS-SMB2 3.3.1.1]
func TestCreditWindowMatchesModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCredits(64)
		free, next, pending := map[uint64]bool{0: true}, uint64(1), 0
		var open []uint16
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			if len(open) > 0 && rapid.Bool().Draw(t, "response") {
				charge, wanted := open[0], rapid.Uint16Range(0, 80).Draw(t, "wanted")
				open = open[1:]
				pending -= int(charge)
				low := next
				for id := range free {
					low = min(low, id)
				}
				want := min(max(int(wanted), 1), max(64-int(next-low)-pending, 0))
				got := int(c.grant(charge, wanted))
				if got != want {
					t.Fatalf("granted %d, want %d", got, want)
				}
				for range got {
					free[next] = true
					next++
				}
				continue
			}
			id, charge := rapid.Uint64Range(max(next, 70)-70, next+2).Draw(t, "id"), rapid.Uint16Range(1, 4).Draw(t, "charge")
			want := true
			for i := range uint64(charge) {
				want = want && free[id+i]
			}
			if got := c.take(id, charge); got != want {
				t.Fatalf("take(%d, %d) = %v, want %v", id, charge, got, want)
			}
			if want {
				for i := range uint64(charge) {
					delete(free, id+i)
				}
				open, pending = append(open, charge), pending+int(charge)
			}
		}
	})
}
