package lwio

import (
	"context"
	"time"

	"lwio/internal/handshake"
	"lwio/internal/wire"
)

// session is what the client needs of an SMB session with one share. All calls
// return when ctx ends, errors carry the server's status, and a lost connection is
// net.ErrClosed.
//
// Source: [LWIO §Discovery], [MS-SMB2 3.2]
type session interface {
	// open opens or creates a file or directory of the share.
	open(ctx context.Context, req openRequest) (handle, error)
	// stat, mkdir, remove and rename do what they say in one round trip. rename
	// replaces a file that is in the way.
	stat(ctx context.Context, name string) (entry, error)
	mkdir(ctx context.Context, name string) error
	remove(ctx context.Context, name string) error
	rename(ctx context.Context, from, to string) error
	handshake.Session
	// err is why the session has ended, nil as long as it has not.
	err() error
	// close ends the session, and tells the server as long as ctx lets it. A second close
	// does nothing.
	close(ctx context.Context) error
}

// openRequest is an SMB CREATE.
type openRequest struct {
	name        string // slash-separated; "" is the root of the share
	access      uint32
	share       uint32
	disposition uint32
	options     uint32
	resumeKey   bool // ask for the resume key in the same round trip, if that is possible
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
	accessReadAttributes  = 0x00000080
	accessWriteAttributes = 0x00000100
	accessDelete          = 0x00010000
	accessReadControl     = 0x00020000
	accessSynchronize     = 0x00100000

	accessRead  = accessReadData | accessReadEA | accessReadAttributes | accessReadControl | accessSynchronize
	accessWrite = accessWriteData | accessAppendData | accessWriteEA | accessWriteAttributes | accessReadAttributes |
		accessReadControl | accessSynchronize

	shareAll = 0x7

	dispositionOpen        = 1
	dispositionCreate      = 2
	dispositionOpenIf      = 3
	dispositionOverwrite   = 4
	dispositionOverwriteIf = 5

	optionDirectory    = 0x00000001
	optionWriteThrough = 0x00000002
	optionUnbuffered   = wire.NoIntermediateBuffering
	optionNonDirectory = 0x00000040

	attributeReadOnly  = 0x00000001
	attributeDirectory = 0x00000010
)

// handle is an open file or directory.
type handle interface {
	// created is what the open found.
	created() entry
	// resumeKey returns the key of the open, and whether the server offers LWIO for
	// it. [OP-30] [OP-33]
	resumeKey(ctx context.Context) (key [24]byte, lwio bool, err error)
	// readAt and writeAt follow io.ReaderAt and io.WriterAt.
	readAt(ctx context.Context, p []byte, off int64) (int, error)
	writeAt(ctx context.Context, p []byte, off int64) (int, error)
	flush(ctx context.Context) error
	// settle waits until no writeAt or setSize that was given up may still be done.
	settle(ctx context.Context) error
	// lock locks a range, and waits for it or not; unlock ends one lock of it.
	lock(ctx context.Context, r Range, exclusive, wait bool) error
	unlock(ctx context.Context, r Range) error
	stat(ctx context.Context) (entry, error)
	setSize(ctx context.Context, size int64) error
	// rename moves the open file to a name in the share, in place of what is there.
	rename(ctx context.Context, name string) error
	// setDelete says whether the file is deleted when its last open is closed.
	setDelete(ctx context.Context, on bool) error
	// entries lists a directory, without . and .., in no order.
	entries(ctx context.Context) ([]entry, error)
	close(ctx context.Context) error
}

// entry describes a file or directory as SMB does.
type entry struct {
	name                                 string // last element; "" where the server does not say
	size, allocated                      int64
	attributes                           uint32
	id                                   uint64
	created, accessed, modified, changed time.Time
}

func (e *entry) isDir() bool { return e.attributes&attributeDirectory != 0 }
