package lwio

import (
	"context"

	"lwio/internal/client/fileio"
)

// ErrBatchFull is the error of an operation beyond the size of its Batch.
var ErrBatchFull = fileio.ErrBatchFull

// Batch keeps many reads and writes in flight from one goroutine. ReadAt, WriteAt and WriteSame
// queue operations, Submit sends them together, and Wait returns their completions in any
// order. A Batch is for one goroutine at a time; a program may have many.
//
// The memory of an operation belongs to the batch until Wait has returned its completion, or
// Close has returned; after that a [Buffer] may still be busy. An operation allocates nothing
// if its memory is part of a Buffer, or if it is small. Without RDMA each operation in flight
// has a goroutine. A long WriteSame has one for each part, and starts a part only while fewer
// than 32 operations and parts are in flight. An operation that is not answered within
// Config.Timeout fails.
//
// An operation holds credits from the moment when it is sent until it is answered, even while
// no Wait runs. File.Sync, Truncate, Unlock and Close wait for the writes that were sent. Three
// kinds of operations make progress only in Wait: operations that wait for a credit, operations
// that are sent in part, and operations whose connection broke. So the goroutine that calls Wait
// must not first wait for such operations in another way.
//
// Source: [LWIO §I/O Processing], [OP-113]
type Batch struct{ b *fileio.Batch }

// Completion is the result of an operation of a Batch. It has:
//
//   - Tag, the uint64 tag of the operation.
//   - N, the number of bytes, an int, that were read or written from the beginning.
//   - Err, nil if N is the whole operation; otherwise io.EOF or an *Error, as File.ReadAt and
//     File.WriteAt return.
type Completion = fileio.Completion

// NewBatch returns a batch of up to n operations at a time, at least 1. The caller closes it.
func (c *Client) NewBatch(n int) *Batch { return &Batch{c.c.NewBatch(n)} }

// ReadAt queues a [File.ReadAt] of f into p from byte offset off.
//
// Errors: ErrBatchFull; fs.ErrClosed after Close.
func (b *Batch) ReadAt(f *File, p []byte, off int64, tag uint64) error {
	return b.b.Read(f.f, p, off, tag)
}

// WriteAt queues a [File.WriteAt] of p to f at byte offset off.
//
// Errors: as ReadAt.
func (b *Batch) WriteAt(f *File, p []byte, off int64, tag uint64) error {
	return b.b.Write(f.f, p, off, tag)
}

// WriteSame queues a [File.WriteSame]: n bytes of f from byte offset off become copies of p. It
// copies p, which costs an allocation; the caller may reuse p at once.
//
// Errors: as ReadAt; fs.ErrInvalid as File.WriteSame.
//
// Source: [LWIO §Vectored Write], [LWIO claim 17], [OP-112]
func (b *Batch) WriteSame(f *File, p []byte, off, n int64, tag uint64) error {
	return b.b.WriteSame(f.f, p, off, n, tag)
}

// Submit sends queued operations while there are credits; Wait sends the others. It blocks only
// for the first use of a file, and while a lost RDMA connection is replaced. Errors of
// operations are in their completions.
//
// Errors: *Error with the error of ctx; fs.ErrClosed after Close.
func (b *Batch) Submit(ctx context.Context) error { return b.b.Submit(ctx) }

// Pending returns the number of operations that Wait has not returned yet.
func (b *Batch) Pending() int { return b.b.Pending() }

// Wait sends the queued operations. It returns when there are at least n completions, or
// when all pending operations are complete. The result is valid until the next call of a method
// of the batch.
//
// Errors: *Error with the error of ctx, together with the completions so far; the other
// operations stay in flight. fs.ErrClosed after Close.
func (b *Batch) Wait(ctx context.Context, n int) ([]Completion, error) {
	return b.b.Wait(ctx, n)
}

// Close gives up all pending operations and takes their memory back. The outcome of pending
// writes is unknown. A second Close does nothing.
func (b *Batch) Close() error { return b.b.Close() }
