package waker

import (
	"context"
	"testing"
)

// Wake ends the sleep that has its context, and none after it. Sleeps that were not ended
// share one context.
func TestWakeEndsOneSleep(t *testing.T) {
	var w Waker
	w.Wake() // there is no sleep to end
	first := w.Next()
	if first.Err() != nil || w.Next() != first {
		t.Fatal("a sleep that was not woken is over")
	}
	w.Wake()
	w.Wake()
	if first.Err() == nil {
		t.Error("a sleep that was woken goes on")
	}
	if second := w.Next(); second.Err() != nil {
		t.Error("one Wake ends two sleeps")
	}
	w.Wake() // frees the context
}

// The end of the base ends the current sleep, and all later ones.
func TestEndOfBaseEndsAllSleeps(t *testing.T) {
	base, end := context.WithCancel(t.Context())
	w := Waker{Base: base}
	ctx := w.Next()
	end()
	<-ctx.Done()
	if w.Next().Err() == nil {
		t.Error("a sleep begins after the end of all")
	}
}
