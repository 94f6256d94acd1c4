package lwio

import (
	"context"

	"lwio/internal/client/fileio"
)

// ErrBatchFull is one operation more than the batch was made for.
var ErrBatchFull = fileio.ErrBatchFull

// Batch keeps many reads and writes in flight from one goroutine. Operations are
// queued with Read, Write and WriteSame, sent by Submit, many with one system call, and come
// back from Wait in any order. None costs an allocation if its memory is part of a [Buffer],
// or small. Over SMB alone each operation in flight has a goroutine.
//
// The memory of an operation is the batch's until Wait has returned its completion, or
// Close has; a [Buffer] may then be in doubt. An operation that is not answered within
// Config.Timeout fails. A Batch is for one goroutine at a time; many may be in use.
//
// Operations hold credits only from when they are sent until they are answered,
// whether or not Wait is called. File.Sync, Truncate, Unlock and Close wait for writes that
// were sent. An operation that takes more requests than there were credits for, and the operations
// of a connection that broke go on in Wait alone: a goroutine that is to call Wait must
// not wait for those first.
//
// Source: [LWIO §I/O Processing], [OP-113]
type Batch struct{ b *fileio.Batch }

// Completion is the end of an operation of a Batch:
//
//   - Tag is the tag of the operation, a uint64.
//   - N is how many bytes were read or written, from the beginning.
//   - Err is nil if that is all of them, io.EOF, or an *Error as of ReadAt and WriteAt.
type Completion = fileio.Completion

// NewBatch makes a batch of up to n operations at a time, at least 1. Close it.
func (c *Client) NewBatch(n int) *Batch { return &Batch{c.c.NewBatch(n)} }

// Read queues a read of f into p from byte offset off.
//
// Errors: ErrBatchFull; fs.ErrClosed once the batch is closed.
func (b *Batch) Read(f *File, p []byte, off int64, tag uint64) error {
	return b.b.Read(f.f, p, off, tag)
}

// Write queues a write of p to f at byte offset off.
//
// Errors: as Read.
func (b *Batch) Write(f *File, p []byte, off int64, tag uint64) error {
	return b.b.Write(f.f, p, off, tag)
}

// WriteSame queues a [File.WriteSame]: p is written over and over from byte offset
// off on, n bytes in all. p is copied, and the caller's again at once; that costs an
// allocation.
//
// Errors: as Read; fs.ErrInvalid as of File.WriteSame.
//
// Source: [LWIO §Vectored Write], [LWIO claim 17], [OP-112]
func (b *Batch) WriteSame(f *File, p []byte, off, n int64, tag uint64) error {
	return b.b.WriteSame(f.f, p, off, n, tag)
}

// Submit sends the queued operations, as far as there are credits; Wait sends the rest. It
// waits only for files that are used for the first time, and for an RDMA connection to
// take the place of one that was lost. The error of an operation is in its
// completion.
func (b *Batch) Submit(ctx context.Context) error { return b.b.Submit(ctx) }

// Pending is how many operations are queued, in flight, or done and not returned by
// Wait.
func (b *Batch) Pending() int { return b.b.Pending() }

// Wait sends the queued operations and returns completions as soon as there are least of
// them, or all that there will be. The completions are good until the next call of any
// method.
//
// Errors: ctx's, as *Error, together with the completions so far; operations stay in flight.
func (b *Batch) Wait(ctx context.Context, least int) ([]Completion, error) {
	return b.b.Wait(ctx, least)
}

// Close gives up everything that is queued or in flight, and takes the memory back. The outcome of its
// writes is unknown. A second Close does nothing.
func (b *Batch) Close() error { return b.b.Close() }
