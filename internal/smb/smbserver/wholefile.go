package smbserver

import (
	"slices"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
	"lwio/vfs"
)

// asksWhole reports whether a CREATE has the context of a whole file: the related requests behind it are executed up to
// the first failure, and a file that it makes is deleted when it is closed, unless a rename has succeeded before.
//
// Source: [MS-SMB2 2.2.13.2]
func asksWhole(q *smbwire.CreateRequest) bool {
	return slices.ContainsFunc(q.Contexts, func(x smbwire.CreateContext) bool { return x.Name == smbwire.CreateContextWhole })
}

// refuseWhole refuses the creation of a file that cannot be deleted when it is closed.
func refuseWhole(q *smbwire.CreateRequest) ntstatus.Status {
	if vfs.Disposition(q.CreateDisposition) != vfs.Create {
		return ntstatus.Success
	}
	if !vfs.Access(q.DesiredAccess).Has(vfs.Delete) || vfs.Options(q.CreateOptions)&vfs.DirectoryFile != 0 || q.FileAttributes&vfs.AttrReadOnly != 0 {
		return ntstatus.InvalidParameter
	}
	return ntstatus.Success
}

// beginWhole makes the delete of a file that a CREATE of a whole file has made pending, and ends the execution of
// related requests with the first failure.
func beginWhole(r *request, o *open, action vfs.Action) error {
	if action == vfs.Created {
		if err := o.file.SetDeleteOnClose(true); err != nil {
			return err
		}
		o.unpublished = true
	}
	r.compound.whole = true
	return nil
}
