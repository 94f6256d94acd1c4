package vfs

import (
	"errors"
	"io/fs"

	"lwio/internal/ntstatus"
)

// appendOnly reports whether a allows appending to a file but not changing it.
func appendOnly(a Access) bool { return a&dataWrite == AppendData }

// openFile opens a regular file with the requested access. For MaximumAllowed it opens the file with
// all access that the operating system allows.
func (c *creation) openFile(o *Open, readOnly, empties bool) error {
	max := c.want&MaximumAllowed != 0
	must := HandleMode{Read: c.want&dataRead != 0, Write: c.want&dataWrite != 0 || empties}
	tries := []HandleMode{must}
	switch {
	case max && !readOnly && c.rights == ReadWrite:
		tries = []HandleMode{{Read: true, Write: true}, {Read: true, Write: must.Write}, {Read: must.Read, Write: true}}
	case max:
		tries = []HandleMode{{Read: true, Write: must.Write}}
	case !must.Read && !must.Write:
		tries = []HandleMode{{Read: true}, {Write: true}}
	}
	var how HandleMode
	var err error
	for _, how = range tries {
		how.Append = appendOnly(c.want) && !max
		if o.handle, err = c.share.Backend.Open(c.path, how); !refused(err) {
			break
		}
	}
	if err != nil {
		return gone(err)
	}
	o.granted = c.want &^ MaximumAllowed
	if max {
		o.granted |= c.maximum(how.Read, how.Write && !readOnly)
	}
	return c.grantDelete(o)
}

// openDir opens a directory.
func (c *creation) openDir(o *Open) error {
	var err error
	if o.handle, err = c.share.Backend.Open(c.path, HandleMode{Dir: true}); err != nil {
		return gone(err)
	}
	writable := c.rights == ReadWrite && o.handle.Writable()
	o.granted = c.want &^ MaximumAllowed
	if o.granted&(dataWrite|DeleteChild) != 0 && !writable {
		return discard(o.handle, because(ntstatus.AccessDenied, "directory is not writable"))
	}
	if c.want&MaximumAllowed != 0 {
		o.granted |= c.maximum(true, writable)
		if writable {
			o.granted |= DeleteChild
		}
	}
	return c.grantDelete(o)
}

// grantDelete checks the right to delete, which depends on the parent directory. Without the right,
// a request that names it fails, and any other request does not get it. The root is never deleted,
// but a request for all rights gets Delete there, too.
func (c *creation) grantDelete(o *Open) error {
	if c.path == "" {
		return nil
	}
	err := error(ntstatus.AccessDenied)
	if o.granted&Delete != 0 {
		err = c.share.Backend.CheckRemove(c.path)
	}
	if err == nil {
		return nil
	}
	if c.want&Delete == 0 && !o.entry.deleteOnClose {
		o.granted &^= Delete
		return nil
	}
	return discard(o.handle, err)
}

// maximum returns the access for MaximumAllowed.
func (c *creation) maximum(read, write bool) Access {
	a := ReadAttributes | ReadEA | ReadControl | Synchronize
	if read {
		a |= dataRead
	}
	if c.rights == ReadWrite {
		a |= WriteAttributes | WriteEA | Delete | WriteDAC | WriteOwner
		if write {
			a |= dataWrite
		}
	}
	return a
}

// MaximalAccess returns the access that an open of this file with MaximumAllowed would get.
//
// Source: [MS-SMB2 2.2.14.2.5]
func (o *Open) MaximalAccess() Access {
	info, err := o.handle.Stat()
	if err != nil {
		return o.granted
	}
	c := creation{share: o.share, rights: o.rights}
	write := o.handle.Writable() && (info.Dir || !info.ReadOnly())
	a := c.maximum(true, write)
	if info.Dir && write && o.rights == ReadWrite {
		a |= DeleteChild
	}
	if path := o.Path(); path != "" && o.share.Backend.CheckRemove(path) != nil {
		a &^= Delete
	}
	return a | o.granted
}

// refused reports whether an attempt with less access can succeed.
func refused(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, ntstatus.SharingViolation)
}

// gone returns errRaced for the error of a file that disappeared after Stat, and any other error
// unchanged.
func gone(err error) error {
	switch ntstatus.Of(err) {
	case ntstatus.ObjectNameNotFound, ntstatus.FileIsADirectory, ntstatus.NotADirectory:
		return errRaced
	default:
		return err
	}
}
