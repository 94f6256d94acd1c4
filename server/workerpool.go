package server

import (
	"sync"

	"lwio/vfs"
)

// runOps and runBytes bound the operations that a worker performs in one run.
const (
	runOps   = 64
	runBytes = 1 << 20
)

// blockedFiles is the number of unresponsive files for which a worker pool has enough workers.
const blockedFiles = 32

// workerPool is a bounded set of workers for I/O that may block on a disk. The receive loops never
// block on a disk. Each file has one queue for all its connections. The queues take turns, and one
// queue gets at most perFile workers, so an unresponsive file does not delay other files. Workers
// start on demand and stay. The credits of the connections bound the length of the queues. Safe
// for concurrent use.
//
// Source: [LWIO §I/O Processing]
type workerPool struct {
	run     func(*op)
	joins   func(last, next *op) bool // reports whether one run performs both; nil for never
	most    int                       // workers
	perFile int                       // workers of one queue
	wg      sync.WaitGroup

	mu            sync.Mutex
	wake          *sync.Cond
	queues        map[vfs.NodeID]*fileQueue // of all registered files
	first, last   *fileQueue                // list of the queues that wait for their turn
	workers, idle int                       // all workers, and the waiting ones without a signal
	waiting       int                       // operations that no worker has started
	closed        bool
}

// fileQueue holds the operations of one file that wait for a worker. workerPool.mu
// guards it.
type fileQueue struct {
	pool  *workerPool
	node  vfs.NodeID
	users int // registered files that use it

	ops              opList
	waiting, running int // operations
	next             *fileQueue
	inTurn           bool
}

// newWorkerPool returns a pool with perFile workers for each file, which call run for
// each operation. The caller closes it.
func newWorkerPool(perFile int, run func(*op)) *workerPool {
	p := &workerPool{run: run, perFile: perFile, most: blockedFiles * perFile, queues: make(map[vfs.NodeID]*fileQueue)}
	p.wake = sync.NewCond(&p.mu)
	return p
}

// join returns the queue of a file and counts one more user. The user calls leave.
func (p *workerPool) join(node vfs.NodeID) *fileQueue {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.queues[node]
	if q == nil {
		q = &fileQueue{pool: p, node: node}
		p.queues[node] = q
	}
	q.users++
	return q
}

// leave ends a use of the queue. The workers still perform its queued operations.
func (q *fileQueue) leave() {
	q.pool.mu.Lock()
	defer q.pool.mu.Unlock()
	if q.users--; q.users == 0 {
		delete(q.pool.queues, q.node)
	}
}

// push appends o to the queue.
func (q *fileQueue) push(o *op) {
	p := q.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	o.queued = true
	q.ops.push(o)
	q.waiting++
	p.waiting++
	p.lineUpLocked(q)
	if q.running+q.waiting <= p.perFile { // else a worker of this file takes o later
		p.callLocked()
	}
}

// remove removes o from the queue, unless a worker has started it. It reports whether it removed o.
func (q *fileQueue) remove(o *op) bool {
	q.pool.mu.Lock()
	defer q.pool.mu.Unlock()
	if !o.queued {
		return false
	}
	q.takeLocked(o)
	return true
}

// takeLocked removes o from the queue.
func (q *fileQueue) takeLocked(o *op) {
	o.queued = false
	q.ops.remove(o)
	q.waiting--
	q.pool.waiting--
}

// firstLocked removes the oldest operation, and the operations behind it that join it.
func (q *fileQueue) firstLocked() *op {
	o := q.ops.head
	q.takeLocked(o)
	if q.pool.joins == nil {
		return o
	}
	last, total := o, int(o.h.Length)
	for i := 1; i < runOps; i++ {
		next := q.ops.head
		if next == nil || total+int(next.h.Length) > runBytes || !q.pool.joins(last, next) {
			break
		}
		q.takeLocked(next)
		o.joined.push(next)
		last, total = next, total+int(next.h.Length)
	}
	return o
}

// lineUpLocked appends q to the queues that wait for their turn, if q has work for one more worker.
func (p *workerPool) lineUpLocked(q *fileQueue) {
	if q.inTurn || q.waiting == 0 || q.running == p.perFile {
		return
	}
	q.inTurn, q.next = true, nil
	if p.first == nil {
		p.first = q
	} else {
		p.last.next = q
	}
	p.last = q
}

// callLocked wakes an idle worker or starts one.
func (p *workerPool) callLocked() {
	switch {
	case p.idle > 0:
		p.idle--
		p.wake.Signal()
	case p.workers < p.most && !p.closed:
		p.workers++
		p.wg.Go(p.work)
	}
}

// work is the body of a worker.
func (p *workerPool) work() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		q := p.turnLocked()
		switch {
		case q != nil:
			o := q.firstLocked()
			q.running++
			p.lineUpLocked(q)
			p.mu.Unlock()
			p.run(o)
			p.mu.Lock()
			q.running--
			p.lineUpLocked(q)
		case p.closed:
			return
		default:
			p.idle++
			p.wake.Wait()
		}
	}
}

// turnLocked removes the queue with the next turn from the list; nil without such a queue.
func (p *workerPool) turnLocked() *fileQueue {
	for p.first != nil {
		q := p.first
		p.first, q.next, q.inTurn = q.next, nil, false
		if q.waiting > 0 { // all its operations may have been removed
			return q
		}
	}
	return nil
}

// length returns the number of operations that no worker has started.
func (p *workerPool) length() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waiting
}

// close waits until the queues are empty and all workers have ended.
func (p *workerPool) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.wake.Broadcast()
	p.wg.Wait()
}
