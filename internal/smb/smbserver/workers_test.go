package smbserver

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// The pool grows to its limit while its goroutines are busy, parks goroutines that do not
// count, and reports its end once.
func TestWorkersGrowToTheLimitAndEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 5
		var ended atomic.Int32
		blocked, parked := make(chan struct{}), make(chan struct{})
		messages := make(chan struct{})
		w := &workers{limit: limit, waitLimit: 1, closed: func() { ended.Add(1) }}
		var serving atomic.Int32
		w.next = func() (*message, bool) {
			_, ok := <-messages
			if !ok {
				return nil, false
			}
			if w.idle.Load() == 0 {
				w.grow()
			}
			w.turn.Unlock()
			serving.Add(1)
			<-blocked
			serving.Add(-1)
			w.turn.Lock()
			return nil, true
		}
		w.start()
		for range limit {
			messages <- struct{}{}
		}
		synctest.Wait()
		if n := serving.Load(); n != limit {
			t.Errorf("%d goroutines serve, want %d", n, limit)
		}
		if !w.park(func() { <-parked }) || w.park(func() {}) {
			t.Error("not exactly one goroutine could be parked")
		}
		close(blocked)
		close(messages)
		synctest.Wait()
		if n := ended.Load(); n != 0 {
			t.Error("the pool ended while a goroutine was parked")
		}
		close(parked)
		synctest.Wait()
		if n := ended.Load(); n != 1 {
			t.Errorf("the end was reported %d times", n)
		}
	})
}
