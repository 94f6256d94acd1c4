package vfs

import (
	"errors"
	"io"

	"lwio/internal/ntstatus"
)

// SetDeleteOnClose makes the delete of the file pending, or cancels it. The close of the last open of
// the file removes its name. Of a symbolic link it removes the link only; the target can be a
// directory with entries. While the delete is pending, the file, and the files below a directory,
// cannot be opened. The option DeleteOnClose differs: it belongs to one open and cannot be
// cancelled.
//
// Errors: ACCESS_DENIED without Delete, CANNOT_DELETE for a read-only file and the root,
// DIRECTORY_NOT_EMPTY, DELETE_PENDING while another name of the file is being deleted. A [LeaseWait] if the holder of a lease may delay the close of the file.
//
// Source: [MS-FSCC 2.4.11] [MS-FSA 2.1.5.15.3]
func (o *Open) SetDeleteOnClose(on bool) error {
	return o.use("delete", func() error {
		if o.granted&Delete == 0 {
			return ntstatus.AccessDenied
		}
		if !on {
			o.fs.table.clearDeletion(o)
			return nil
		}
		if err := o.breakHandles(); err != nil {
			return err
		}
		err := o.setDeletePending()
		if err == nil {
			_ = o.breakHandles() // that were granted meanwhile; the delete is pending without them
		}
		return err
	})
}

// breakHandles breaks the leases of others that delay the close of the file. The error is a wait.
func (o *Open) breakHandles() error {
	notices, err := o.caching.rename()
	notices.send()
	return err
}

// Deleting reports whether a delete of the file is pending, or becomes pending by a close that has begun.
func (o *Open) Deleting() bool { return o.fs.table.deleting(o.nodeID) }

// setDeletePending checks the rules for the delete, and makes it pending.
func (o *Open) setDeletePending() error {
	if o.IsDir() {
		// No file may be created in it between the check and the mark.
		o.share.ns.Lock()
		defer o.share.ns.Unlock()
	} else {
		o.share.ns.RLock()
		defer o.share.ns.RUnlock()
	}
	info, err := o.handle.Stat()
	switch {
	case err != nil:
		return err
	case o.Path() == "":
		return because(ntstatus.CannotDelete, "root of the share")
	case !o.IsDir() && info.ReadOnly():
		return because(ntstatus.CannotDelete, "file is read-only")
	case o.IsDir() && !o.share.Backend.IsLink(o.Path()):
		// With a handle of its own, because an enumeration may use the handle of o.
		h, err := o.share.Backend.Open(o.Path(), HandleMode{Dir: true})
		if err != nil {
			return err
		}
		if err := discard(h, checkEmpty(h)); err != nil {
			return err
		}
	}
	return o.fs.table.setDeletion(o)
}

// checkEmpty returns DIRECTORY_NOT_EMPTY if a directory has an entry. It begins an enumeration with
// the handle.
func checkEmpty(h Handle) error {
	names, err := h.Names(1, true)
	switch {
	case len(names) > 0:
		return ntstatus.DirectoryNotEmpty
	case err == nil || errors.Is(err, io.EOF):
		return nil
	}
	return err
}
