package vfs

import (
	"testing"
	"time"

	"lwio/internal/test/cost"
)

func TestHooksRunOnceInOrder(t *testing.T) {
	var h hooks
	ran := ""
	add := func(name string) func() { return h.add(func() { ran += name }) }
	add("a")
	stop := add("b")
	add("c")
	stop()
	stop()
	h.run()
	h.run()
	if ran != "ac" {
		t.Errorf("ran %q", ran)
	}
	add("d")()
	if ran != "acd" {
		t.Errorf("a hook that is added later: ran %q", ran)
	}
}

// A hook that is unregistered while the hooks run does not run.
func TestHookStoppedByEarlierHookDoesNotRun(t *testing.T) {
	var h hooks
	var stop func()
	h.add(func() { stop() })
	stop = h.add(func() { t.Error("a stopped hook ran") })
	h.run()
}

// The time to unregister n hooks is proportional to n, in the order that is worst for a search from
// either end.
func TestStopTimeIsIndependentOfNumberOfHooks(t *testing.T) {
	stopAll := func(n int) func() time.Duration {
		return func() time.Duration {
			var h hooks
			stops := make([]func(), n)
			for i := range stops {
				stops[i] = h.add(func() {})
			}
			start := time.Now()
			for i := range stops {
				stops[(i+n/2)%n]()
			}
			return time.Since(start)
		}
	}
	const few, factor = 32, 64
	cost.WantAtMost(t, 8*factor, stopAll(few), stopAll(few*factor))
}
