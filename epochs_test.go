package lwio

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// Source: [OP-115]
func TestEpochsWaitForEarlierWritesOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e epochs
		ctx := t.Context()
		if err := e.wait(ctx); err != nil {
			t.Fatal(err)
		}
		first := e.begin()
		sibling := e.begin()
		waited := make(chan int, 2)
		wait := func(id int) {
			if err := e.wait(ctx); err != nil {
				t.Error(err)
			}
			waited <- id
		}
		go wait(1)
		synctest.Wait()
		second := e.begin()
		go wait(2)
		synctest.Wait()
		third := e.begin()

		second.end()
		synctest.Wait()
		if len(waited) != 0 {
			t.Fatalf("waiter %d did not wait for the first write", <-waited)
		}
		first.end()
		synctest.Wait()
		if len(waited) != 0 {
			t.Fatalf("waiter %d did not wait for all of the first writes", <-waited)
		}
		sibling.end()
		synctest.Wait()
		if len(waited) != 2 {
			t.Fatalf("%d of 2 waiters returned", len(waited))
		}
		third.end()
		if err := e.wait(ctx); err != nil {
			t.Fatal(err)
		}
	})
}

func TestEpochsWaitEndsWithContext(t *testing.T) {
	var e epochs
	w := e.begin()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 3 {
		if err := e.wait(ctx); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	w.end()
	if err := e.wait(t.Context()); err != nil {
		t.Fatal(err)
	}
}
