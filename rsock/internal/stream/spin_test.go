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

// TestBusyPollOfBulkTransfer busy-polls for bulkSpin at least, and never with a negative BusyPoll.
func TestBusyPollOfBulkTransfer(t *testing.T) {
	for _, c := range []struct{ cfg, plain, bulk time.Duration }{
		{0, 0, bulkSpin}, {time.Microsecond, time.Microsecond, bulkSpin}, {time.Hour, time.Hour, time.Hour}, {-1, -1, -1},
	} {
		p := progress{spin: c.cfg}
		if plain, bulk := p.busyPoll(false), p.busyPoll(true); plain != c.plain || bulk != c.bulk {
			t.Errorf("BusyPoll %v: %v, and %v in a bulk transfer", c.cfg, plain, bulk)
		}
	}
}

// TestSpinnerLimits polls again until the limit; never with a limit that is not positive.
func TestSpinnerLimits(t *testing.T) {
	for _, limit := range []time.Duration{0, -1} {
		if never := (spinner{limit: limit}); never.again() {
			t.Errorf("a limit of %v polls again", limit)
		}
	}
	always := spinner{limit: time.Hour}
	for range 10 * pollsPerCheck {
		if !always.again() {
			t.Fatal("a limit of an hour ends")
		}
	}
	began := time.Now()
	for limited := (spinner{limit: time.Millisecond}); limited.again(); {
	}
	if took := time.Since(began); took < time.Millisecond {
		t.Errorf("a limit of 1 ms ends after %v", took)
	}
}
