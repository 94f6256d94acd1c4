package stream

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A deadline has passed exactly when the last that was set has, whatever was set before, and
// who waits is told of each; the clock is that of the test.
func TestDeadline(t *testing.T) {
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
				was = false // who waits is told again
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
			if told := woken.Load() > before; told != (over && !was) {
				t.Fatalf("told %v, passed %v, and before %v", told, over, was)
			}
		}
	})
}

// A deadline that was stopped wakes nobody any more, and cannot be set.
func TestDeadlineStopped(t *testing.T) {
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

// To set a deadline, to move it and to take it back allocates nothing.
func TestDeadlineAllocations(t *testing.T) {
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
