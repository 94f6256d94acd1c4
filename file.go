package lwio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"sync/atomic"

	"lwio/internal/epochs"
	"lwio/internal/ntstatus"
)

// File is an open file. Safe for concurrent use; many reads and writes may be in
// flight. Reads and writes that overlap in place and time have no order.
// [OP-92d]
type File struct {
	c       *Client
	name    string
	h       handle
	options uint32
	closed  atomic.Bool
	writes  epochs.Epochs // what Sync, Truncate, Unlock and Close wait for

	regs        []atomic.Pointer[registration] // of each rail
	registering []chan struct{}                // of each rail: holds a token while somebody registers
}

var (
	_ io.ReaderAt = (*File)(nil)
	_ io.WriterAt = (*File)(nil)
	_ io.Closer   = (*File)(nil)
)

// Name is the name that the file was opened by, without a trailing slash.
func (f *File) Name() string { return f.name }

// Transport says what carries this file's data: that of the client, unless the
// server refused to have this file on RDMA.
func (f *File) Transport() Transport {
	t := f.c.Transport()
	for i := range f.regs {
		if g := f.regs[i].Load(); g != nil && g.fid == 0 && !g.conn.isDown() && t.RDMA() {
			return Transport{Name: TransportSMB, Reason: g.why}
		}
	}
	return t
}

// ReadAt is ReadAtContext with the background context.
func (f *File) ReadAt(p []byte, off int64) (int, error) {
	return f.ReadAtContext(context.Background(), p, off)
}

// ReadAtContext fills p from byte offset off. It returns n < len(p) only with an
// error. p is lent to the server's RDMA writes until the call returns, whatever
// ends it; part of a Buffer may be so for longer, see Buffer.InDoubt. A read larger
// than the server's window is split, with as many requests in flight as there are
// credits. If the RDMA connection breaks the read goes on over the one that takes its
// place, or over SMB if none does in time.
//
// Errors: io.EOF; *Error otherwise: ctx's error, what the server answered,
// net.ErrClosed (wrapped) once the session is gone, fs.ErrClosed for a closed file.
//
// Source: [LWIO §Read], [OP-113]
func (f *File) ReadAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	n, err := f.perform(ctx, &arguments{p: p, size: len(p), off: off})
	if err != nil {
		return n, f.failed("read", err)
	}
	return n, nil
}

// WriteAt is WriteAtContext with the background context.
func (f *File) WriteAt(p []byte, off int64) (int, error) {
	return f.WriteAtContext(context.Background(), p, off)
}

// WriteAtContext writes p at byte offset off and returns when the server has done
// it; with O_SYNC, when it is on stable storage. After an error n bytes from the
// beginning of p are written for certain. p is not read any more once the call
// returned, unless it is part of a Buffer that is in doubt, see Buffer.InDoubt. A write
// larger than the server takes in one message is split.
//
// If the RDMA connection breaks, what was sent and not answered is sent again on the one
// that takes its place, under its old number, by which the server does it once. If that one
// takes less in a message than the one before did, a message that is too long for it is
// uncertain: cut in two, it would not be the same write.
//
// Errors: *Error: ErrUncertain together with the cause if the answer did not come, and
// the server cannot be asked for it either, in which case the write is not repeated; what
// the server answered, such as syscall.ENOSPC; net.ErrClosed (wrapped) once the session is
// gone.
//
// Source: [LWIO §Write], [OP-112], [OP-113]
func (f *File) WriteAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	n, err := f.perform(ctx, &arguments{p: p, size: len(p), off: off, write: true})
	if err != nil {
		return n, f.failed("write", err)
	}
	return n, nil
}

