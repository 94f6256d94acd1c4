package cost

import (
	"testing"
	"time"
)

// recorder is a test that records whether it failed.
type recorder struct {
	testing.TB
	failed bool
}

func (*recorder) Helper() {}

func (r *recorder) Errorf(string, ...any) { r.failed = true }

// One undisturbed run is enough, and disturbed runs do not hide work that grows too fast.
func TestWantAtMostNeedsOneUndisturbedRun(t *testing.T) {
	const last = rounds - 1
	for _, tt := range []struct {
		name      string
		quietFew  int // the number of the undisturbed run
		many      time.Duration
		quietMany int
		fails     bool
	}{
		{"proportional, first run", 0, 40, 0, false},
		{"proportional, last run", last, 40, last, false},
		{"too slow", last, 41, 0, true},
		{"always disturbed", 0, 40, rounds, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			work := func(took time.Duration, quiet int) func() time.Duration {
				run := 0
				return func() time.Duration {
					run++
					if run-1 == quiet {
						return took
					}
					return took + time.Second
				}
			}
			r := &recorder{TB: t}
			WantAtMost(r, 4, work(10, tt.quietFew), work(tt.many, tt.quietMany))
			if r.failed != tt.fails {
				t.Errorf("failed: %t", r.failed)
			}
		})
	}
}
