package vfs

import (
	"bytes"
	"errors"
	"time"

	"lwio/internal/account"
	"lwio/internal/ntstatus"
)

// Record describes an open for the next process of the server, which makes it again by FS.Restore.
type Record struct {
	// Share and Path name the file.
	Share, Path string
	// Identity is the identity of the file. It is not reused for another file.
	Identity []byte
	// Granted, ShareMode and Options belong to the open, and Key is its resume key.
	Granted   Access
	ShareMode ShareMode
	Options   Options
	Key       [24]byte
}

// Record describes the open as it is now.
//
// Errors: errors.ErrUnsupported if the backend cannot identify files.
func (o *Open) Record() (Record, error) {
	id, err := o.handle.Identity()
	if err != nil {
		return Record{}, o.fail("identify", err)
	}
	return recordOf(o, id), nil
}

func recordOf(o *Open, identity []byte) Record {
	return Record{
		Share: o.share.Name, Path: o.Path(), Identity: identity,
		Granted: o.granted, ShareMode: o.shareMode, Options: o.options, Key: o.key,
	}
}

// RestoreRequest describes an open of an earlier process of this server, which is made again.
type RestoreRequest struct {
	// Record is the record of the open. After a rename of the file its Path is the present one.
	Record
	// Other is another path that the file may have, if a rename was in progress when the process died.
	Other string
	// Begun is the time at which the creation of the file began, if it was in progress when the process
	// died; the record has no Identity then. An empty file that is not older is that file.
	Begun time.Time
	// Owner and User as in OpenRequest.
	Owner Owner
	User  string
	// Locks are the locks that the open held.
	Locks []Lock
	// Unchanged bounds the times at which the earlier process has changed files. If the file has later times, another
	// process has changed it, and an open that excludes other writers, by its share mode or by a lock, is not made: its
	// client relies on the content that it has read and written. Any other open lets others write at any time. Zero:
	// nothing is known.
	Unchanged time.Time
}

// excludesWriters reports whether others could not write the whole file while the earlier process ran.
func (r *RestoreRequest) excludesWriters() bool {
	return len(r.Locks) > 0 || r.ShareMode&ShareWrite == 0 && r.Granted&(dataRead|dataWrite) != 0
}

// changed reports whether another process has changed the file since the earlier process of the server. A change sets the
// times of the content and of the inode to the present. A client, or a program, may set the former to any other time, and
// a rename or a link sets the latter alone. A time in the future comes of a clock that was set back, or of a client.
func (r *RestoreRequest) changed(info FileInfo) bool {
	at := info.Modified
	if info.Changed.Before(at) {
		at = info.Changed
	}
	return !r.Unchanged.IsZero() && at.After(r.Unchanged) && !info.Modified.After(time.Now()) && !info.Changed.After(time.Now())
}

// Errors of Restore.
var (
	errReplaced = ntstatus.FileInvalid.Because(errors.New("another file has the name of the open now"))
	errChanged  = ntstatus.FileForcedClosed.Because(errors.New("another process has changed the file"))
	errMissing  = ntstatus.FileDeleted.Because(errors.New("the file was removed or renamed"))
	errGrace    = ntstatus.FileNotAvailable.Because(errors.New("clients from before the restart of the server have the file open"))
	errNarrowed = ntstatus.AccessDenied.Because(errors.New("the present permissions do not allow the access of the open"))
)

// Restore makes an open again, with its locks. The open is an orphan, and its file is in its grace
// period: until all restored opens of the file are taken over or closed, every new open of the file is
// refused with FILE_NOT_AVAILABLE. All opens of the earlier process are restored before others are made.
//
// Errors, as statuses: FILE_INVALID if another file has the name now; FILE_DELETED if no file has it; FILE_FORCED_CLOSED if
// another process has changed it meanwhile, and the open excludes other writers; ACCESS_DENIED if the rights of the user or the permissions of the file no longer allow the
// access of the open; the statuses of Open.
func (f *FS) Restore(req RestoreRequest) (*Open, error) {
	o, err := f.restore(&req)
	if err != nil {
		return nil, fail("restore", req.Share, req.Path, err)
	}
	return o, nil
}

