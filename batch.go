package lwio

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"sync/atomic"
)

// ErrBatchFull is one operation more than the batch was made for.
var ErrBatchFull = errors.New("the batch is full")

// Batch keeps many reads and writes in flight from one goroutine. Operations are
// queued with Read, Write and WriteSame, sent by Submit, many with one system call, and come
// back from Wait in any order. None costs a goroutine; none costs an allocation if its
// memory is part of a [Buffer], or small. Over SMB alone, Submit does them one after
// another.
//
// The memory of an operation is the batch's until Wait has returned its completion, or
// Close has; a [Buffer] may then be in doubt. An operation that is not answered within
// Config.Timeout fails. A Batch is for one goroutine at a time; many may be in use.
//
// Operations hold credits only from when they are sent until they are answered,
// whether or not anybody waits. File.Sync, Truncate, Unlock and Close wait for writes that were
// sent. A read that takes several requests, a write that takes more than there were credits
// for, and whatever was on a connection that broke go on in Wait alone: whoever is to call
// that must not wait for those first.
//
// Source: [LWIO §I/O Processing], [OP-113]
type Batch struct {
	c       *Client
	ops     []op
	idle    []*op
	queue   []*op // to be sent, in order; queued is where it begins
	queued  int
	flying  []*op // being prepared, scratch
	parts   []*op // of writes that are sent in parts, not over
	spare   []*op // parts that are over
	wholes  int   // writes that are sent in parts
	out     []Completion
	closed  bool
	legs    []*leg // one for each rail, nil for those that were not used
	sent    int    // in flight on all
	dealer  *rail  // that gets the next operations, up to so many bytes
	deal    int
	offered int // completions that the last Wait returned

	reads, readBytes uint64 // over RDMA, not in Client.overRDMA yet

	over   <-chan struct{} // of the context whose end kicks
	heeded *conn           // what it kicks
	unheed func() bool

	// answered is a stack of operations that came back; count is how many, need how
	// many somebody waits for.
	answered    atomic.Pointer[op]
	count, need atomic.Int64
	at          atomic.Pointer[leg] // where it sleeps, or slept last
	jolted      atomic.Bool         // a connection has ended
}

// Completion is the end of an operation of a Batch.
type Completion struct {
	// Tag is what the operation was given.
	Tag uint64
	// N is how many bytes were read or written, from the beginning.
	N int
	// Err is nil if that is all of them, io.EOF, or an *Error as of ReadAt and WriteAt.
	Err error
}

// NewBatch makes a batch of up to n operations at a time, at least 1. Close it.
func (c *Client) NewBatch(n int) *Batch {
	n = max(n, 1)
	b := &Batch{c: c, ops: make([]op, n), idle: make([]*op, 0, n), queue: make([]*op, 0, 2*n),
		flying: make([]*op, 0, n), out: make([]Completion, 0, 2*n), legs: make([]*leg, len(c.rails))}
	for i := range b.ops {
		b.ops[i].b = b
		b.idle = append(b.idle, &b.ops[i])
	}
	return b
}

// Read queues a read of f into p from byte offset off.
//
// Errors: ErrBatchFull; fs.ErrClosed once the batch is closed.
func (b *Batch) Read(f *File, p []byte, off int64, tag uint64) error {
	_, err := b.add(f, p, off, tag)
	return err
}

// Write queues a write of p to f at byte offset off.
//
// Errors: as Read.
func (b *Batch) Write(f *File, p []byte, off int64, tag uint64) error {
	o, err := b.add(f, p, off, tag)
	if err == nil {
		o.write = true
	}
	return err
}

// WriteSame queues what [File.WriteSame] does: p is written over and over from byte offset
// off on, n bytes in all. p is copied, and the caller's again at once; that costs an
// allocation. To a server that cannot repeat pages Submit and Wait send all bytes, one such
// operation after another.
//
// Errors: as Read; fs.ErrInvalid as of File.WriteSame.
//
// Source: [LWIO §Vectored Write], [LWIO claim 17], [OP-112]
func (b *Batch) WriteSame(f *File, p []byte, off, n int64, tag uint64) error {
	page, err := f.samePage(p, off, n)
	if err == nil && n > math.MaxInt {
		err = fmt.Errorf("%w: %d bytes at a time", fs.ErrInvalid, n)
	}
	if err != nil {
		return wrap("batch", f.name, err)
	}
	o, err := b.add(f, page, off, tag)
	if err == nil {
		o.size, o.write, o.same = int(n), true, true
	}
	return err
}

