package lwio

import (
	"context"
	"io"
	"io/fs"

	"lwio/internal/client/fileio"
	"lwio/internal/client/smbshare"
)

// File is an open file. It has no position: io.NewSectionReader and io.NewOffsetWriter give it
// one. Safe for concurrent use; many reads and writes may be in flight. Reads and writes of the
// same bytes at the same time have no order. [OP-92d]
type File struct{ f *fileio.File }

var (
	_ io.ReaderAt = (*File)(nil)
	_ io.WriterAt = (*File)(nil)
	_ io.Closer   = (*File)(nil)
)

// fileOf returns a file of the engine as a File.
func fileOf(f *fileio.File, err error) (*File, error) {
	if err != nil {
		return nil, err
	}
	return &File{f}, nil
}

// Unbuffered is a flag of OpenFile beside those of package os. It asks the server not to cache
// the file; WriteSame needs it. Servers of other projects may then require offsets and sizes of
// whole sectors; a server of this project does not.
//
// Source: [LWIO §Vectored Write], [OP-51], [OP-82]
const Unbuffered = fileio.Unbuffered

// Name returns the name by which the file was opened, without a trailing slash.
func (f *File) Name() string { return f.f.Name() }

// Transport describes how the data of this file moves. It is the transport of the client,
// unless the server refused to register this file.
func (f *File) Transport() Transport { return transportOf(f.f.Transport()) }

// ReadAt is ReadAtContext with context.Background, bounded by Config.Timeout.
func (f *File) ReadAt(p []byte, off int64) (int, error) {
	return f.f.ReadAtContext(context.Background(), p, off)
}

// ReadAtContext fills p from byte offset off, as io.ReaderAt does: n < len(p) only with an
// error. A read larger than the server's window is split into several requests, which are in
// flight together as credits allow. If the RDMA connection breaks, the read continues on the
// connection that replaces it, or over SMB if none does in time.
//
// The server can write to p by RDMA until the call returns. It can write to part of a Buffer
// for longer, see [Buffer.Busy].
//
// Errors: io.EOF; otherwise *Error: the error of ctx, the status of the server, fs.ErrClosed for a
// closed file, ErrStale for one that the server does not keep, net.ErrClosed (wrapped) for a client
// whose SMB session is lost for good.
//
// Source: [LWIO §Read], [OP-113]
func (f *File) ReadAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	return f.f.ReadAtContext(ctx, p, off)
}

// WriteAt is WriteAtContext with context.Background, bounded by Config.Timeout.
func (f *File) WriteAt(p []byte, off int64) (int, error) {
	return f.f.WriteAtContext(context.Background(), p, off)
}

// WriteAtContext writes p at byte offset off. It returns when the server has written the data
// to the file and, for a file opened with O_SYNC, to stable storage. After an error the first n
// bytes of p are certainly written. A write larger than the receives of the server is split.
//
// p is not read after the return, except that part of a Buffer can be read for longer, see
// [Buffer.Busy].
//
// If the RDMA connection breaks, unacknowledged messages are sent again on the connection that
// replaces it, under their old sequence numbers, so that the server performs each one once. A
// message that is too long for the new connection is not sent again: cut in two it would be
// another write. Its outcome is unknown.
//
// Errors: *Error: ErrUncertain together with the cause if the answer did not come and cannot be
// asked for; the status of the server, such as syscall.ENOSPC; fs.ErrClosed for a closed file;
// ErrStale for one that the server does not keep; net.ErrClosed (wrapped) for a client whose SMB session
// is lost for good.
//
// Source: [LWIO §Write], [OP-112], [OP-113]
func (f *File) WriteAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	return f.f.WriteAtContext(ctx, p, off)
}

// ReadVec fills the segments one after another from byte offset off and returns the number of
// bytes read. Up to 256 segments go into one message if all but the last have the same size, a
// power of two from 512 bytes to 32 KiB. Other segments are read one by one.
//
// Errors: as ReadAtContext.
//
// Source: [LWIO §Vectored Read]
func (f *File) ReadVec(ctx context.Context, segs [][]byte, off int64) (int, error) {
	return f.f.ReadVec(ctx, segs, off)
}

// WriteVec writes the segments one after another at byte offset off, with the smallest number
// of messages that holds them. It returns the number of bytes from the beginning that are
// certainly written.
//
// Errors: as WriteAtContext.
//
// Source: [LWIO §Vectored Write], [OP-112]
func (f *File) WriteVec(ctx context.Context, segs [][]byte, off int64) (int, error) {
	return f.f.WriteVec(ctx, segs, off)
}

// WriteSame fills n bytes of the file from byte offset off with copies of p, the last of them
// cut where n ends. The length of p is a power of two from 1 to 4096. The file must be opened
// Unbuffered. Over RDMA a message carries p once and the server repeats it; over SMB, or to a
// server that cannot repeat, all n bytes are sent.
//
// It returns the number of bytes from the beginning that are certainly written.
//
// Errors: as WriteAtContext; fs.ErrInvalid for another size of p, and for a file that was not
// opened Unbuffered.
//
// Source: [LWIO §Vectored Write], [LWIO claim 17], [OP-75], [OP-77], [OP-112]
func (f *File) WriteSame(ctx context.Context, p []byte, off, n int64) (int64, error) {
	return f.f.WriteSame(ctx, p, off, n)
}

// Sync returns when all earlier writes are on stable storage at the server, over all
// connections. A write of this File whose outcome is unknown, or a Truncate that was given up,
// is done before Sync returns or never.
//
// Source: [OP-92f], [OP-112], [OP-115]
func (f *File) Sync(ctx context.Context) error { return f.f.Sync(ctx) }

// Truncate changes the size of the file after all earlier writes.
//
// Source: [OP-115]
func (f *File) Truncate(ctx context.Context, size int64) error { return f.f.Truncate(ctx, size) }

// Stat asks the server to describe the file. The Sys method of the result returns an *SMBInfo.
func (f *File) Stat(ctx context.Context) (fs.FileInfo, error) { return infoOf(f.f.Stat(ctx)) }

// OpenInfo describes the file as it was when it was opened. It does not ask the server. The Sys
// method of the result returns an *SMBInfo.
func (f *File) OpenInfo() fs.FileInfo {
	return fileInfo{f.f.OpenInfo().(*smbshare.FileInfo)}
}

// Close waits for earlier writes and closes the file at the server, within Config.Timeout.
// Reads in flight fail with fs.ErrClosed unless the server has begun them. A second Close fails
// with fs.ErrClosed.
//
// Source: [LWIO §Close], [LWIO §Cancel], [OP-115]
func (f *File) Close() error { return f.f.Close() }
