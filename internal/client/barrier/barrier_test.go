package barrier

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// Source: [OP-115]
func TestBarrierWaitsForEarlierWritesOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e Barrier
		ctx := t.Context()
		if err := e.Wait(ctx); err != nil {
			t.Fatal(err)
		}
		first := e.Begin()
		sibling := e.Begin()
		waited := make(chan int, 2)
		wait := func(id int) {
			if err := e.Wait(ctx); err != nil {
				t.Error(err)
			}
			waited <- id
		}
		go wait(1)
		synctest.Wait()
		second := e.Begin()
		go wait(2)
		synctest.Wait()
		third := e.Begin()

		second.End()
		synctest.Wait()
		if len(waited) != 0 {
			t.Fatalf("waiter %d did not wait for the first write", <-waited)
		}
		first.End()
		synctest.Wait()
		if len(waited) != 0 {
			t.Fatalf("waiter %d did not wait for all of the first writes", <-waited)
		}
		sibling.End()
		synctest.Wait()
		if len(waited) != 2 {
			t.Fatalf("%d of 2 waiters returned", len(waited))
		}
		third.End()
		if err := e.Wait(ctx); err != nil {
			t.Fatal(err)
		}
	})
}

func TestBarrierWaitEndsWithContext(t *testing.T) {
	var e Barrier
	w := e.Begin()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 3 {
		if err := e.Wait(ctx); !errors.Is(err, context.Canceled) || !e.Pending() {
			t.Fatal(err, e.Pending())
		}
	}
	if w.End(); e.Pending() {
		t.Error("an ended write is pending")
	}
	if err := e.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Wait returns nil at once if no write is unfinished, also if ctx has ended.
func TestBarrierOfEndedWritesIgnoresContext(t *testing.T) {
	var e Barrier
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 50 {
		w := e.Begin()
		if err := e.Wait(ctx); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		w.End()
		if err := e.Wait(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// Begun counts writes, whether they have ended or not.
func TestBegunCountsWrites(t *testing.T) {
	var b Barrier
	first, second := b.Begin(), b.Begin()
	first.End()
	if n := b.Begun(); n != 2 {
		t.Errorf("%d writes", n)
	}
	second.End()
	b.Begin().End()
	if n := b.Begun(); n != 3 {
		t.Errorf("%d writes", n)
	}
}
