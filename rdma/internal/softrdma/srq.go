package softrdma

import (
	"context"
	"slices"
	"sync"

	"lwio/rdma"
)

// SharedQueue holds receives for many queue pairs. If a message finds it empty, only the
// connection of that message waits.
//
// No connection can take all receives: see mayTakeLocked.
//
// Source: [ND SharedReceiveQueue], [RFC 5042 §6.4.3.1]
type SharedQueue struct {
	d      *Domain
	maxSGE int

	mu        sync.Mutex
	receives  FIFO[Receive]
	depth     int
	threshold int
	closed    bool
	pairs     int           // queue pairs that use it
	waiting   []*Taker      // connections that wait for a receive, in the order of their arrival
	low       chan struct{} // closed to end the calls of Wait; nil if there are none

	// buffers finds the memory of a receive by its first byte. taken lists the buffers
	// that connections took and the program has not posted again.
	buffers map[*byte]*buffer
	taken   takenList
}

// Taker is a connection that takes receives from a shared queue.
type Taker struct {
	resume func() // called when there may be a receive, with the lock of the queue held
	held   int    // receives that it took and the program has not posted again
}

// buffer is the memory of a receive: posted, or taken by a connection.
type buffer struct {
	first      *byte // nil for a receive without memory
	by         *Taker
	prev, next *buffer // in the list of taken buffers
}

// takenList is the list of the taken buffers, in the order of taking.
type takenList struct {
	root buffer
	n    int
}

func (l *takenList) push(b *buffer, by *Taker) {
	if l.root.next == nil {
		l.root.prev, l.root.next = &l.root, &l.root
	}
	b.by, b.prev, b.next = by, l.root.prev, &l.root
	b.prev.next, b.next.prev = b, b
	by.held++
	l.n++
}

func (l *takenList) drop(b *buffer) {
	b.prev.next, b.next.prev = b.next, b.prev
	b.by.held--
	b.by, b.prev, b.next = nil, nil, nil
	l.n--
}

var _ rdma.SharedReceiveQueue = (*SharedQueue)(nil)

// CreateSharedReceiveQueue makes a queue whose memory grows with use.
//
// Errors: StatusInvalidParameterN(3) for the depth, (4) for MaxSGE, (5) for the
// threshold.
func (d *Domain) CreateSharedReceiveQueue(cfg rdma.SharedReceiveQueueConfig) (rdma.SharedReceiveQueue, error) {
	const op = "create shared receive queue"
	switch {
	case cfg.Depth < 1 || cfg.Depth > MaxQueueDepth:
		return nil, d.Error(op, "", rdma.StatusInvalidParameterN(3), nil)
	case cfg.MaxSGE < 0 || cfg.MaxSGE > MaxSGE:
		return nil, d.Error(op, "", rdma.StatusInvalidParameterN(4), nil)
	case cfg.NotifyThreshold < 0 || cfg.NotifyThreshold > MaxQueueDepth:
		return nil, d.Error(op, "", rdma.StatusInvalidParameterN(5), nil)
	}
	q := &SharedQueue{
		d: d, maxSGE: cfg.MaxSGE, depth: cfg.Depth, threshold: cfg.NotifyThreshold,
		buffers: make(map[*byte]*buffer),
	}
	if err := d.Add(SharedQueues, q, op); err != nil {
		return nil, err
	}
	return q, nil
}

// sharedQueueOf returns q if it is a queue of this domain, else nil.
func (d *Domain) sharedQueueOf(q rdma.SharedReceiveQueue) *SharedQueue {
	if s, ok := q.(*SharedQueue); ok && s != nil && s.d == d {
		return s
	}
	return nil
}

// attach adds a queue pair.
func (q *SharedQueue) attach() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pairs++
}

// detach removes a queue pair.
func (q *SharedQueue) detach() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pairs--
	q.resumeLocked()
}

// PostReceive queues receives and resumes the connections that wait for one.
func (q *SharedQueue) PostReceive(reqs []rdma.ReceiveRequest) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, err := 0, error(nil)
	for ; n < len(reqs); n++ {
		if status := q.postLocked(&reqs[n]); status != rdma.StatusSuccess {
			err = q.d.Error("post", "shared receive", status, nil)
			break
		}
	}
	if n > 0 {
		q.resumeLocked()
	}
	return n, err
}

func (q *SharedQueue) postLocked(r *rdma.ReceiveRequest) rdma.Status {
	if q.closed {
		return rdma.StatusInvalidHandle
	}
	if q.receives.Len() >= q.depth {
		return rdma.StatusNoMoreEntries
	}
	length, status := q.d.CheckSGL(r.SGL, q.maxSGE, rdma.AccessLocalWrite)
	if status != rdma.StatusSuccess {
		return status
	}
	p := q.receives.Push()
	p.set(r, length)
	p.buffer = q.backLocked(p)
	return rdma.StatusSuccess
}

