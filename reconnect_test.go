package lwio

import (
	"slices"
	"testing"
	"time"
)

func TestBackoff(t *testing.T) {
	var b backoff
	var pauses []time.Duration
	for range 20 {
		pauses = append(pauses, b.next(maxPause))
	}
	if pauses[0] != 0 || pauses[1] != minPause || !slices.IsSorted(pauses) || pauses[19] != maxPause {
		t.Error(pauses)
	}
	b.lived(0, false)
	if b.next(maxPause) != maxPause {
		t.Error("a connection of no use counts")
	}
	if b.next(time.Second) != time.Second {
		t.Error("calls wait longer than they may")
	}
	b.lived(0, true)
	if b.next(maxPause) != minPause {
		t.Error("a connection of use does not count")
	}
	b.lived(provenAfter, false)
	if b.next(maxPause) != 0 {
		t.Error("a connection that lived long does not count")
	}
}
