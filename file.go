package lwio

import (
	"context"
	"io"
	"io/fs"

	"lwio/internal/client/fileio"
	"lwio/internal/client/smbshare"
)

// File is an open file. Safe for concurrent use; many reads and writes may be in
// flight. Reads and writes that overlap in place and time have no order.
// [OP-92d]
type File struct{ f *fileio.File }

var (
	_ io.ReaderAt = (*File)(nil)
	_ io.WriterAt = (*File)(nil)
	_ io.Closer   = (*File)(nil)
)

// fileOf is a file of the engine as a File.
func fileOf(f *fileio.File, err error) (*File, error) {
	if err != nil {
		return nil, err
	}
	return &File{f}, nil
}

// Unbuffered is a flag for OpenFile, beside those of package os: the server is asked
// not to cache the file, which WriteSame needs. Servers may then insist on offsets and
// sizes that are whole sectors; this project's does not, but for the last segment of
// ReadVec, a multiple of 512 bytes.
//
// Source: [LWIO §Vectored Write], [OP-51], [OP-82]
const Unbuffered = fileio.Unbuffered

// Name is the name that the file was opened by, without a trailing slash.
func (f *File) Name() string { return f.f.Name() }

// Transport describes the carrier of this file's data: that of the client, unless the
// server refused to have this file on RDMA.
func (f *File) Transport() Transport { return Transport(f.f.Transport()) }

// ReadAt is ReadAtContext with the background context.
func (f *File) ReadAt(p []byte, off int64) (int, error) {
	return f.f.ReadAtContext(context.Background(), p, off)
}

// ReadAtContext fills p from byte offset off. It returns n < len(p) only with an
// error. p is exposed to the server's RDMA writes until the call returns, however it
// ends; part of a Buffer may be so for longer, see Buffer.Busy. A read larger
// than the server's window is split, with as many requests in flight as there are
// credits. If the RDMA connection breaks the read goes on over the one that takes its
// place, or over SMB if none does in time.
//
// Errors: io.EOF; *Error otherwise: ctx's error, the status that the server answered,
// net.ErrClosed (wrapped) once the session is gone, fs.ErrClosed for a closed file.
//
// Source: [LWIO §Read], [OP-113]
func (f *File) ReadAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	return f.f.ReadAtContext(ctx, p, off)
}

// WriteAt is WriteAtContext with the background context.
func (f *File) WriteAt(p []byte, off int64) (int, error) {
	return f.f.WriteAtContext(context.Background(), p, off)
}

// WriteAtContext writes p at byte offset off and returns when the server has done
// it; with O_SYNC, when it is on stable storage. After an error n bytes from the
// beginning of p are written for certain. p is not read any more once the call
// returned, unless it is part of a Buffer that is in doubt, see Buffer.Busy. A write
// larger than the server takes in one message is split.
//
// If the RDMA connection breaks, unacknowledged requests are sent again on the one
// that takes its place, under its old number, by which the server does it once. If that one
// takes less in a message than the one before did, a message that is too long for it is
// uncertain: cut in two, it would not be the same write.
//
// Errors: *Error: ErrUncertain together with the cause if the answer did not come, and
// the server cannot be asked for it either, in which case the write is not repeated; the status
// of the server, such as syscall.ENOSPC; net.ErrClosed (wrapped) once the session is
// gone.
//
// Source: [LWIO §Write], [OP-112], [OP-113]
func (f *File) WriteAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	return f.f.WriteAtContext(ctx, p, off)
}

// ReadVec fills the segments, one after another, from byte offset off, and returns how
// many bytes it read. Segments that are all whole pages of one size, a power of two
// from 512 bytes to 32 KiB, but for the last, are asked for together, up to 256 pages
// with one message; others one by one.
//
// Errors: as ReadAtContext.
//
// Source: [LWIO §Vectored Read]
func (f *File) ReadVec(ctx context.Context, segs [][]byte, off int64) (int, error) {
	return f.f.ReadVec(ctx, segs, off)
}

// WriteVec writes the segments, one after another, at byte offset off, as few messages
// as hold them, and returns how many bytes from the beginning are written for certain.
//
// Errors: as WriteAtContext.
//
// Source: [LWIO §Vectored Write], [OP-112]
func (f *File) WriteVec(ctx context.Context, segs [][]byte, off int64) (int, error) {
	return f.f.WriteVec(ctx, segs, off)
}

// WriteSame writes p over and over, from byte offset off on until n bytes are written;
// the last time may be cut. p has 1 to 4096 bytes, a power of two. The file must have
// been opened Unbuffered. Over RDMA a message carries one page, and the
// server repeats it; over SMB alone, or to a server that cannot, all bytes are sent.
//
// It returns how many bytes from the beginning are written for certain.
//
// Errors: as WriteAtContext; fs.ErrInvalid for another size of p, and for a file that
// was not opened Unbuffered.
//
// Source: [LWIO §Vectored Write], [LWIO claim 17], [OP-75], [OP-77], [OP-112]
func (f *File) WriteSame(ctx context.Context, p []byte, off, n int64) (int64, error) {
	return f.f.WriteSame(ctx, p, off, n)
}

// Sync returns when everything that was written before the call is on stable
// storage at the server, over all connections; a write of this File that is
// uncertain, or a Truncate that was given up, is done by then, or never will be.
//
// Source: [OP-92f], [OP-112], [OP-115]
func (f *File) Sync(ctx context.Context) error { return f.f.Sync(ctx) }

// Truncate changes the size, after all earlier writes.
//
// Source: [OP-115]
func (f *File) Truncate(ctx context.Context, size int64) error { return f.f.Truncate(ctx, size) }

// Stat describes the file as it is now. Its Sys is an *Info.
func (f *File) Stat(ctx context.Context) (fs.FileInfo, error) { return infoOf(f.f.Stat(ctx)) }

// Opened describes the file as it was when it was opened, without asking the
// server. Its Sys is an *Info.
func (f *File) Opened() fs.FileInfo {
	return fileInfo{f.f.Opened().(*smbshare.FileInfo)}
}

// Close waits for earlier writes and closes the file at the server, within
// Config.Timeout. Reads that are in flight end with fs.ErrClosed, unless the server has
// begun with them. The error of a second Close is fs.ErrClosed.
//
// Source: [LWIO §Close], [LWIO §Cancel], [OP-115]
func (f *File) Close() error { return f.f.Close() }
