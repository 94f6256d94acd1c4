package stream

import (
	"errors"
	"testing"

	"lwio/rdma"
)

// TestConnectionKeepsFirstFailure fails a connection twice.
func TestConnectionKeepsFirstFailure(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		a, _ := pair(t, f, setup{})
		a.c.fail(ErrNoBuffers)
		a.c.fail(ErrReset)
		if err := a.c.failure(); !errors.Is(err, ErrNoBuffers) {
			t.Errorf("failure %v, want the first", err)
		}
		select {
		case <-a.c.over:
		default:
			t.Error("the stream is not over")
		}
	})
}

// TestDepthFollowsAdapters allows one fetch at a time if a read is a copy in memory or the
// peer writes, and several fetches if reads have a delay.
func TestDepthFollowsAdapters(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		a, b := pair(t, f, setup{passive: Config{NoRead: true}})
		direct := a.c.hasCap(rdma.CapDirectAlloc)
		if want := map[bool]int{true: 1, false: maxDirect}[direct]; a.c.depth != want {
			t.Errorf("depth %d, want %d", a.c.depth, want)
		}
		if b.c.depth != 1 || a.c.copies || b.c.copies != direct {
			t.Errorf("depth %d without reads; copies %t to a side without reads, %t to one with", b.c.depth, a.c.copies, b.c.copies)
		}
	})
}
