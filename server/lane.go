package server

import (
	"sync"

	"lwio/vfs"
)

// runOps and runBytes bound the operations that a worker does in one run.
const (
	runOps   = 64
	runBytes = 1 << 20
)

// laneFiles is for how many files that do not answer a lane has workers.
const laneFiles = 32

// lane is a bounded set of workers for what may wait for a disk, so that no
// connection's loop does. Each file has a line of its own, whatever the number of
// connections that use it; the lines take turns, and none has more than its part of
// the workers, so that a file that does not answer holds up no other. Workers begin as
// they are needed, and stay. What is queued is bounded by the credits of the
// connections. Safe for concurrent use.
//
// Source: [LWIO §I/O Processing]
type lane struct {
	run     func(*op)
	joins   func(last, next *op) bool // whether one run does both; nil for never
	most    int                       // workers
	perFile int                       // workers of one line
	wg      sync.WaitGroup

	mu          sync.Mutex
	wake        *sync.Cond
	lines       map[vfs.NodeID]*line // that files of connections use
	first, last *line                // those that take turns
	hired, idle int                  // workers: all, and those that wait and are not called
	waiting     int                  // operations that no worker has begun with
	closed      bool
}

// line is the queue of a file. lane.mu guards it.
type line struct {
	lane  *lane
	node  vfs.NodeID
	users int // files of connections that use it

	queue            opList
	waiting, running int // operations
	next             *line
	inTurn           bool
}

// newLane makes a lane with that many workers for each file, which call run for each
// operation. The caller calls close.
func newLane(perFile int, run func(*op)) *lane {
	l := &lane{run: run, perFile: perFile, most: laneFiles * perFile, lines: make(map[vfs.NodeID]*line)}
	l.wake = sync.NewCond(&l.mu)
	return l
}

// join returns the line of a file for one more user, who calls part.
func (l *lane) join(node vfs.NodeID) *line {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.lines[node]
	if n == nil {
		n = &line{lane: l, node: node}
		l.lines[node] = n
	}
	n.users++
	return n
}

// part is the end of a user. What is left in the line is done all the same.
func (n *line) part() {
	n.lane.mu.Lock()
	defer n.lane.mu.Unlock()
	if n.users--; n.users == 0 {
		delete(n.lane.lines, n.node)
	}
}

// push queues o behind the file's other operations.
func (n *line) push(o *op) {
	l := n.lane
	l.mu.Lock()
	defer l.mu.Unlock()
	o.inLane = true
	n.queue.push(o)
	n.waiting++
	l.waiting++
	l.lineUp(n)
	if n.running+n.waiting <= l.perFile { // else who is at it goes on with this
		l.call()
	}
}

// remove takes o out and reports whether no worker had begun with it.
func (n *line) remove(o *op) bool {
	n.lane.mu.Lock()
	defer n.lane.mu.Unlock()
	if !o.inLane {
		return false
	}
	n.take(o)
	return true
}

// take takes o out of the line.
func (n *line) take(o *op) {
	o.inLane = false
	n.queue.remove(o)
	n.waiting--
	n.lane.waiting--
}

// first takes out the operation that waited longest, and with it those behind it that
// join it.
func (n *line) first() *op {
	o := n.queue.head
	n.take(o)
	if n.lane.joins == nil {
		return o
	}
	last, total := o, int(o.h.Length)
	for i := 1; i < runOps; i++ {
		next := n.queue.head
		if next == nil || total+int(next.h.Length) > runBytes || !n.lane.joins(last, next) {
			break
		}
		n.take(next)
		o.rest.push(next)
		last, total = next, total+int(next.h.Length)
	}
	return o
}

// lineUp puts n behind those that take turns, if it has a turn to come.
func (l *lane) lineUp(n *line) {
	if n.inTurn || n.waiting == 0 || n.running == l.perFile {
		return
	}
	n.inTurn, n.next = true, nil
	if l.first == nil {
		l.first = n
	} else {
		l.last.next = n
	}
	l.last = n
}

// call gets a worker to look.
func (l *lane) call() {
	switch {
	case l.idle > 0:
		l.idle--
		l.wake.Signal()
	case l.hired < l.most && !l.closed:
		l.hired++
		l.wg.Go(l.work)
	}
}

func (l *lane) work() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		n := l.turn()
		switch {
		case n != nil:
			o := n.first()
			n.running++
			l.lineUp(n)
			l.mu.Unlock()
			l.run(o)
			l.mu.Lock()
			n.running--
			l.lineUp(n)
		case l.closed:
			return
		default:
			l.idle++
			l.wake.Wait()
		}
	}
}

// turn takes out the line whose turn it is; nil if there is none.
func (l *lane) turn() *line {
	for l.first != nil {
		n := l.first
		l.first, n.next, n.inTurn = n.next, nil, false
		if n.waiting > 0 { // it may all have been removed
			return n
		}
	}
	return nil
}

// length is how many operations no worker has begun with.
func (l *lane) length() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting
}

// close ends the workers once the queues are empty, and waits for them.
func (l *lane) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.wake.Broadcast()
	l.wg.Wait()
}