// add queues a read, of which the caller may make something else.
func (b *Batch) add(f *File, p []byte, off int64, tag uint64) (*op, error) {
	switch {
	case b.closed:
		return nil, wrap("batch", f.name, fs.ErrClosed)
	case b.Pending() >= len(b.ops):
		return nil, wrap("batch", f.name, ErrBatchFull)
	}
	last := len(b.idle) - 1
	o := b.idle[last]
	b.idle = b.idle[:last]
	o.f, o.p, o.size, o.off, o.tag = f, p, len(p), off, tag
	o.buf = b.c.buffers.of(p)
	b.push(o)
	return o, nil
}

// push queues o.
func (b *Batch) push(o *op) {
	if len(b.queue) == cap(b.queue) {
		b.queue = b.queue[:copy(b.queue, b.queue[b.queued:])]
		b.queued = 0
	}
	b.queue = append(b.queue, o)
}

// Submit sends what is queued, as far as there are credits; Wait sends the rest. It
// waits only for files that are used for the first time, and for an RDMA connection to
// take the place of one that was lost. What goes wrong with an operation is in its
// completion.
func (b *Batch) Submit(ctx context.Context) error {
	if b.closed {
		return wrap("batch", "", fs.ErrClosed)
	}
	err := b.send(ctx, false)
	b.tally()
	b.all(func(l *leg) {
		if l.conn.enter() == nil {
			l.conn.armForOthers() // nobody waits yet, but a Sync may
			l.conn.leave()
		}
	})
	return wrap("batch", "", err)
}

// Pending is how many operations are queued, in flight, or done and not returned by
// Wait.
func (b *Batch) Pending() int { return len(b.ops) - len(b.idle) + len(b.out) - b.offered }

// Wait sends what is queued and returns completions as soon as there are least of
// them, or all that there will be. What it returns is good until the next call of any
// method.
//
// Errors: ctx's, as *Error, together with what is there; operations stay in flight.
func (b *Batch) Wait(ctx context.Context, least int) ([]Completion, error) {
	if b.closed {
		return nil, wrap("batch", "", fs.ErrClosed)
	}
	b.out = b.out[:copy(b.out, b.out[b.offered:])]
	b.offered = 0
	err := b.wait(ctx, min(least, b.Pending()))
	b.tally()
	b.offered = len(b.out)
	return b.out, wrap("batch", "", err)
}

func (b *Batch) wait(ctx context.Context, least int) error {
	for {
		b.reap()
		if err := b.bury(ctx); err != nil {
			return err
		}
		if err := b.send(ctx, len(b.out) < least); err != nil {
			return err
		}
		if len(b.out) >= least {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if b.sent > 0 {
			b.sleep(ctx, least-len(b.out))
		}
	}
}

// tally counts the reads that are over.
func (b *Batch) tally() {
	if b.reads > 0 {
		b.c.overRDMA.reads.Add(b.reads)
		b.c.overRDMA.readBytes.Add(b.readBytes)
		b.reads, b.readBytes = 0, 0
	}
}

// heed lets the end of ctx kick who sleeps on the connection, which may be the batch.
// That costs something, so that it lasts as long as the same context comes again.
func (b *Batch) heed(ctx context.Context, c *conn) {
	if b.over == ctx.Done() && b.heeded == c {
		return
	}
	b.neglect()
	b.over, b.heeded = ctx.Done(), c
	if b.over != nil {
		b.unheed = context.AfterFunc(ctx, c.sleep.Wake)
	}
}

func (b *Batch) neglect() {
	if b.unheed != nil {
		b.unheed()
	}
	b.unheed, b.over, b.heeded = nil, nil, nil
}

// ready reports whether as many operations have come back as somebody waits for, or
// there is something else to see to.
func (b *Batch) ready() bool { return b.count.Load() >= b.need.Load() || b.jolted.Load() }

// Close gives up what is queued or in flight, and takes the memory back. What was
// written then is uncertain. A second Close does nothing.
func (b *Batch) Close() error {
	if !b.closed {
		b.closed = true
		b.neglect()
		b.abandon()
	}
	return nil
}