// backLocked records that the program returned a receive: the taken receive with the same
// memory, or else the receive that was taken first.
func (q *SharedQueue) backLocked(r *Receive) *buffer {
	var first *byte
	if len(r.Pieces) > 0 {
		first = &r.Pieces[0].Buf[0]
		if b := q.buffers[first]; b != nil && b.by != nil {
			q.taken.drop(b)
			return b
		}
	}
	var b *buffer
	if q.taken.n == 0 {
		b = &buffer{}
	} else {
		b = q.taken.root.next
		q.taken.drop(b)
		if q.buffers[b.first] == b {
			delete(q.buffers, b.first)
		}
	}
	if b.first = first; first != nil {
		q.buffers[first] = b
	}
	return b
}

// resumeLocked wakes all waiting connections. A connection that finds no receive keeps
// its place in the queue.
func (q *SharedQueue) resumeLocked() {
	for _, t := range q.waiting {
		t.resume()
	}
}

// take moves the first receive to into.
//
// Errors: StatusPending if there is none for t, which is resumed later;
// StatusInvalidHandle once the queue is closed.
func (q *SharedQueue) take(into *Receive, t *Taker) rdma.Status {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return rdma.StatusInvalidHandle
	}
	place := slices.Index(q.waiting, t)
	if !q.mayTakeLocked(t, place) {
		if place < 0 {
			q.waiting = append(q.waiting, t)
		}
		return rdma.StatusPending
	}
	if place >= 0 {
		q.waiting = slices.Delete(q.waiting, place, place+1)
	}
	r := q.receives.At(q.receives.Head)
	q.receives.Head++
	into.ID, into.Length = r.ID, r.Length
	into.Pieces = append(into.Pieces[:0], r.Pieces...)
	clear(r.Pieces)
	q.taken.push(r.buffer, t)
	r.buffer = nil
	q.notifyLocked()
	return rdma.StatusSuccess
}

// mayTakeLocked reports whether there is a receive for t. Connections that have waited
// longer come first. If several queue pairs share the queue, a connection may hold at
// most three quarters of all receives, posted and taken, until the program posts some of
// them again. The rest is for the other connections, however slow a peer or the program
// is.
//
// Source: [RFC 5042 §6.4.3.1]
func (q *SharedQueue) mayTakeLocked(t *Taker, place int) bool {
	if q.fullLocked(t) {
		return false
	}
	if place < 0 {
		place = len(q.waiting)
	}
	before := 0
	for _, o := range q.waiting[:place] {
		if !q.fullLocked(o) {
			before++
		}
	}
	return q.receives.Len() > before
}

// fullLocked reports whether t holds as many receives as it may.
func (q *SharedQueue) fullLocked(t *Taker) bool {
	all := q.receives.Len() + q.taken.n
	return q.pairs > 1 && t.held > 0 && t.held >= all-max(all/4, 1)
}

// leave ends the wait of a connection.
func (q *SharedQueue) leave(t *Taker) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.waiting, t); i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
		q.resumeLocked()
	}
}

// notifyLocked ends the calls of Wait if there are few receives left.
func (q *SharedQueue) notifyLocked() {
	if q.low != nil && (q.closed || q.receives.Len() < q.threshold) {
		close(q.low)
		q.low = nil
	}
}

// Wait waits until fewer receives than the threshold are left. If fewer are left already,
// it returns at once.
func (q *SharedQueue) Wait(ctx context.Context) error {
	const op = "notify of a shared receive queue"
	if ctx.Err() != nil {
		return q.d.Canceled(ctx, op, "")
	}
	q.mu.Lock()
	if !q.closed && q.receives.Len() < q.threshold {
		q.mu.Unlock()
		return nil
	}
	if q.low == nil {
		q.low = make(chan struct{})
	}
	low := q.low
	q.notifyLocked()
	q.mu.Unlock()
	select {
	case <-low:
	case <-ctx.Done():
		return q.d.Canceled(ctx, op, "")
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return q.d.Error(op, "", rdma.StatusCanceled, nil)
	}
	return nil
}

// Modify changes depth and threshold; 0 keeps a value.
func (q *SharedQueue) Modify(depth, threshold int) error {
	const op = "modify shared receive queue"
	if depth < 0 || depth > MaxQueueDepth || threshold < 0 || threshold > MaxQueueDepth {
		return q.d.Error(op, "", rdma.StatusInvalidParameter, nil)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return q.d.Error(op, "", rdma.StatusInvalidHandle, nil)
	case depth != 0 && depth < q.receives.Len():
		return q.d.Error(op, "", rdma.StatusBufferOverflow, nil)
	}
	if depth != 0 {
		q.depth = depth
	}
	if threshold != 0 {
		q.threshold = threshold
		q.notifyLocked()
	}
	return nil
}

// Close drops the remaining receives and ends all calls of Wait. Later messages for queue
// pairs of this queue end their connections.
func (q *SharedQueue) Close() error {
	q.mu.Lock()
	q.closed = true
	q.receives, q.buffers = FIFO[Receive]{}, nil
	q.resumeLocked()
	q.notifyLocked()
	q.mu.Unlock()
	q.d.Remove(SharedQueues, q)
	return nil
}
