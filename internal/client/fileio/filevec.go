package fileio

import (
	"context"

	"lwio/internal/client/rdmaconn"
	"lwio/internal/client/segments"
)

// ReadVec fills the segments one after another from byte offset off.
func (f *File) ReadVec(ctx context.Context, segs [][]byte, off int64) (int, error) {
	return f.vectored(ctx, &arguments{segs: segs, off: off})
}

// WriteVec writes the segments one after another at byte offset off. After an error the first n bytes
// are certainly written.
func (f *File) WriteVec(ctx context.Context, segs [][]byte, off int64) (int, error) {
	return f.vectored(ctx, &arguments{segs: segs, off: off, write: true})
}

// vectored is ReadVec or WriteVec. The Buffers among the segments are held.
func (f *File) vectored(ctx context.Context, r *arguments) (n int, err error) {
	if r.size = segments.Size(r.segs); r.size > 0 {
		r.page = segments.Page(r.segs)
		var few [4]*rdmaconn.Buffer // of most calls
		if r.held, err = f.c.Buffers.Hold(few[:0], r.segs); err == nil {
			defer rdmaconn.ReleaseAll(r.held)
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
