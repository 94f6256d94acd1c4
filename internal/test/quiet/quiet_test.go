package quiet

import (
	"sync"
	"sync/atomic"
	"testing"
)

// Wait returns only when the other goroutines have nothing left to do, however they wait.
func TestWaitReturnsWhenAllGoroutinesAreBlocked(t *testing.T) {
	var mu sync.Mutex
	mu.Lock()
	steps, end := make(chan int), make(chan struct{})
	var wg sync.WaitGroup
	var count atomic.Int32
	sum := 0
	wg.Go(func() {
		for n := range steps {
			for range 10_000_000 {
				sum += n
			}
			count.Add(1)
		}
	})
	wg.Go(func() { <-end })
	wg.Go(func() { mu.Lock(); mu.Unlock() }) //nolint:staticcheck // waits only
	for n := range 5 {
		steps <- n
		Wait()
		if count.Load() != int32(n+1) {
			t.Fatalf("%d steps are done after %d", count.Load(), n+1)
		}
	}
	mu.Unlock()
	close(steps)
	close(end)
	wg.Wait()
}

// A goroutine whose allocation begins a garbage collection is not blocked.
func TestWaitReturnsAfterGoroutinesThatAllocate(t *testing.T) {
	var kept [64][]byte
	for range 50 {
		var wg sync.WaitGroup
		var done atomic.Bool
		wg.Go(func() {
			for i := range 2_000 {
				kept[i%len(kept)] = make([]byte, 64<<10)
			}
			done.Store(true)
		})
		Wait()
		if !done.Load() {
			t.Error("Wait returned before the allocations were done")
		}
		wg.Wait()
	}
}
