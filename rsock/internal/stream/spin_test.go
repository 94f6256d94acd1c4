package stream

import (
	"testing"
	"time"
)

// TestBulkRunCountsOneDirection counts data that moves in one direction in large parts,
// without data in the opposite direction.
func TestBulkRunCountsOneDirection(t *testing.T) {
	var in, out bulkRun
	for i, c := range []struct {
		in, out            int
		inIsBulk, outsBulk bool
	}{
		{in: bulkThreshold - bulkPart},
		{in: bulkPart, inIsBulk: true},
		{out: 1},
		{in: bulkThreshold - 1},
		{in: bulkPart - 1},
		{in: bulkThreshold - 1},
		{in: bulkPart, inIsBulk: true},
		{out: bulkThreshold, outsBulk: true},
		{in: bulkThreshold, inIsBulk: true},
		{in: 1},
	} {
		if c.in > 0 {
			in.add(c.in, &out)
		}
		if c.out > 0 {
			out.add(c.out, &in)
		}
		if in.isBulk() != c.inIsBulk || out.isBulk() != c.outsBulk {
			t.Errorf("step %d: in %v, out %v", i, in.isBulk(), out.isBulk())
		}
	}
}

// TestSpinnerLimits polls again never, until the limit, or always.
func TestSpinnerLimits(t *testing.T) {
	never := spinner{}
	if never.again() {
		t.Error("a limit of 0 polls again")
	}
	always := spinner{limit: -1}
	for range 10 * pollsPerCheck {
		if !always.again() {
			t.Fatal("a negative limit ends")
		}
	}
	began := time.Now()
	for limited := (spinner{limit: time.Millisecond}); limited.again(); {
	}
	if took := time.Since(began); took < time.Millisecond {
		t.Errorf("a limit of 1 ms ends after %v", took)
	}
}
