package lwio

import (
	"context"
	"io"

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
	return f.vectored(ctx, "read", segs, off, (*File).readVecOne)
}

// vecOne reads or writes segments of so many bytes together over one connection at a time.
type vecOne func(f *File, ctx context.Context, segs [][]byte, total int, off int64) (int, error)

// vectored is ReadVec or WriteVec: the Buffers among the segments are held, and several
// connections take part where there is enough for them.
func (f *File) vectored(ctx context.Context, op string, segs [][]byte, off int64, one vecOne) (n int, err error) {
	defer func() {
		if err != nil {
			err = f.failed(op, err)
		}
	}()
	total := segments.Size(segs)
	if err := f.check(ctx, off, total); err != nil || total == 0 {
		return 0, err
	}
	var few [4]*Buffer // of most calls
	held, err := f.c.buffers.hold(few[:0], segs)
	if err != nil {
		return 0, err
	}
	defer letGo(held)
	if rails := f.c.stripes(total); rails > 1 {
		return striped(rails, total, func(at, n int) (int, error) {
			return one(f, ctx, segments.Part(segs, at, n), n, off+int64(at))
		})
	}
	return one(f, ctx, segs, total, off)
}

// readVecOne reads total bytes over one connection at a time.
func (f *File) readVecOne(ctx context.Context, segs [][]byte, total int, off int64) (int, error) {
	cn, fid, err := f.lane(ctx)
	if err != nil {
		return 0, err
	}
	done := 0
	var of *Buffer
	if page := segments.Page(segs); cn != nil && page > 0 {
		done, err = cn.readVec(ctx, fid, segs, page, off, &of)
		if done > 0 || err == nil {
			f.c.overRDMA.read(done)
		}
		if done == total || err != nil && !isLost(err) {
			return done, err
		}
		if err != nil {
			if err := f.lost(ctx, cn); err != nil {
				return done, err
			}
		}
	}
	// What is left: after a short answer, or what goes another way.
	return f.eachSegment(ctx, segs, off, done, of, f.read)
}

// WriteVec writes the segments, one after another, at byte offset off, as few messages
// as hold them, and returns how many bytes from the beginning are written for certain.
//
// Errors: as WriteAtContext.
//
// Source: [LWIO §Vectored Write], [OP-112]
func (f *File) WriteVec(ctx context.Context, segs [][]byte, off int64) (int, error) {
	return f.vectored(ctx, "write", segs, off, (*File).writeVecOne)
}

// writeVecOne writes total bytes over one connection at a time.
func (f *File) writeVecOne(ctx context.Context, segs [][]byte, total int, off int64) (int, error) {
	cn, fid, err := f.lane(ctx)
	if err != nil {
		return 0, err
	}
	done := 0
	var of *Buffer
	if cn != nil {
		var owed *debt
		done, owed, err = cn.writeVec(ctx, fid, segs, off, &of, &f.writes)
		if owed != nil {
			done, err = f.repay(ctx, done, owed, err)
		}
		if done > 0 || err == nil {
			f.c.overRDMA.wrote(done)
		}
		// What is uncertain is not sent again.
		if done == total || err != nil && !isLost(err) || isUncertain(err) {
			return done, err
		}
	}
	return f.eachSegment(ctx, segs, off, done, of, f.write)
}

// eachSegment does the segments one by one, without the first done bytes. of is the Buffer
// that they were found to be part of, or nil.
func (f *File) eachSegment(ctx context.Context, segs [][]byte, off int64, done int, of *Buffer,
	do func(ctx context.Context, p []byte, off int64, of *Buffer) (int, error),
) (int, error) {
	skip := done
	for _, p := range segs {
		if skip >= len(p) {
			skip -= len(p)
			continue
		}
		n, err := do(ctx, p[skip:], off+int64(done), of)
		done += n
		if err == nil && n < len(p)-skip {
			err = io.ErrNoProgress
		}
		if err != nil {
			return done, err
		}
		skip = 0
	}
	return done, nil
}
