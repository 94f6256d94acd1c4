package iwarp

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestLeave: the reader comes back after a short while where processors are idle, also
// after they were busy, and in the end wherever they are.
func TestLeave(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p progress
		p.init()
		longer := 0
		for _, late := range rapid.SliceOf(rapid.Int64Range(0, int64(4*leave))).Draw(t, "late") {
			before := time.Duration(p.leave.Load())
			stays := p.ran(time.Duration(late))
			after := time.Duration(p.leave.Load())
			switch {
			case stays && (late < int64(busyDelay) || after != 2*before || after > longestLeave):
				t.Fatalf("%v late: stays away for %v after %v", time.Duration(late), after, before)
			case !stays && after != max(before/2, leave):
				t.Fatalf("%v late: comes back, and stays away for %v after %v", time.Duration(late), after, before)
			case !stays && late >= int64(busyDelay) && before != longestLeave:
				t.Fatalf("%v late: comes back after %v", time.Duration(late), before)
			}
			if longer++; !stays {
				longer = 0
			}
			if longer > 6 {
				t.Fatalf("did not come back %d times in a row", longer)
			}
		}
	})
}
