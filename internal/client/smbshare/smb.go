package smbshare

import (
	"context"

	"lwio/internal/client/base"
	"lwio/internal/client/handshake"
	"lwio/internal/smb/smbclient"
	"lwio/internal/wire"
)

// Session is an SMB session with one share. All calls
// return when ctx ends, errors carry the server's status, and a lost connection is
// net.ErrClosed.
//
// A session outlives its connection if the server grants persistent handles: it logs on again,
// and takes its opens over. A call waits for that as long as its context and
// Config.ReconnectTimeout allow. Then a request that was not sent, or that does no harm if it is
// executed twice, is sent again.
//
// Source: [LWIO §Discovery], [MS-SMB2 3.2]
type Session interface {
	// Open opens or creates a file or directory of the share.
	Open(ctx context.Context, req OpenRequest) (Handle, error)
	// Stat, ReadHead, Space, SetBasic, Mkdir, Remove and Rename take one round trip. Rename
	// replaces a file that is in the way.
	Stat(ctx context.Context, name string) (Entry, error)
	// ReadHead reads the first bytes of a file into p, at most MaxSmall. It returns how many there are,
	// and the file as the open found it.
	ReadHead(ctx context.Context, name string, p []byte) (int, Entry, error)
	// WriteWhole writes a file, and gives it its name in place of another file, in one round trip. It reports false for
	// a server that cannot do that. After a loss it writes again, under another temporary name.
	WriteWhole(ctx context.Context, file WholeFile, temporary func() string) (bool, error)
	// ListSmall lists a small directory in one round trip, as Handle.Entries. It reports false for one that is not small.
	ListSmall(ctx context.Context, name string) (list []Entry, small bool, err error)
	// MaxSmall is the most bytes that ReadHead, WriteWhole and OpenRequest.Data transfer.
	MaxSmall() int
	// Space describes the file system of the share.
	Space(ctx context.Context) (Space, error)
	// SetBasic sets times and attributes of a file or directory.
	SetBasic(ctx context.Context, name string, b Basic) error
	Mkdir(ctx context.Context, name string) error
	Remove(ctx context.Context, name string) error
	Rename(ctx context.Context, from, to string) error
	handshake.Session
	// Err is why the session has ended for good, nil as long as it has not.
	Err() error
	// Await waits until there is a connection, after a loss another one. It returns nil, the error of
	// ctx, or why the session has ended for good.
	Await(ctx context.Context) error
	// State describes the session.
	State() base.SessionState
	// Close ends the session, and tells the server as long as ctx lets it. A second close
	// does nothing.
	Close(ctx context.Context) error
}

// OpenRequest is an SMB CREATE.
type OpenRequest = smbclient.CreateRequest

// Space is the size of a file system, in bytes. It is exported as lwio.Space.
type Space = smbclient.Space

// Entry describes a file or directory as SMB does. Name is its last element, "" where the
// server does not give it.
type Entry = smbclient.FileInfo

// Basic are times and attributes to set.
type Basic = smbclient.Basic

// WholeFile is a file that Session.WriteWhole writes.
type WholeFile = smbclient.WholeFile

// Writability are the attributes of a file that is writable, or not.
func Writability(writable bool) Basic {
	if writable {
		return Basic{Attributes: attributeNormal}
	}
	return Basic{Attributes: attributeReadOnly}
}

// The parts of CREATE that the client uses.
//
// Source: [MS-SMB2 2.2.13], [MS-SMB2 2.2.13.1.1]
const (
	accessReadData        = 0x00000001
	accessWriteData       = 0x00000002
	accessAppendData      = 0x00000004
	accessReadEA          = 0x00000008
	accessWriteEA         = 0x00000010
	AccessReadAttributes  = 0x00000080
	accessWriteAttributes = 0x00000100
	AccessDelete          = 0x00010000
	accessReadControl     = 0x00020000
	accessSynchronize     = 0x00100000

	AccessRead  = accessReadData | accessReadEA | AccessReadAttributes | accessReadControl | accessSynchronize
	AccessWrite = accessWriteData | accessAppendData | accessWriteEA | accessWriteAttributes | AccessReadAttributes |
		accessReadControl | accessSynchronize

	ShareAll = 0x7

	DispositionOpen        = 1
	DispositionCreate      = 2
	DispositionOpenIf      = 3
	DispositionOverwrite   = 4
	DispositionOverwriteIf = 5

	OptionDirectory    = 0x00000001
	OptionWriteThrough = 0x00000002
	OptionUnbuffered   = wire.NoIntermediateBuffering
	OptionNonDirectory = 0x00000040

	attributeReadOnly = 0x00000001
	attributeNormal   = 0x00000080
)

// Handle is an open file or directory.
type Handle interface {
	// Created describes the file as the open found it.
	Created() Entry
	// Err is base.ErrStale, and why, once the server does not keep the open any more; else nil.
	Err() error
	// ResumeKey returns the key of the open, and whether the server offers LWIO for
	// it. Without a link it is the last known key, or with current it waits for a link, on which the open is
	// reclaimed. [OP-30] [OP-33]
	ResumeKey(ctx context.Context, current bool) (key [24]byte, lwio bool, err error)
	// ReadAt and writeAt follow io.ReaderAt and io.WriterAt.
	ReadAt(ctx context.Context, p []byte, off int64) (int, error)
	WriteAt(ctx context.Context, p []byte, off int64) (int, error)
	// Flush puts the written data on the disk. late is not nil if a request was sent. It receives the answer, or why that is
	// lost, if ctx ends before, and then the failure of a later request that Flush has sent. Then it is closed.
	Flush(ctx context.Context) (late <-chan error, err error)
	// Settle waits until no writeAt or setSize that was given up may still be done.
	Settle(ctx context.Context) error
	// Lock locks a range, and waits for it or not; unlock ends one lock of it. by is another carrier that the
	// request is tried over first, or nil.
	Lock(ctx context.Context, r Range, exclusive, wait bool, by Carrier) error
	Unlock(ctx context.Context, r Range, by Carrier) error
	Stat(ctx context.Context) (Entry, error)
	SetSize(ctx context.Context, size int64) error
	// Keep takes the deletion at the close back, and then moves the open file to a name in the share, in
	// place of the file there. A refused move leaves the file under its name.
	Keep(ctx context.Context, name string) error
	// SetDelete says whether the file is deleted when its last open is closed.
	SetDelete(ctx context.Context, on bool) error
	// Entries lists a directory, without . and .., in no order. With an error it returns the
	// entries that it could read; fs.ErrInvalid stands for names that cannot be represented.
	Entries(ctx context.Context) ([]Entry, error)
	Close(ctx context.Context) error
}

// Range is a range of bytes of a file. It is exported as lwio.Range.
type Range struct{ Off, Len uint64 }
