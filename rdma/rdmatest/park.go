package rdmatest

import (
	"context"
	"runtime"
	"strings"

	"lwio/rdma"
)

// notify starts a Wait and returns when it waits, so that the queue is armed for the next
// event.
func (r *rig) notify(cq rdma.CompletionQueue, kind rdma.NotifyKind) *call {
	r.Helper()
	return r.park(func(ctx context.Context) error { return cq.Wait(ctx, kind) })
}

// park starts a call that waits on a queue, and returns when it waits.
func (r *rig) park(f func(context.Context) error) *call {
	r.Helper()
	id := make(chan string, 1)
	c := r.begin("notify", func(ctx context.Context) error {
		id <- goroutine()
		return f(ctx)
	})
	name := <-id
	r.eventually("notify waits", func() bool {
		select {
		case <-c.done:
			r.Fatalf("notify: returned at once with %v", c.err)
		default:
		}
		return sleeps(name)
	})
	return c
}

// goroutine returns the name of the calling goroutine: the beginning of the first line of
// its stack.
func goroutine() string {
	var buf [64]byte
	name, _, _ := strings.Cut(string(buf[:runtime.Stack(buf[:], false)]), "[")
	return name
}

// sleeps reports whether a goroutine sleeps. Other waiting goroutines may be awake
// briefly, so counting goroutines would not be reliable.
func sleeps(name string) bool {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	for stack := range strings.SplitSeq(string(buf), "\n\n") {
		if strings.HasPrefix(stack, name) {
			return asleep(stack)
		}
	}
	return false
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
