package lwio

import (
	"context"

	"lwio/internal/client/rdmaconn"
)

// ErrBufferBusy is a buffer that is still in use, because a read into it or a write from
// it was given up and not answered yet. [OP-113]
var ErrBufferBusy = rdmaconn.ErrBufferBusy

// Buffer is memory that is registered once for each connection. A read or a write of any
// part of it, by any call, goes there or comes from there without a copy and without
// registering anything.
//
// All of a Buffer is exposed to the server for as long as it is open: data that it may not
// see or change does not belong there. Safe for concurrent use; the caller decides about the use of its
// bytes.
//
// Source: [LWIO §Read], [OP-91], [OP-111], [OP-113]
type Buffer struct{ b *rdmaconn.Buffer }

// Alloc makes a Buffer of size bytes, 1 to 2^30, zeroed, in memory that suits the
// RDMA connection best; it is good for all files of the client. Close it after its
// last use, also after the client. A connection that takes the place of one that was lost
// can use it too, though perhaps not as well as one that was made on it.
//
// Errors: *Error: errors.ErrUnsupported for another size; ctx's error, if it has to wait for
// a connection; that of the system, if it has not so much memory.
func (c *Client) Alloc(ctx context.Context, size int) (*Buffer, error) {
	b, err := c.c.Alloc(ctx, size)
	if err != nil {
		return nil, err
	}
	return &Buffer{b}, nil
}

// Bytes is the memory. It must not be used once Close was called.
func (b *Buffer) Bytes() []byte { return b.b.Bytes() }

// Busy reports whether the bytes may still change, or still be sent as they are when
// their turn comes, though no call is in flight: a read or a write was given up, or a
// connection broke and is not torn down yet. Ask after every error, before the memory
// is used again. Until the server has answered, or the connection is gone, reads into
// a buffer of which something was given up and writes from it fail with ErrBufferBusy. Those
// over another connection than one that broke wait until that is torn down.
//
// Source: [OP-113]
func (b *Buffer) Busy() bool { return b.b.Busy() }

// Close frees the memory, which is not written any more then. A call or an operation of a
// Batch that waits, fails with fs.ErrClosed. Requests in flight end with the
// connection, and fail so too, a write perhaps with ErrUncertain alone. A call that goes over
// SMB, or a ReadVec or WriteVec, may go on to its end: then the memory is freed after that. A
// second Close does nothing.
func (b *Buffer) Close() error { return b.b.Close() }
