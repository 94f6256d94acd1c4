package rdmatest

import (
	"context"
	"runtime"
	"strings"

	"lwio/rdma"
)

// notify starts a notification and returns once it waits, so that what happens
// next happens to a queue that is armed.
func (r *rig) notify(cq rdma.CompletionQueue, kind rdma.NotifyKind) *call {
	r.Helper()
	return r.park(func(ctx context.Context) error { return cq.Notify(ctx, kind) })
}

// park starts a notification of any queue and returns once it waits.
func (r *rig) park(f func(context.Context) error) *call {
	r.Helper()
	before := waiting()
	c := r.begin("notify", func(ctx context.Context) error { return waitHere(ctx, f) })
	r.eventually("notify waits", func() bool {
		select {
		case <-c.done:
			r.Fatalf("notify: returned at once with %v", c.err)
		default:
		}
		return waiting() > before
	})
	return c
}

// waitHere is what waiting looks for on the stacks.
//
//go:noinline
func waitHere(ctx context.Context, f func(context.Context) error) error {
	return f(ctx)
}

// waiting counts the goroutines that have entered waitHere and sleep.
func waiting() int {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	n := 0
	for stack := range strings.SplitSeq(string(buf), "\n\n") {
		if strings.Contains(stack, "rdmatest.waitHere(") && asleep(stack) {
			n++
		}
	}
	return n
}

// asleep reads the state in the first line of a stack.
func asleep(stack string) bool {
	_, state, _ := strings.Cut(stack, "[")
	if i := strings.IndexAny(state, ",]"); i >= 0 {
		state = state[:i]
	}
	switch state {
	case "select", "chan receive", "sync.Cond.Wait", "semacquire", "IO wait", "syscall":
		return true
	}
	return false
}
