package base

import (
	"slices"
	"testing"
	"time"
)

// The pause doubles until a connection has been of use or has lived long.
func TestBackoffGrowsUntilConnectionProves(t *testing.T) {
	var b Backoff
	var pauses []time.Duration
	for range 20 {
		pauses = append(pauses, b.next(MaxPause))
	}
	if pauses[0] != 0 || pauses[1] != MinPause || !slices.IsSorted(pauses) || pauses[19] != MaxPause {
		t.Error(pauses)
	}
	b.Lived(0, false)
	if b.next(MaxPause) != MaxPause {
		t.Error("a connection of no use counts")
	}
	if b.next(time.Second) != time.Second {
		t.Error("calls wait longer than they may")
	}
	b.Lived(0, true)
	if b.next(MaxPause) != MinPause {
		t.Error("a connection of use does not count")
	}
	b.Lived(ProvenAfter, false)
	if b.next(MaxPause) != 0 {
		t.Error("a connection that lived long does not count")
	}
}
