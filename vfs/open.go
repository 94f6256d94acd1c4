package vfs

import (
	"crypto/rand"
	"os"
	"sync"
	"sync/atomic"

	"lwio/internal/ntstatus"
)

// Open is a file or directory that somebody has open. Safe for concurrent use.
// Whoever does I/O on it holds a reference while he does.
type Open struct {
	fs        *FS
	share     *share
	handle    Handle
	nodeID    NodeID
	node      *node // guarded by FS.mu
	locks     *lockTable
	id        uint64
	key       [24]byte
	owner     Owner
	user      string
	granted   Access
	shareMode ShareMode
	options   Options
	dir       bool
	// deleteOnClose is fixed: the option of the same name.
	deleteOnClose bool

	refs    refCount
	done    chan struct{} // closed when Close is over
	drained chan struct{} // made by beginClose
	drain   sync.Once
	release sync.Once

	path     string // guarded by FS.mu
	closing  bool   // guarded by FS.mu
	revoke   hooks  // guarded by FS.mu
	stall    hooks  // guarded by FS.mu
	closeErr error  // guarded by done

	locked   int  // locks that are held or waited for; guarded by locks.mu
	lockless bool // no more of them: it is being closed; guarded by locks.mu

	list listing
}

func (f *FS) newOpen(s *share, path string, req *OpenRequest) *Open {
	o := &Open{
		fs:            f,
		share:         s,
		path:          path,
		id:            f.lastID.Add(1),
		owner:         req.Owner,
		user:          req.User,
		shareMode:     req.ShareMode,
		options:       req.Options,
		deleteOnClose: req.Options&DeleteOnClose != 0,
		done:          make(chan struct{}),
	}
	rand.Read(o.key[:]) // never fails
	return o
}

// ResumeKey is 24 random bytes that name the open. Who knows them and is its
// owner finds it again with FS.ByResumeKey.
//
// Source: [MS-SMB2 2.2.32.3] [OP-9] [OP-56]
func (o *Open) ResumeKey() [24]byte { return o.key }

// ByResumeKey finds an open by its resume key, for its owner only.
//
// Errors: OBJECT_NAME_NOT_FOUND for a key that is unknown, somebody else's, or
// of an open that is being closed.
//
// Source: [OP-56] [LWIO §File Registration]
func (f *FS) ByResumeKey(key [24]byte, owner Owner) (*Open, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	o := f.byKey[key]
	if o == nil || owner == nil || o.owner != owner {
		return nil, &Error{Op: "resume", Name: "key", Status: ntstatus.ObjectNameNotFound}
	}
	return o, nil
}

// Path is the path within the share, as renames have left it; "" is the root.
func (o *Open) Path() string {
	o.fs.mu.Lock()
	defer o.fs.mu.Unlock()
	return o.path
}

// Share is the share that the file was opened in. It must not be changed.
func (o *Open) Share() *Share { return &o.share.Share }

// Granted are the rights that the open has.
//
// Source: [OP-57]
func (o *Open) Granted() Access { return o.granted }

// ShareMode is what other opens may do.
func (o *Open) ShareMode() ShareMode { return o.shareMode }

// Options are the create options.
//
// Source: [OP-51] [OP-52]
func (o *Open) Options() Options { return o.options }

// IsDir reports whether a directory is open.
func (o *Open) IsDir() bool { return o.dir }

// Owner is whose open it is.
func (o *Open) Owner() Owner { return o.owner }

// Node says which file is open, whatever its name.
func (o *Open) Node() NodeID { return o.nodeID }

// ID is a number that no other open of this table ever had; never 0.
func (o *Open) ID() uint64 { return o.id }

// File is the open file itself, for a data path that needs it, or nil if the
// backend has none. It is only good while a reference is held, and must not be
// closed, moved or written where Granted does not allow it.
func (o *Open) File() *os.File { return o.handle.File() }

// Acquire takes a reference, for the time of one I/O. It costs one atomic
// addition.
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

// Release gives the reference back. It panics if there is none, which is a bug
// of the caller.
func (o *Open) Release() {
	switch n := o.refs.release(); {
	case n < 0:
		panic("vfs: Release without Acquire")
	case n == refsClosing:
		o.drain.Do(func() { close(o.drained) })
	case n == refsClosing|refsOrphan:
		o.closeOrphan()
	}
}

// closeOrphan closes the descriptor of an open whose I/O came back too late.
func (o *Open) closeOrphan() {
	o.release.Do(func() {
		o.fs.orphans.Add(-1)
		if err := o.handle.Close(); err != nil {
			o.fs.log.Warn("vfs: close of a stalled file", "open", o.id, "err", err)
		}
	})
}

// Bits of a refCount above the count.
const (
	refsClosing = 1 << 40
	refsOrphan  = 1 << 41
)

// refCount counts references in its low bits and says in two others whether new
// ones are refused, and whether the last one to go closes the descriptor.
type refCount struct{ n atomic.Int64 }

// acquire counts up; false says that the reference must be given back unused.
func (r *refCount) acquire() bool      { return r.n.Add(1) < refsClosing }
func (r *refCount) release() int64     { return r.n.Add(-1) }
func (r *refCount) add(bit int64) bool { return r.n.Add(bit)&(refsClosing-1) == 0 }
func (r *refCount) held() bool         { return r.n.Load()&(refsClosing-1) != 0 }