// check refuses what need not go on the wire.
func (f *File) check(ctx context.Context, off int64, n int) error {
	if f.closed.Load() {
		return fs.ErrClosed
	}
	if f.c.closed.Load() {
		return errClientClosed
	}
	if err := checkRange(off, n); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// Sync returns when everything that was written before the call is on stable
// storage at the server, over whatever connection it went; a write of this File that is
// uncertain, or a Truncate that was given up, is done by then, or never will be.
//
// Source: [OP-92f], [OP-112], [OP-115]
func (f *File) Sync(ctx context.Context) error {
	return wrap("sync", f.name, f.ordered(ctx, func(ctx context.Context) error { return f.h.flush(ctx) }))
}

// Truncate changes the size, after all earlier writes.
//
// Source: [OP-115]
func (f *File) Truncate(ctx context.Context, size int64) error {
	if size < 0 {
		return wrap("truncate", f.name, errRange)
	}
	return wrap("truncate", f.name, f.ordered(ctx, func(ctx context.Context) error { return f.h.setSize(ctx, size) }))
}

// ordered calls do after all earlier writes, those included that lost connections may
// still carry, and those that were given up over SMB and are not answered.
func (f *File) ordered(ctx context.Context, do func(ctx context.Context) error) error {
	if err := f.check(ctx, 0, 0); err != nil {
		return err
	}
	ctx, cancel := f.c.cfg.bounded(ctx)
	defer cancel()
	if err := f.writes.Wait(ctx); err != nil {
		return err
	}
	if err := f.c.fence(ctx); err != nil {
		return err
	}
	if err := f.h.settle(ctx); err != nil {
		return err
	}
	return do(ctx)
}

// Stat describes the file as it is now. Sys of what it returns is an *Info.
func (f *File) Stat(ctx context.Context) (fs.FileInfo, error) {
	if err := f.check(ctx, 0, 0); err != nil {
		return nil, wrap("stat", f.name, err)
	}
	ctx, cancel := f.c.cfg.bounded(ctx)
	defer cancel()
	e, err := f.h.stat(ctx)
	if err != nil {
		return nil, wrap("stat", f.name, err)
	}
	return infoOf(f.name, e), nil
}

// Opened describes the file as it was when it was opened, without asking the
// server. Sys of what it returns is an *Info.
func (f *File) Opened() fs.FileInfo { return infoOf(f.name, f.h.created()) }

// Close waits for earlier writes and closes the file at the server, within
// Config.Timeout. Reads that are in flight end with fs.ErrClosed, unless the server has
// begun with them. The error of a second Close is fs.ErrClosed.
//
// Source: [LWIO §Close], [LWIO §Cancel], [OP-115]
func (f *File) Close() error {
	if f.closed.Swap(true) {
		return wrap("close", f.name, fs.ErrClosed)
	}
	ctx, cancel := context.WithTimeout(context.Background(), f.c.cfg.Timeout)
	defer cancel()
	err := f.writes.Wait(ctx)
	for i := range f.regs {
		if g := f.regs[i].Load(); g != nil && g.fid != 0 {
			g.conn.closeFid(g.fid)
		}
	}
	if e := closeHandle(ctx, &f.c.cfg, f.h); err == nil {
		err = e
	}
	return wrap("close", f.name, err)
}

// failed makes an *Error of what ended an operation: what the server gave up, or
// was not asked for, because the file was closed meanwhile is fs.ErrClosed.
func (f *File) failed(op string, err error) error {
	if err != nil && f.closed.Load() &&
		(errors.Is(err, ntstatus.Cancelled) || errors.Is(err, ntstatus.RangeNotLocked) || errors.Is(err, ntstatus.FileClosed)) {
		err = fs.ErrClosed
	}
	return wrap(op, f.name, err)
}

// isLost reports whether err is the end of an RDMA connection.
func isLost(err error) bool {
	if err == nil {
		return false // without the allocation that errors.As needs
	}
	var lost *lostError
	return errors.As(err, &lost)
}

func isUncertain(err error) bool { return errors.Is(err, ErrUncertain) }

// errRange is an offset or a size that no file has.
var errRange = fmt.Errorf("%w: no file has such a range", fs.ErrInvalid)

// checkRange refuses offsets that no file has. [OP-92c]
func checkRange(off int64, n int) error {
	if off < 0 || off > math.MaxInt64-int64(n) {
		return errRange
	}
	return nil
}
