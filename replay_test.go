package lwio

import (
	"slices"
	"testing"
	"time"
)

// Source: [OP-112]
func TestTooOld(t *testing.T) {
	for _, tc := range []struct {
		recent, number uint64
		want           bool
	}{
		{0, 99_999, false}, {0, 100_000 - maxBehind, false}, {0, 100_000 - maxBehind - 1, true}, {0, 1, true},
		// Of connections before the last one.
		{99_990, 99_989, false}, {99_990, 100_000 - maxFarBehind, false}, {99_990, 100_000 - maxFarBehind - 1, true},
		{90_000, 90_000, false}, {90_000, 89_999, true},
	} {
		c := &conn{seq: 100_000, recent: tc.recent}
		if c.tooOld(tc.number) != tc.want {
			t.Errorf("%+v", tc)
		}
	}
}

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
