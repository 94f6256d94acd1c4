package vfs

import (
	"crypto/rand"
	"os"
	"sync/atomic"

	"lwio/internal/ntstatus"
)

// Open is an open file or directory. Safe for concurrent use. I/O on it needs a reference
// (Acquire, Release).
type Open struct {
	fs     *FS
	share  *share
	handle Handle
	nodeID NodeID
	id     uint64 // in the log
	key    [24]byte
	user   string
	rights Rights // of the user when the open was made

	granted   Access
	shareMode ShareMode
	options   Options

	entry     tableEntry
	ownership Ownership
	refs      references
	locks     openLocks
	caching   openLease
	writes    *writesInProgress // of the file
	changes   changeReports
	syncs     groupSync
	recorder  atomic.Pointer[Recorder]
	dir       *directory // nil for a file
	revoke    hooks      // when a close begins
	stall     hooks      // when a close has waited too long for I/O
	// withdrawn reports that Reauthorize closes the open.
	withdrawn atomic.Bool

	done     chan struct{} // closed when Close is over
	closeErr error         // guarded by done
}

// newOpen returns the open that c makes. It is not in the table yet.
func (c *creation) newOpen() *Open {
	req := c.req
	o := &Open{
		fs:        c.fs,
		share:     c.share,
		id:        c.fs.lastID.Add(1),
		user:      req.User,
		rights:    c.rights,
		shareMode: req.ShareMode,
		options:   req.Options,
		entry:     tableEntry{path: c.path, deleteOnClose: req.Options&DeleteOnClose != 0},
		done:      make(chan struct{}),
	}
	o.ownership.open, o.ownership.owner = o, req.Owner
	o.changes.share, o.changes.path = c.share, o.Path
	if req.Lease != nil {
		o.changes.parent = req.Lease.Parent
	}
	rand.Read(o.key[:]) // never fails
	return o
}

// ResumeKey returns the 24 random bytes that name the open. With them, FS.ByResumeKey finds the open
// for its owner.
//
// Source: [MS-SMB2 2.2.32.3] [OP-9] [OP-56]
func (o *Open) ResumeKey() [24]byte { return o.key }

// Path returns the path within the share, after renames; "" is the root.
func (o *Open) Path() string {
	o.fs.table.mu.Lock()
	defer o.fs.table.mu.Unlock()
	return o.entry.path
}

// Share returns the share of the file. The caller must not change it.
func (o *Open) Share() *Share { return &o.share.Share }

// Granted returns the access of the open.
//
// Source: [OP-57]
func (o *Open) Granted() Access { return o.granted }

// Options returns the create options.
//
// Source: [OP-51] [OP-52]
func (o *Open) Options() Options { return o.options }

// IsDir reports whether the open is of a directory.
func (o *Open) IsDir() bool { return o.dir != nil }

// Node returns the identity of the file, which does not depend on its name.
func (o *Open) Node() NodeID { return o.nodeID }

// File returns the open file itself, or nil if the backend has none. It is valid while a reference is
// held. The caller must not close it, move its position, or write to it without a right in Granted.
func (o *Open) File() *os.File { return o.handle.File() }

// Acquire takes a reference, for the time of one I/O, or until the revoke hook of its user runs. It
// costs one atomic addition.
//
// Errors: FILE_CLOSED once closing has begun.
//
// Source: [OP-58b]
func (o *Open) Acquire() error {
	if o.refs.acquire() {
		return nil
	}
	o.Release()
	return ntstatus.FileClosed
}

// Release releases a reference. It does not wait for I/O. It panics if no reference is held, which is
// a bug of the caller.
func (o *Open) Release() {
	if o.refs.release() {
		o.fs.stalled.end(o)
	}
}

// OnRevoke registers f, which runs when a close of the open begins. At that time new references are
// refused, and the close does not wait for the held ones yet: f causes their release. If the close
// has begun already, f runs before OnRevoke returns. No lock of this package is held while f runs.
// f must not close the open.
//
// stop unregisters f; it does not wait for a running f. A second call does nothing.
//
// Source: [OP-58b]
func (o *Open) OnRevoke(f func()) (stop func()) { return o.revoke.add(f) }

// OnStall registers f, which runs if I/O in flight does not end in time after a close began. f cuts
// the stalled connection. The other rules of OnRevoke apply.
//
// Source: [OP-58b]
func (o *Open) OnStall(f func()) (stop func()) { return o.stall.add(f) }

// use takes a reference, runs f, and names the open in the error of f.
func (o *Open) use(op string, f func() error) error {
	if err := o.Acquire(); err != nil {
		return o.fail(op, err)
	}
	defer o.Release()
	return o.fail(op, f())
}

// fail names the open in an error. nil stays nil.
func (o *Open) fail(op string, err error) error {
	if err == nil {
		return nil
	}
	return fail(op, o.share.Name, o.Path(), err)
}
