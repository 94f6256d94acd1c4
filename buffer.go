package lwio

import (
	"context"

	"lwio/internal/client/rdmaconn"
)

// ErrBufferBusy is the error of a read into, or a write from, a Buffer that the server still
// uses, see [Buffer.Busy]. [OP-113]
var ErrBufferBusy = rdmaconn.ErrBufferBusy

// Buffer is memory that is registered once for each connection. Reads into it and writes from
// it, of the whole or of any part, cost neither a copy nor a registration.
//
// All of a Buffer is exposed to the server while it is open. Data that the server must not see
// or change does not belong there. Safe for concurrent use; the caller orders the accesses to
// its bytes.
//
// Source: [LWIO §Read], [OP-91], [OP-111], [OP-113]
type Buffer struct{ b *rdmaconn.Buffer }

// Alloc returns a zeroed Buffer of size bytes, 1 to 2^30, for all files of the client. Its memory
// suits the current RDMA connection best. A later connection can use it too, perhaps less well.
// The caller closes the buffer after its last use, before or after the client.
//
// Errors: *Error: fs.ErrInvalid for another size; the error of ctx while a connection is
// replaced; the error of the system if memory is short.
func (c *Client) Alloc(ctx context.Context, size int) (*Buffer, error) {
	b, err := c.c.Alloc(ctx, size)
	if err != nil {
		return nil, err
	}
	return &Buffer{b}, nil
}

// Bytes returns the memory, which must not be used after Close.
func (b *Buffer) Bytes() []byte { return b.b.Bytes() }

// Busy reports whether the server may still write or read the bytes although no call is in
// flight. That is so after a read or write was given up, or after a connection broke, until the
// server has answered or the connection is torn down. Ask after every error, before the memory
// is used again.
//
// While a buffer is busy because a call was given up, reads into it and writes from it fail with
// ErrBufferBusy. Calls on another connection than a broken one wait until the broken one is torn
// down.
//
// Source: [OP-113]
func (b *Buffer) Busy() bool { return b.b.Busy() }

// Close frees the memory; after its return the server cannot write there. Calls and operations
// that wait fail with fs.ErrClosed. Requests in flight end with their connection and fail in the
// same way; a write may fail with ErrUncertain alone. A call over SMB, a ReadVec and a WriteVec
// may go on to their end; then the memory is freed after that. A second Close does nothing.
func (b *Buffer) Close() error { return b.b.Close() }
