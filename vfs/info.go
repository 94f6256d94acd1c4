package vfs

import (
	"errors"

	"lwio/internal/ntstatus"
)

// Stat returns the present state of the file.
func (o *Open) Stat() (info FileInfo, err error) {
	err = o.use("stat", func() error {
		if info, err = o.handle.Stat(); err != nil {
			return err
		}
		_, info.Name = split(o.Path())
		info.DeletePending = o.fs.table.deletePending(o.nodeID)
		return nil
	})
	return info, err
}

// Lookup describes the file or the directory at path, within the directory o, as an open of it for ReadAttributes does.
//
// Errors: NOT_A_DIRECTORY unless o is a directory; the errors of FS.Open for such an open.
//
// Source: [OP-118]
func (o *Open) Lookup(path string) (info FileInfo, err error) {
	err = o.use("look up in", func() error {
		if !o.IsDir() {
			return ntstatus.NotADirectory
		}
		if dir := o.Path(); path == "" {
			path = dir
		} else if _, _, err := parsePath(path); err != nil {
			return err
		} else if dir != "" {
			path = dir + "/" + path
		}
		found, _, err := o.fs.open(&OpenRequest{
			Share: o.share.Name, Path: path, Access: ReadAttributes | Synchronize, ShareMode: ShareAll, Disposition: OpenExisting, User: o.user,
		})
		if err != nil {
			return err
		}
		info, err = found.Stat()
		return errors.Join(err, found.Close())
	})
	return info, err
}

// SetTimes sets the timestamps that t names.
//
// Errors: ACCESS_DENIED without WriteAttributes, or if the server process may
// not.
//
// Source: [MS-FSCC 2.4.7]
func (o *Open) SetTimes(t Times) error {
	return o.use("set times of", func() error {
		if o.granted&WriteAttributes == 0 {
			return ntstatus.AccessDenied
		}
		if t.Accessed.IsZero() && t.Modified.IsZero() {
			return nil
		}
		o.fs.beginsChange()
		if err := o.handle.SetTimes(t); err != nil {
			return err
		}
		var kind ChangeFilter
		if !t.Accessed.IsZero() {
			kind |= ChangedLastAccess
		}
		if !t.Modified.IsZero() {
			kind |= ChangedLastWrite
		}
		o.changes.modified(kind).send()
		return nil
	})
}

// SetAttributes sets the attributes of the file. 0 changes nothing. Without AttrReadOnly, a read-only
// file becomes writable again for its owner. The attributes of a directory do not change.
//
// Errors: ACCESS_DENIED without WriteAttributes, or if the server process may
// not; INVALID_PARAMETER for attributes that do not fit the file.
//
// Source: [MS-FSCC 2.4.7] [MS-FSCC 2.6]
func (o *Open) SetAttributes(attributes uint32) error {
	return o.use("set attributes of", func() error {
		switch {
		case o.granted&WriteAttributes == 0:
			return ntstatus.AccessDenied
		case attributes&^attrKnown != 0,
			!o.IsDir() && attributes&AttrDirectory != 0,
			o.IsDir() && attributes&AttrTemporary != 0:
			return ntstatus.InvalidParameter
		case attributes == 0:
			return nil
		}
		if !o.IsDir() { // a directory keeps its permissions
			o.fs.beginsChange()
			if err := setReadOnly(o.handle, attributes&AttrReadOnly != 0); err != nil {
				return err
			}
		}
		o.changes.modified(ChangedAttributes).send() // also for attributes that are not kept
		return nil
	})
}

// setReadOnly removes or restores the permission to write of a file.
func setReadOnly(h Handle, on bool) error {
	info, err := h.Stat()
	if err != nil || on == info.ReadOnly() {
		return err
	}
	return h.SetReadOnly(on)
}

// VolumeInfo describes the file system of the share. It is read-only for a user that may only read.
//
// Errors: NOT_SUPPORTED on a system without support.
//
// Source: [MS-FSCC 2.5]
func (o *Open) VolumeInfo() (VolumeInfo, error) {
	v, err := o.share.Backend.Volume()
	if err != nil {
		return VolumeInfo{}, fail("statfs", o.share.Name, "", err)
	}
	v.ReadOnly = v.ReadOnly || o.rights < ReadWrite
	return v, nil
}
