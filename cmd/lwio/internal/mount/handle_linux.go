package mount

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"syscall"

	fusefs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"lwio"
)

// handle is an open file of the mount.
type handle struct {
	n      *node
	f      *lwio.File
	writes bool
}

var _ interface {
	fusefs.FileReader
	fusefs.FileWriter
	fusefs.FileFsyncer
	fusefs.FileReleaser
	fusefs.FileAllocater
} = (*handle)(nil)

// Read reads into a registered buffer, or into the memory of the request if there is none.
func (h *handle) Read(ctx context.Context, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	ctx = within(ctx)
	m := h.n.m
	buf := m.buffers.take(ctx, len(dest))
	if buf == nil {
		n, err := h.f.ReadAtContext(ctx, dest, off)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, errnoOf(err)
		}
		return fuse.ReadResultData(dest[:n]), 0
	}
	n, err := h.f.ReadAtContext(ctx, buf.Bytes()[:len(dest)], off)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		m.buffers.give(buf)
		return nil, errnoOf(err)
	case n == 0:
		m.buffers.give(buf)
		return fuse.ReadResultData(nil), 0
	}
	return &readResult{m.buffers, buf, n}, 0
}

// Write writes from a registered buffer, or from the memory of the request if there is none.
func (h *handle) Write(ctx context.Context, data []byte, off int64) (uint32, syscall.Errno) {
	ctx = within(ctx)
	m := h.n.m
	from := data
	if buf := m.buffers.take(ctx, len(data)); buf != nil {
		defer m.buffers.give(buf)
		from = buf.Bytes()[:copy(buf.Bytes(), data)]
	}
	n, err := h.f.WriteAtContext(ctx, from, off)
	if n > 0 {
		return uint32(n), 0 // the error comes with the next write
	}
	return 0, errnoOf(err)
}

// Fsync returns when all writes of the file are on stable storage. SMB syncs by handles for writing only. A file that the
// user may not write has no writes of this mount.
func (h *handle) Fsync(ctx context.Context, _ uint32) syscall.Errno {
	ctx, cancel := h.n.m.bounded(ctx)
	defer cancel()
	if h.writes {
		return errnoOf(h.f.Sync(ctx))
	}
	if f := h.n.opens.any(true); f != nil {
		if err := f.Sync(ctx); !errors.Is(err, fs.ErrClosed) {
			return errnoOf(err)
		}
	}
	err := h.n.withWriter(ctx, func(f *lwio.File) error { return f.Sync(ctx) })
	if errors.Is(err, fs.ErrPermission) {
		return 0
	}
	return errnoOf(err)
}

// Allocate extends the file. It reserves no space: SMB has no such request.
func (h *handle) Allocate(ctx context.Context, off, size uint64, mode uint32) syscall.Errno {
	switch {
	case mode&^unix.FALLOC_FL_KEEP_SIZE != 0:
		return syscall.EOPNOTSUPP
	case mode == unix.FALLOC_FL_KEEP_SIZE:
		return 0
	}
	ctx = within(ctx)
	i, err := h.f.Stat(ctx)
	if err == nil && uint64(i.Size()) < off+size {
		err = h.f.Truncate(ctx, int64(off+size))
	}
	return errnoOf(err)
}

// Release closes the file, and removes it if it has no name any more.
func (h *handle) Release(ctx context.Context) syscall.Errno {
	err := h.f.Close()
	if hidden := h.n.opens.remove(h).path(); hidden != "" {
		err = errors.Join(err, h.n.m.c.Remove(within(ctx), hidden))
	}
	if err != nil {
		h.n.m.log.Warn("mount: close of a file", "file", h.f.Name(), "err", err)
	}
	return errnoOf(err)
}
