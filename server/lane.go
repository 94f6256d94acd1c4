package server

import "sync"

// lane is a bounded set of workers for what may wait for a disk, so that no
// connection's loop does. What is queued is bounded by the credits of the
// connections. Safe for concurrent use.
//
// Source: [LWIO §I/O Processing]
type lane struct {
	run func(*op)
	wg  sync.WaitGroup

	mu     sync.Mutex
	wake   *sync.Cond
	queue  opList
	closed bool
}

// newLane starts the workers, which call run for each operation. The caller
// calls close.
func newLane(workers int, run func(*op)) *lane {
	l := &lane{run: run}
	l.wake = sync.NewCond(&l.mu)
	for range workers {
		l.wg.Go(l.work)
	}
	return l
}

func (l *lane) work() {
	for {
		l.mu.Lock()
		for l.queue.empty() && !l.closed {
			l.wake.Wait()
		}
		o := l.queue.pop()
		if o == nil {
			l.mu.Unlock()
			return
		}
		o.inLane = false
		l.mu.Unlock()
		l.run(o)
	}
}

// push queues o, in order of arrival over all connections.
func (l *lane) push(o *op) {
	l.mu.Lock()
	o.inLane = true
	l.queue.push(o)
	l.mu.Unlock()
	l.wake.Signal()
}

// length is how many operations no worker has begun with.
func (l *lane) length() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for o := l.queue.head; o != nil; o = o.next {
		n++
	}
	return n
}

// remove takes o out and reports whether no worker had begun with it.
func (l *lane) remove(o *op) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !o.inLane {
		return false
	}
	o.inLane = false
	l.queue.remove(o)
	return true
}

// close ends the workers once the queue is empty, and waits for them.
func (l *lane) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.wake.Broadcast()
	l.wg.Wait()
}