func (f *FS) restore(req *RestoreRequest) (*Open, error) {
	s := f.shares[foldShare(req.Share)]
	if s == nil {
		return nil, ntstatus.BadNetworkName
	}
	rights := s.rightsOf(req.User)
	if rights == NoAccess || rights < ReadWrite && req.Granted&anyWrite != 0 {
		return nil, errWithdrawn
	}
	if !f.opens.Take(req.User, 1, account.Last) {
		return nil, ntstatus.TooManyOpenedFiles
	}
	c := creation{fs: f, share: s, rights: rights, want: req.Granted, req: &OpenRequest{
		Share: req.Share, Access: req.Granted, ShareMode: req.ShareMode, Options: req.Options, Owner: req.Owner, User: req.User,
	}}
	o, err := c.restore(req)
	if err != nil {
		if !c.withdrawn {
			f.opens.Give(req.User, 1, account.Last)
		}
		return nil, err
	}
	return o, nil
}

// restore opens the file under one of its paths.
func (c *creation) restore(req *RestoreRequest) (*Open, error) {
	c.share.ns.RLock()
	defer c.share.ns.RUnlock()
	path, _, err := parsePath(req.Path)
	if err != nil {
		return nil, err
	}
	other, _, err := parsePath(req.Other)
	if err != nil {
		return nil, err
	}
	o, err := c.reopen(req, path)
	if other != "" && (errors.Is(err, errReplaced) || errors.Is(err, errMissing)) {
		if o, e := c.reopen(req, other); e == nil {
			return o, nil
		}
	}
	return o, err
}

// reopen opens the file under a path, if it is the file of the request.
func (c *creation) reopen(req *RestoreRequest, path string) (*Open, error) {
	c.path = path
	stripe := c.share.stripe(path)
	stripe.Lock()
	defer stripe.Unlock()
	info, err := c.share.Backend.Stat(path)
	if s := ntstatus.Of(err); s == ntstatus.ObjectNameNotFound || s == ntstatus.ObjectPathNotFound {
		return nil, errMissing
	}
	switch {
	case err != nil:
		return nil, err
	case info.Dir || info.Special:
		return nil, errReplaced
	}
	o := c.newOpen()
	o.key, o.ownership.orphan, o.entry.returning = req.Key, true, true
	switch err := c.openFile(o, false, false); {
	case errors.Is(err, errRaced):
		return nil, errMissing
	case err != nil:
		return nil, err
	}
	same, err := req.names(o.handle, info)
	switch {
	case err != nil:
	case !same:
		err = errReplaced
	case o.granted != req.Granted:
		err = errNarrowed
	default:
		err = c.checkUnchanged(req, o.handle)
	}
	if err != nil {
		return nil, discard(o.handle, err)
	}
	if err := c.admit(o, info); err != nil {
		return nil, err
	}
	if err := o.locks.restore(req.Locks); err != nil {
		c.withdraw(o)
		return nil, err
	}
	return o, nil
}

// checkUnchanged returns an error for a file that another process has changed, if the open excludes that. It compares
// times only on a file system with the clock of the host.
func (c *creation) checkUnchanged(req *RestoreRequest, h Handle) error {
	if req.Unchanged.IsZero() || !req.Begun.IsZero() || !req.excludesWriters() {
		return nil
	}
	info, err := h.Stat()
	if err != nil {
		return err
	}
	if !req.changed(info) {
		return nil
	}
	if v, err := c.share.Backend.Volume(); err != nil || !v.HostClock || v.Serial != info.Device {
		return err
	}
	return errChanged
}

// clockTick bounds the time by which the time of a new file is behind the clock.
const clockTick = 20 * time.Millisecond

// names reports whether the request names a file.
func (r *RestoreRequest) names(h Handle, info FileInfo) (bool, error) {
	if !r.Begun.IsZero() {
		return info.Size == 0 && info.Links == 1 && !info.Created.Before(r.Begun.Add(-clockTick)), nil
	}
	id, err := h.Identity()
	return bytes.Equal(id, r.Identity), err
}

// restore gives the open locks that it held. No lock of the file conflicts with them: all were held
// together.
func (k *openLocks) restore(locks []Lock) error {
	t := k.table
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, l := range locks {
		if err := k.admitLocked(l.Range, i); err != nil {
			k.uncountLocked(i)
			return err
		}
	}
	t.addLocked(k, locks)
	return nil
}

// Detach leaves an open to the next process of the server, which restores it with the delete that is
// pending: the close of the open deletes nothing.
func (f *FS) Detach(o *Open) {
	t := &f.table
	t.mu.Lock()
	defer t.mu.Unlock()
	o.entry.deleteOnClose = false
	t.clearDeletionLocked(o.entry.node)
}

// RestoreDelete makes the delete of the file of a restored open pending again. Some open of the earlier
// process had made it pending: this one needs no right to delete.
//
// Errors: CANNOT_DELETE for a file that has become read-only.
func (f *FS) RestoreDelete(o *Open) error { return o.use("delete", o.setDeletePending) }
