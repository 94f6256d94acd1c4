package fileio

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"

	"lwio/internal/client/base"
)

// ErrBatchFull is one operation more than the batch was made for.
var ErrBatchFull = errors.New("the batch is full")

// Batch is the engine of an lwio.Batch.
type Batch struct {
	q       *queue
	closed  bool
	offered int // completions that the last Wait returned
}

// Completion is the end of an operation of a Batch.
type Completion struct {
	// Tag is the tag of the operation.
	Tag uint64
	// N is how many bytes were read or written, from the beginning.
	N int
	// Err is nil if that is all of them, io.EOF, or an *Error as of ReadAt and WriteAt.
	Err error
}

// NewBatch makes a batch of up to n operations at a time, at least 1. The caller closes it.
func (c *Client) NewBatch(n int) *Batch { return &Batch{q: c.newQueue(max(n, 1))} }

// Read queues a read of f into p from byte offset off. p belongs to the batch until the completion.
func (b *Batch) Read(f *File, p []byte, off int64, tag uint64) error {
	return b.add(f, &arguments{p: p, size: len(p), off: off}, tag)
}

// Write queues a write of p to f at byte offset off. p belongs to the batch until the completion.
func (b *Batch) Write(f *File, p []byte, off int64, tag uint64) error {
	return b.add(f, &arguments{p: p, size: len(p), off: off, write: true}, tag)
}

// WriteSame queues a write of n bytes at offset off that repeats p. p is copied.
func (b *Batch) WriteSame(f *File, p []byte, off, n int64, tag uint64) error {
	page, err := f.samePage(p, off, n)
	if err == nil && n > math.MaxInt {
		err = fmt.Errorf("%w: %d bytes at a time", fs.ErrInvalid, n)
	}
	if err != nil {
		return base.Wrap("batch", f.name, err)
	}
	return b.add(f, &arguments{p: page, size: int(n), off: off, write: true, same: true}, tag)
}

func (b *Batch) add(f *File, r *arguments, tag uint64) error {
	switch {
	case b.closed:
		return base.Wrap("batch", f.name, fs.ErrClosed)
	case b.Pending() >= len(b.q.ops):
		return base.Wrap("batch", f.name, ErrBatchFull)
	}
	b.q.push(b.q.add(f, r, tag))
	return nil
}

// Submit sends the queued operations for which there are credits.
func (b *Batch) Submit(ctx context.Context) error {
	if b.closed {
		return base.Wrap("batch", "", fs.ErrClosed)
	}
	err := b.q.send(ctx, false)
	b.q.tally()
	b.q.flights.all(func(l *flight) {
		if l.Conn.Pin() == nil {
			l.Conn.PollForOthers() // a Sync may wait for these operations before a Wait does
			l.Conn.Unpin()
		}
	})
	return base.Wrap("batch", "", err)
}

// Pending returns the number of operations whose completions Wait has not returned.
func (b *Batch) Pending() int { return len(b.q.ops) - len(b.q.idle) + len(b.q.out) - b.offered }

// Wait sends the queued operations and returns completions, at least that many if so many operations
// are pending. The slice is valid until the next Wait.
func (b *Batch) Wait(ctx context.Context, least int) ([]Completion, error) {
	if b.closed {
		return nil, base.Wrap("batch", "", fs.ErrClosed)
	}
	b.q.out = b.q.out[:copy(b.q.out, b.q.out[b.offered:])]
	b.offered = 0
	err := b.q.wait(ctx, min(least, b.Pending()))
	b.q.tally()
	b.offered = len(b.q.out)
	return b.q.out, base.Wrap("batch", "", err)
}

// Close gives up all operations and takes their memory back. A second Close does nothing.
func (b *Batch) Close() error {
	if !b.closed {
		b.closed = true
		b.q.Close()
	}
	return nil
}
