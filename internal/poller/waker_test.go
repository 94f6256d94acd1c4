package poller

import "testing"

// TestWakeEndsOneSleep ends a sleep: the context of the next sleep is not over. Sleeps that are
// not ended share one context.
func TestWakeEndsOneSleep(t *testing.T) {
	var w waker
	w.wake() // there is no sleep to end
	first := w.next()
	if first.Err() != nil || w.next() != first {
		t.Fatal("a sleep is over before a wake-up")
	}
	w.wake()
	w.wake()
	if first.Err() == nil {
		t.Error("a sleep goes on after its wake-up")
	}
	if second := w.next(); second.Err() != nil {
		t.Error("one wake-up ends two sleeps")
	}
	w.wake() // frees the context
}
