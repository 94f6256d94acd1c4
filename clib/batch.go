package main

import (
	"context"
	"sync"
	"syscall"

	"lwio"
)

// operation is an operation of a batch. Its memory belongs to the batch until its completion is returned.
type operation struct {
	file  *lwio.File
	err   error // of arguments that are not valid: the operation only completes
	p     []byte
	off   int64
	tag   uint64
	write bool
}

// batch is the object of lwio_batch_new: a directBatch or an eventBatch.
type batch interface {
	// submit starts operations from the first and returns how many it took; next returns operation i.
	submit(n int, next func(i int) operation) (int, error)
	// reap returns up to limit completions, in a slice that belongs to the caller until the next call.
	// It waits for at least least of them, until ctx ends, or not at all without wait.
	reap(ctx context.Context, limit, least int, wait bool, each func(i int, d lwio.Completion)) (int, error)
	// eventfd returns the descriptor that reports completions.
	eventfd() (int, error)
	// close gives up the operations.
	close() error
}

// queue queues an operation in b, and returns a failure that is its completion.
func queue(b *lwio.Batch, o *operation) error {
	switch {
	case o.err != nil:
		return o.err
	case o.write:
		return b.WriteAt(o.file, o.p, o.off, o.tag)
	}
	return b.ReadAt(o.file, o.p, o.off, o.tag)
}

// directBatch runs an lwio.Batch in the thread that calls. It is for one thread at a time: a call beside
// another one fails with EBUSY.
type directBatch struct {
	mu    sync.Mutex // held by the call, and only ever tried
	b     *lwio.Batch
	depth int
	taken int // operations that are not returned yet
	// ready are completions that reap had no room for.
	ready []lwio.Completion
}

func newDirectBatch(c *lwio.Client, depth int) *directBatch {
	return &directBatch{b: c.NewBatch(depth), depth: depth}
}

func (d *directBatch) submit(n int, next func(i int) operation) (int, error) {
	if !d.mu.TryLock() {
		return 0, syscall.EBUSY
	}
	defer d.mu.Unlock()
	n = min(n, d.depth-d.taken)
	for i := range n {
		o := next(i)
		if err := queue(d.b, &o); err != nil {
			d.ready = append(d.ready, lwio.Completion{Tag: o.tag, Err: err})
		}
	}
	d.taken += n
	return n, d.b.Submit(context.Background())
}

func (d *directBatch) reap(ctx context.Context, limit, least int, wait bool, each func(int, lwio.Completion)) (int, error) {
	if !d.mu.TryLock() {
		return 0, syscall.EBUSY
	}
	defer d.mu.Unlock()
	n := d.give(d.ready, 0, limit, each)
	d.ready = d.ready[:copy(d.ready, d.ready[n:])]
	if n == limit {
		d.taken -= n
		return n, nil
	}
	more := max(least-n, 0)
	if !wait {
		more = 0
	}
	list, err := d.b.Wait(ctx, more)
	given := d.give(list, n, limit, each)
	d.ready = append(d.ready, list[given:]...)
	n += given
	d.taken -= n
	if n > 0 {
		err = nil // the operations that failed have errors of their own, and the others stay in flight
	}
	return n, err
}

// give passes completions to each, the first of them as number at, and returns how many there was room for.
func (*directBatch) give(list []lwio.Completion, at, limit int, each func(int, lwio.Completion)) int {
	n := min(len(list), limit-at)
	for i, done := range list[:n] {
		each(at+i, done)
	}
	return n
}

func (*directBatch) eventfd() (int, error) {
	return 0, invalid("the batch was made without LWIO_BATCH_EVENTFD")
}

func (d *directBatch) close() error {
	if !d.mu.TryLock() {
		return syscall.EBUSY
	}
	defer d.mu.Unlock()
	return d.b.Close()
}

