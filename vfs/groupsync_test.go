package vfs

import (
	"errors"
	"testing"
	"testing/synctest"
)

// A sync serves all calls that came before it began, and no other.
//
// Source: [OP-92f] [OP-116]
func TestGroupSyncServesCallsThatCameBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g groupSync
		results := make(chan int, 16)
		release := make(chan error)
		n := 0 // syncs that have begun; one at a time
		call := func() {
			err := g.do(func() error {
				n++
				return <-release
			})
			if err != nil {
				results <- -1
				return
			}
			results <- 1
		}
		expect := func(want, sum int) {
			t.Helper()
			synctest.Wait()
			if len(results) != want {
				t.Fatalf("%d calls have returned, want %d", len(results), want)
			}
			for range want {
				sum -= <-results
			}
			if sum != 0 {
				t.Errorf("the results differ by %d", sum)
			}
		}
		go call()
		synctest.Wait()
		for range 5 {
			go call()
		}
		expect(0, 0)
		release <- nil // the first alone
		expect(1, 1)
		for range 3 {
			go call()
		}
		synctest.Wait()
		release <- errors.New("the disk") // the five that came before it began
		expect(5, -5)
		release <- nil
		expect(3, 3)
		if n != 3 || g.busy || g.next != nil {
			t.Errorf("%d syncs for 9 calls; busy %v", n, g.busy)
		}
		go call()
		synctest.Wait()
		release <- nil
		expect(1, 1)
	})
}
