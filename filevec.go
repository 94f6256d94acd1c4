package lwio

import (
	"context"

	"lwio/internal/segments"
)

// ReadVec fills the segments, one after another, from byte offset off, and returns how
// many bytes it read. Segments that are all whole pages of one size, a power of two
// from 512 bytes to 32 KiB, but for the last, are asked for together, up to 256 pages
// with one message; others one by one.
//
// Errors: as ReadAtContext.
//
// Source: [LWIO §Vectored Read]
func (f *File) ReadVec(ctx context.Context, segs [][]byte, off int64) (int, error) {
	return f.vectored(ctx, &arguments{segs: segs, off: off})
}

// WriteVec writes the segments, one after another, at byte offset off, as few messages
// as hold them, and returns how many bytes from the beginning are written for certain.
//
// Errors: as WriteAtContext.
//
// Source: [LWIO §Vectored Write], [OP-112]
func (f *File) WriteVec(ctx context.Context, segs [][]byte, off int64) (int, error) {
	return f.vectored(ctx, &arguments{segs: segs, off: off, write: true})
}

// vectored is ReadVec or WriteVec. The Buffers among the segments are held.
func (f *File) vectored(ctx context.Context, r *arguments) (n int, err error) {
	if r.size = segments.Size(r.segs); r.size > 0 {
		r.page = segments.Page(r.segs)
		var few [4]*Buffer // of most calls
		if r.held, err = f.c.buffers.hold(few[:0], r.segs); err == nil {
			defer letGo(r.held)
		}
	}
	if err == nil {
		n, err = f.perform(ctx, r)
	}
	if err != nil {
		verb := "read"
		if r.write {
			verb = "write"
		}
		return n, f.failed(verb, err)
	}
	return n, nil
}
