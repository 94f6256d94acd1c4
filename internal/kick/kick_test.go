package kick

import (
	"context"
	"testing"
)

// A kick ends the sleep that has its context, and none after it; sleeps that are not
// kicked share one context.
func TestKick(t *testing.T) {
	var k Kicker
	k.Kick() // nobody sleeps, or is about to
	first := k.Next()
	if first.Err() != nil || k.Next() != first {
		t.Fatal("a sleep that was not kicked is over")
	}
	k.Kick()
	k.Kick()
	if first.Err() == nil {
		t.Error("a sleep that was kicked goes on")
	}
	if second := k.Next(); second.Err() != nil {
		t.Error("a kick ends two sleeps")
	}
	k.Kick() // which frees the context
}

// The end of the base ends each sleep, and all later ones.
func TestBase(t *testing.T) {
	base, end := context.WithCancel(t.Context())
	k := Kicker{Base: base}
	ctx := k.Next()
	end()
	<-ctx.Done()
	if k.Next().Err() == nil {
		t.Error("a sleep begins after the end of all")
	}
}
