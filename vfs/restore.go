package vfs

import (
	"bytes"
	"errors"

	"lwio/internal/account"
	"lwio/internal/ntstatus"
)

// RestoreRequest describes an open of an earlier process of this server, which is made again.
type RestoreRequest struct {
	// Share and Path name the file. Other is another path that the file may have, if a rename was in
	// progress when the process died.
	Share, Path, Other string
	// Identity is the identity of the file (Open.Identity).
	Identity []byte
	// Granted, ShareMode and Options belong to the open, and Key is its resume key.
	Granted   Access
	ShareMode ShareMode
	Options   Options
	Key       [24]byte
	// Owner and User as in OpenRequest.
	Owner Owner
	User  string
	// Locks are the locks that the open held.
	Locks []Lock
}

// Errors of Restore.
var (
	errReplaced = ntstatus.FileInvalid.Because(errors.New("another file has the name of the open now"))
	errMissing  = ntstatus.ObjectNameNotFound.Because(errors.New("the file was removed or renamed"))
	errGrace    = ntstatus.FileNotAvailable.Because(errors.New("clients from before the restart of the server have the file open"))
	errNarrowed = ntstatus.AccessDenied.Because(errors.New("the present permissions do not allow the access of the open"))
)

// Identity returns the identity of the file. It is not reused for another file.
//
// Errors: errors.ErrUnsupported.
func (o *Open) Identity() ([]byte, error) {
	id, err := o.handle.Identity()
	return id, o.fail("identify", err)
}

// Restore makes an open again, with its locks. The open is an orphan, and its file is in its grace
// period: until all restored opens of the file are taken over or closed, every new open of the file is
// refused with FILE_NOT_AVAILABLE. All opens of the earlier process are restored before others are made.
//
// Errors, as statuses: FILE_INVALID if another file has the name now; OBJECT_NAME_NOT_FOUND if no file
// has it; ACCESS_DENIED if the rights of the user or the permissions of the file no longer allow the
// access of the open; the statuses of Open.
func (f *FS) Restore(req *RestoreRequest) (*Open, error) {
	o, err := f.restore(req)
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
	o.key, o.orphan, o.returning = req.Key, true, true
	switch err := c.openFile(o, false, false); {
	case errors.Is(err, errRaced):
		return nil, errMissing
	case err != nil:
		return nil, err
	}
	id, err := o.handle.Identity()
	switch {
	case err != nil:
	case !bytes.Equal(id, req.Identity):
		err = errReplaced
	case o.granted != req.Granted:
		err = errNarrowed
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

// ShareMode returns the share mode of the open.
func (o *Open) ShareMode() ShareMode { return o.shareMode }

// returnedLocked ends the part of the open in the grace period of its file. Precondition: table.mu is held.
func (o *Open) returnedLocked() {
	if o.returning {
		o.returning = false
		o.node.returning--
	}
}

// Detach makes the close of the open delete nothing. The server stops, and the next process restores the
// open, with the delete that is pending.
func (o *Open) Detach() {
	t := &o.fs.table
	t.mu.Lock()
	defer t.mu.Unlock()
	o.deleteOnClose = false
	t.clearDeletionLocked(o.node)
}

// RestoreDelete makes the delete of the file pending again, which some open of the earlier process had made
// pending: this one needs no right to delete.
//
// Errors: CANNOT_DELETE for a file that has become read-only.
func (o *Open) RestoreDelete() error { return o.use("delete", o.setDeletePending) }

// DeletePending reports whether a delete of the file is pending.
func (o *Open) DeletePending() bool { return o.fs.table.deletePending(o.nodeID) }
