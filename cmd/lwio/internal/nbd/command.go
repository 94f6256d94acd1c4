package nbd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"lwio/cmd/lwio/internal/nbd/nbdwire"
)

// allowed are the flags that a command may have. FlagFUA is allowed with all: clients set it on commands that
// write nothing.
//
// Source: [NBD §Command flags]
func (t *transmission) allowed(c nbdwire.Command) nbdwire.CommandFlags {
	switch c {
	case nbdwire.CmdRead:
		if t.structured {
			return nbdwire.FlagFUA | nbdwire.FlagDF // a reply to a read is always one chunk
		}
	case nbdwire.CmdWriteZeroes:
		return nbdwire.FlagFUA | nbdwire.FlagNoHole | nbdwire.FlagFastZero
	}
	return nbdwire.FlagFUA
}

// check returns the error of a request that is refused.
//
// Source: [NBD §Error values]
func (t *transmission) check(r nbdwire.Request) error {
	beyond := nbdwire.EINVAL
	switch r.Command {
	case nbdwire.CmdRead, nbdwire.CmdCache, nbdwire.CmdDisc:
	case nbdwire.CmdFlush:
		if r.Offset != 0 || r.Length != 0 {
			return refusal{nbdwire.EINVAL, "a flush has neither an offset nor a length"}
		}
	case nbdwire.CmdWrite, nbdwire.CmdWriteZeroes:
		beyond = nbdwire.ENOSPC
		if t.export.cfg.ReadOnly {
			return refusal{nbdwire.EPERM, "the export is read-only"}
		}
	default:
		return refusal{nbdwire.EINVAL, r.Command.String() + " is not offered"}
	}
	if unknown := r.Flags &^ t.allowed(r.Command); unknown != 0 {
		return refusal{nbdwire.EINVAL, fmt.Sprintf("flags %#x of %v", uint16(unknown), r.Command)}
	}
	if size := t.export.size; r.Offset > size || uint64(r.Length) > size-r.Offset {
		return refusal{beyond, fmt.Sprintf("offset %d and length %d in an export of %d bytes", r.Offset, r.Length, size)}
	}
	if (r.Command == nbdwire.CmdRead || r.Command == nbdwire.CmdWrite) && r.Length > maxRequest {
		return refusal{nbdwire.EINVAL, fmt.Sprintf("%d bytes where %d are allowed", r.Length, maxRequest)}
	}
	return nil
}

// command does a request that is neither a read nor a write. Precondition: check returned nil.
func (t *transmission) command(ctx context.Context, r nbdwire.Request) (err error) {
	switch r.Command {
	case nbdwire.CmdFlush:
		err = t.export.flush(ctx)
	case nbdwire.CmdCache:
		err = t.export.cache(ctx, int64(r.Offset), int64(r.Length))
	case nbdwire.CmdWriteZeroes:
		err = t.export.zero(ctx, r)
	}
	if err != nil && !errors.As(err, new(refusal)) {
		t.log.Warn("nbd: request failed", "command", r.Command, "offset", r.Offset, "length", r.Length, "err", err)
	}
	return err
}

// flush returns when the writes that were answered before are on stable storage.
func (e *Export) flush(ctx context.Context) error {
	if e.cfg.ReadOnly {
		return nil
	}
	covered := e.written.Load()
	if err := e.again(ctx, func(f *files) error { return f.plain.Sync(ctx) }); err != nil {
		return err
	}
	for {
		before := e.flushed.Load()
		if covered <= before || e.flushed.CompareAndSwap(before, covered) {
			return nil
		}
	}
}

// cacheStep is the size of the reads of a CACHE, in bytes.
const cacheStep = 1 << 20

// cache makes the server of the share read a range, so that its system has it in memory.
//
// Source: [NBD §Request types]
func (e *Export) cache(ctx context.Context, off, n int64) error {
	p := make([]byte, min(n, cacheStep))
	for ; n > 0; off, n = off+int64(len(p)), n-int64(len(p)) {
		p = p[:min(n, cacheStep)]
		if err := e.again(ctx, func(f *files) error {
			_, err := f.plain.ReadAtContext(ctx, p, off)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// errSlowZero refuses a WRITE_ZEROES that must be faster than a write.
var errSlowZero = refusal{nbdwire.ENOTSUP, "zeroes are written like data"}

// zeroPage is the page that WriteSame repeats.
var zeroPage [4096]byte

// zero fills a range with zeroes, which the server of the share writes like data.
//
// Source: [NBD §Request types]
func (e *Export) zero(ctx context.Context, r nbdwire.Request) error {
	if r.Flags&nbdwire.FlagFastZero != 0 {
		return errSlowZero
	}
	off, end := int64(r.Offset), int64(r.Offset)+int64(r.Length)
	err := e.again(ctx, func(f *files) error {
		_, err := f.zeroing.WriteSame(ctx, zeroPage[:], off, end-off)
		if err == nil && !e.wrote(f) {
			return fs.ErrClosed // and do it again
		}
		return err
	})
	if err != nil {
		return err
	}
	if r.Flags&nbdwire.FlagFUA != 0 {
		return e.flush(ctx)
	}
	return nil
}
