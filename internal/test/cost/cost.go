// Package cost compares the time of work in tests.
package cost

import (
	"testing"
	"time"
)

// rounds bounds the measurements of a kind of work. The scheduler and other processes lengthen many
// measurements on a busy machine, but not all of them.
const rounds = 100

// WantAtMost fails the test if many takes more than factor times as long as few. Both return the time
// of one run of their work. Work that grows faster than factor exceeds it in each run; work that does
// not needs one undisturbed run.
func WantAtMost(tb testing.TB, factor int, few, many func() time.Duration) {
	tb.Helper()
	least := best(few, 0)
	limit := time.Duration(factor) * least
	if took := best(many, limit); took > limit {
		tb.Errorf("%v, more than %d times %v", took, factor, least)
	}
}

// best returns the shortest time of all rounds, or the first time that is at most enough.
func best(work func() time.Duration, enough time.Duration) time.Duration {
	least := work()
	for n := 1; n < rounds && least > enough; n++ {
		least = min(least, work())
	}
	return least
}
