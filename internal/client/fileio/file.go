package fileio

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"sync/atomic"

	"lwio/internal/client/barrier"
	"lwio/internal/client/base"
	"lwio/internal/client/rdmaconn"
	"lwio/internal/client/smbshare"
	"lwio/internal/ntstatus"
)

// File is the engine of an lwio.File. Safe for concurrent use.
// [OP-92d]
type File struct {
	c       *Client
	name    string
	h       smbshare.Handle
	options uint32
	closed  atomic.Bool
	writes  barrier.Barrier // Sync, Truncate, Unlock and Close wait for it
	syncs   fileSyncs
	// smbCalls counts the file calls before the first registration.
	smbCalls atomic.Uint32

	regs        []atomic.Pointer[registration] // of each path
	registering []chan struct{}                // of each path: holds a token while a goroutine registers
}

var (
	_ io.ReaderAt = (*File)(nil)
	_ io.WriterAt = (*File)(nil)
	_ io.Closer   = (*File)(nil)
)

// Name returns the cleaned name by which the file was opened.
func (f *File) Name() string { return f.name }

// Transport returns the transport of the client, or SMB with a reason if the server refused to
// register the file on a path that is up.
func (f *File) Transport() base.Transport {
	t := f.c.Transport()
	for i := range f.regs {
		if g := f.regs[i].Load(); g != nil && g.fid == 0 && !g.conn.IsDown() && t.RDMA() {
			return base.Transport{Name: base.TransportSMB, Reason: g.why, Encryption: f.c.sess.Encryption()}
		}
	}
	return t
}

// ReadAt is ReadAtContext without a deadline of the caller.
func (f *File) ReadAt(p []byte, off int64) (int, error) {
	return f.ReadAtContext(context.Background(), p, off)
}

// ReadAtContext fills p from byte offset off by one operation of a queue. n < len(p) only with an
// error.
func (f *File) ReadAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	n, err := f.perform(ctx, &arguments{p: p, size: len(p), off: off})
	if err != nil {
		return n, f.failed("read", err)
	}
	return n, nil
}

// WriteAt is WriteAtContext without a deadline of the caller.
func (f *File) WriteAt(p []byte, off int64) (int, error) {
	return f.WriteAtContext(context.Background(), p, off)
}

// WriteAtContext writes p at byte offset off by one operation of a queue. After an error the first n
// bytes of p are certainly written.
func (f *File) WriteAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	n, err := f.perform(ctx, &arguments{p: p, size: len(p), off: off, write: true})
	if err != nil {
		return n, f.failed("write", err)
	}
	return n, nil
}

// check refuses calls that need not go on the wire.
func (f *File) check(ctx context.Context, off int64, n int) error {
	if f.closed.Load() {
		return fs.ErrClosed
	}
	if f.c.Closed.Load() {
		return base.ErrClientClosed
	}
	if err := base.CheckRange(off, n); err != nil {
		return err
	}
	if err := f.h.Err(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// Sync flushes the file after all earlier writes.
func (f *File) Sync(ctx context.Context) error {
	begun := f.writes.Begun() // their data is part of the sync
	return base.Wrap("sync", f.name, f.ordered(ctx, func(ctx context.Context) error { return f.sync(ctx, begun) }))
}

// Truncate changes the size of the file over SMB after all earlier writes.
func (f *File) Truncate(ctx context.Context, size int64) error {
	if size < 0 {
		return base.Wrap("truncate", f.name, base.ErrRange)
	}
	return base.Wrap("truncate", f.name, f.ordered(ctx, func(ctx context.Context) error {
		defer f.writes.Begin().End()
		return f.h.SetSize(ctx, size)
	}))
}

// ordered calls do after all earlier writes, those included that lost connections may
// still carry, and those that were given up over SMB and are not answered.
func (f *File) ordered(ctx context.Context, do func(ctx context.Context) error) error {
	if err := f.check(ctx, 0, 0); err != nil {
		return err
	}
	ctx, cancel := f.c.Cfg.Bounded(ctx)
	defer cancel()
	if err := f.awaitWrites(ctx); err != nil {
		return err
	}
	if err := f.c.Fence(ctx); err != nil {
		return err
	}
	if err := f.h.Settle(ctx); err != nil {
		return err
	}
	return do(ctx)
}

// awaitWrites waits for all earlier writes. The answers to submitted writes of a Batch are delivered
// meanwhile, though no goroutine waits for the completions.
//
// Source: [OP-115]
func (f *File) awaitWrites(ctx context.Context) error {
	if f.writes.Pending() {
		defer f.requirePollers()()
	}
	return f.writes.Wait(ctx)
}

// requirePollers has the answers on the connections of the file delivered, until the function that it
// returns is called.
func (f *File) requirePollers() (release func()) {
	var used []*rdmaconn.Conn
	for i := range f.regs {
		if g := f.regs[i].Load(); g != nil && g.fid != 0 && g.conn.RequirePoller() {
			used = append(used, g.conn)
		}
	}
	return func() {
		for _, c := range used {
			c.ReleasePoller()
		}
	}
}

// Stat asks the server to describe the open file.
func (f *File) Stat(ctx context.Context) (fs.FileInfo, error) {
	if err := f.check(ctx, 0, 0); err != nil {
		return nil, base.Wrap("stat", f.name, err)
	}
	ctx, cancel := f.c.Cfg.Bounded(ctx)
	defer cancel()
	e, err := f.describe(ctx)
	if err != nil {
		return nil, base.Wrap("stat", f.name, err)
	}
	return smbshare.InfoOf(f.name, e), nil
}

// OpenInfo describes the file as the answer to its CREATE did, without a request.
func (f *File) OpenInfo() fs.FileInfo { return smbshare.InfoOf(f.name, f.h.Created()) }

// Close waits for earlier writes, ends the registrations of the file on all paths, and closes its SMB
// handle, within Config.Timeout. A second Close fails with fs.ErrClosed.
func (f *File) Close() error {
	if f.closed.Swap(true) {
		return base.Wrap("close", f.name, fs.ErrClosed)
	}
	ctx, cancel := context.WithTimeout(context.Background(), f.c.Cfg.Timeout)
	defer cancel()
	err := f.awaitWrites(ctx)
	for i := range f.regs {
		if g := f.regs[i].Load(); g != nil && g.fid != 0 {
			g.conn.CloseFid(g.fid)
		}
	}
	if e := closeHandle(ctx, &f.c.Cfg, f.h); err == nil {
		err = e
	}
	return base.Wrap("close", f.name, err)
}

// failed makes an *Error of the end of an operation: a request that the server gave up, or
// did not get, because the file was closed meanwhile is fs.ErrClosed.
func (f *File) failed(op string, err error) error {
	if err != nil && f.closed.Load() &&
		(errors.Is(err, ntstatus.Cancelled) || errors.Is(err, ntstatus.RangeNotLocked) || errors.Is(err, ntstatus.FileClosed)) {
		err = fs.ErrClosed
	}
	return base.Wrap(op, f.name, err)
}
