package vfs

import "sync"

// groupSync lets calls of Sync that run at the same time share one sync of the backend: a call that comes while one
// is in progress waits for the next, which serves all that came before it began. All callers of one sync get its
// error. The zero value is ready. Safe for concurrent use.
//
// Source: [OP-92f] [OP-116]
type groupSync struct {
	mu   sync.Mutex
	busy bool     // a sync is in progress, or about to begin
	next *syncRun // the sync after it; nil if no call waits
}

// syncRun is a sync that has not begun.
type syncRun struct {
	begin chan struct{} // closed when the sync before it has ended
	done  chan struct{} // closed when it has ended
	err   error         // guarded by done
}

// do calls sync, or waits for a call of it that begins later.
func (g *groupSync) do(sync func() error) error {
	r, leads := g.join()
	switch {
	case r == nil:
		defer g.end()
		return sync()
	case leads:
		<-r.begin
		defer g.end()
		defer close(r.done)
		r.err = sync()
	default:
		<-r.done
	}
	return r.err
}

// join returns the sync that the caller waits for, nil if it begins one at once. leads says that the caller
// does it.
func (g *groupSync) join() (r *syncRun, leads bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.busy {
		g.busy = true
		return nil, false
	}
	if leads = g.next == nil; leads {
		g.next = &syncRun{begin: make(chan struct{}), done: make(chan struct{})}
	}
	return g.next, leads
}

// end lets the next sync begin.
func (g *groupSync) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.busy = g.next != nil; g.busy {
		close(g.next.begin)
		g.next = nil
	}
}
