package vfs

import (
	"errors"
	"io"

	"lwio/internal/ntstatus"
)

// SetDeleteOnClose says that the file is to be deleted when its last open is
// closed, or takes that back. What goes is the name: if that is a symbolic link,
// its target stays as it is, and need not be empty. While it is pending nobody can open the file, nor
// anything below a directory. It is not the option DeleteOnClose, which belongs
// to one open and cannot be taken back.
//
// Errors: ACCESS_DENIED without Delete, CANNOT_DELETE for a read-only file and
// the root, DIRECTORY_NOT_EMPTY.
//
// Source: [MS-FSCC 2.4.11] [MS-FSA 2.1.5.15.3]
func (o *Open) SetDeleteOnClose(on bool) error {
	return o.use("delete", func() error {
		if o.granted&Delete == 0 {
			return ntstatus.AccessDenied
		}
		if on {
			return o.condemn()
		}
		o.fs.mu.Lock()
		defer o.fs.mu.Unlock()
		o.fs.spareLocked(o.node)
		return nil
	})
}

func (o *Open) condemn() error {
	if o.dir {
		// Nothing may be created in it between the look and the note.
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
	case !o.dir && info.ReadOnly():
		return because(ntstatus.CannotDelete, "file is read-only")
	case o.dir && !o.share.Backend.Link(o.Path()):
		if err := o.checkEmpty(); err != nil {
			return err
		}
	}
	o.fs.mu.Lock()
	defer o.fs.mu.Unlock()
	if o.node.doom == nil {
		o.fs.doomLocked(o)
	}
	return nil
}

// checkEmpty looks for an entry, through a handle of its own: somebody may be
// enumerating with the other.
func (o *Open) checkEmpty() error {
	h, err := o.share.Backend.Open(o.Path(), How{Dir: true})
	if err != nil {
		return err
	}
	return discard(h, checkEmpty(h))
}

// checkEmpty looks whether a directory that nobody enumerates has an entry.
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

// DeletePending reports whether the file will go with its last open. An open
// with the option DeleteOnClose only makes that so when it is closed.
func (o *Open) DeletePending() bool {
	o.fs.mu.Lock()
	defer o.fs.mu.Unlock()
	return o.node.doom != nil
}
