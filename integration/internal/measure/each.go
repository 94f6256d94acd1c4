package measure

import (
	"sync"
	"sync/atomic"
)

// Each calls do with 0 to n-1, at most width at a time, and returns when all have
// returned.
func Each(n, width int, do func(i int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(n, width) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				do(int(i))
			}
		})
	}
	wg.Wait()
}
