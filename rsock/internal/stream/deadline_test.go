package stream

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestLastDeadlineCounts sets deadlines at random: the last deadline replaces all earlier
// ones, and a deadline that passes wakes the calls. The test has a clock of its own.
func TestLastDeadlineCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tick = time.Second
		var d deadline
		var woken atomic.Int64
		d.wake = func() { woken.Add(1) }
		defer d.stop()
		var at time.Time
		rnd := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same in each run
		for range 20_000 {
			before, was := woken.Load(), d.over.Load()
			switch k := time.Duration(rnd.IntN(8)); rnd.IntN(5) {
			case 0:
				at = time.Time{}
				d.set(at)
			case 1:
				at = time.Now().Add(-k * tick)
				d.set(at)
				was = false // the calls are woken again
			case 2, 3:
				at = time.Now().Add((k + 1) * tick)
				d.set(at)
			default:
				time.Sleep(k * tick)
			}
			synctest.Wait()
			over := !at.IsZero() && !at.After(time.Now())
			if d.over.Load() != over {
				t.Fatalf("passed: %v, want %v", !over, over)
			}
			if wakes := woken.Load() > before; wakes != (over && !was) {
				t.Fatalf("woken %v, passed %v, and before %v", wakes, over, was)
			}
		}
	})
}

// TestStoppedDeadlineStaysSilent sets a deadline that was stopped.
func TestStoppedDeadlineStaysSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d deadline
		d.wake = func() { t.Error("woken after the end") }
		d.set(time.Now().Add(time.Second))
		d.stop()
		d.set(time.Now().Add(time.Second))
		d.set(time.Now().Add(-time.Second))
		time.Sleep(time.Minute)
	})
}

// TestDeadlineAllocatesNothing sets, moves and clears a deadline.
func TestDeadlineAllocatesNothing(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		a, b := pair(t, f, setup{})
		defer closeBoth(a, b)
		past, hour := time.Unix(1, 0), time.Now().Add(time.Hour)
		for name, set := range map[string]func(time.Time) error{"read": a.SetReadDeadline, "write": a.SetWriteDeadline} {
			n := testing.AllocsPerRun(1000, func() {
				for _, at := range []time.Time{past, {}, hour, hour.Add(time.Hour), hour.Add(-time.Minute), past, hour, {}} {
					if err := set(at); err != nil {
						t.Fatal(err)
					}
				}
			})
			if n >= 1 {
				t.Errorf("%s: %v allocations", name, n)
			}
		}
	})
}