// eventBatch runs an lwio.Batch in a goroutine of its own, which reports completions by an eventfd. Safe for
// concurrent use.
type eventBatch struct {
	depth int
	fd    int
	over  chan struct{} // closed by the goroutine when it returns

	mu       sync.Mutex
	incoming []operation
	ready    []lwio.Completion
	taken    int           // operations that are not returned yet
	changed  chan struct{} // closed and replaced when ready or closed changes
	work     chan struct{} // of capacity 1: incoming or closed has changed
	stopWait context.CancelFunc
	closed   bool
}

func newEventBatch(c *lwio.Client, depth int) (*eventBatch, error) {
	fd, err := newEventfd()
	if err != nil {
		return nil, err
	}
	e := &eventBatch{
		depth: depth, fd: fd, over: make(chan struct{}), changed: make(chan struct{}), work: make(chan struct{}, 1),
		stopWait: func() {},
	}
	go e.run(c.NewBatch(depth))
	return e, nil
}

// run owns b. It returns when the batch is closed.
func (e *eventBatch) run(b *lwio.Batch) {
	defer close(e.over)
	defer b.Close()
	for {
		e.mu.Lock()
		ops, closed := e.incoming, e.closed
		e.incoming = nil
		ctx, cancel := context.WithCancel(context.Background())
		e.stopWait = cancel
		e.mu.Unlock()
		if closed {
			cancel()
			return
		}
		for i := range ops {
			if err := queue(b, &ops[i]); err != nil {
				e.publish([]lwio.Completion{{Tag: ops[i].tag, Err: err}})
			}
		}
		if b.Pending() > 0 {
			list, _ := b.Wait(ctx, 1) // its error is the end of ctx
			e.publish(list)
		} else {
			<-e.work
		}
		cancel()
	}
}

// publish adds completions, and makes the eventfd readable for the first.
func (e *eventBatch) publish(list []lwio.Completion) {
	if len(list) == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.ready) == 0 {
		signalEventfd(e.fd)
	}
	e.ready = append(e.ready, list...)
	close(e.changed)
	e.changed = make(chan struct{})
}

// wakeLocked makes run look at its state again.
func (e *eventBatch) wakeLocked() {
	e.stopWait()
	select {
	case e.work <- struct{}{}:
	default:
	}
}

func (e *eventBatch) submit(n int, next func(i int) operation) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return 0, badHandle{}
	}
	n = min(n, e.depth-e.taken)
	for i := range n {
		e.incoming = append(e.incoming, next(i))
	}
	e.taken += n
	if n > 0 {
		e.wakeLocked()
	}
	return n, nil
}

func (e *eventBatch) reap(ctx context.Context, limit, least int, wait bool, each func(int, lwio.Completion)) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for {
		n := min(len(e.ready), limit)
		enough := n == limit || n >= min(least, e.taken) || !wait || ctx.Err() != nil
		switch {
		case e.closed:
			return 0, badHandle{}
		case enough && n == 0 && wait:
			return 0, ctx.Err()
		case enough:
			for i, d := range e.ready[:n] {
				each(i, d)
			}
			e.ready = e.ready[:copy(e.ready, e.ready[n:])]
			if e.taken -= n; n > 0 && len(e.ready) == 0 {
				clearEventfd(e.fd)
			}
			return n, nil
		}
		changed := e.changed
		e.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		e.mu.Lock()
	}
}

func (e *eventBatch) eventfd() (int, error) { return e.fd, nil }

func (e *eventBatch) close() error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return badHandle{}
	}
	e.closed = true
	close(e.changed)
	e.changed = make(chan struct{})
	e.wakeLocked()
	e.mu.Unlock()
	<-e.over
	return closeEventfd(e.fd)
}

// errFull is the error of a submit for which a batch has no room.
var errFull error = fullError{}

type fullError struct{}

func (fullError) Error() string        { return "lwio: the batch is full: reap completions" }
func (fullError) Is(target error) bool { return target == syscall.EAGAIN }
