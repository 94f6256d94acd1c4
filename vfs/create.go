package vfs

import (
	"errors"
	"io/fs"
	"math"
	"reflect"

	"lwio/internal/account"
	"lwio/internal/ntstatus"
)

// OpenRequest describes an open to be made.
//
// Source: [MS-SMB2 2.2.13]
type OpenRequest struct {
	// Share is a share's name in any case, Path a path in it.
	Share, Path string
	// Access may hold generic rights and MaximumAllowed; 0 is refused.
	Access      Access
	ShareMode   ShareMode
	Disposition Disposition
	Options     Options
	// Attributes of a file that is created; AttrReadOnly has an effect.
	Attributes uint32
	// Owner will own the open: a comparable value, or nil for none.
	Owner Owner
	// User is charged for the open and its locks (Config.MaxUserOpens), and has the rights that
	// Share.Rights returns; "" is no user.
	User string
	// Lease asks for a lease or an oplock of a file; nil does not.
	Lease *LeaseRequest
	// Again says that an earlier attempt of the same open had to wait for a lease.
	Again bool
	// Creating, if set, is called before a file is made, with the record of the open; the Identity is
	// not known yet. It is called with locks of the FS held, and must not use the FS.
	Creating func(Record)
}

// maxRaces bounds the attempts of an open. An attempt fails if another process changes the name
// meanwhile.
const maxRaces = 16

// Open opens or creates a file or directory. The caller closes the result. CloseOwner for the owner
// of the request, and FS.Close, also close it.
//
// Errors, as statuses: BAD_NETWORK_NAME; OBJECT_NAME_INVALID and
// OBJECT_PATH_SYNTAX_BAD for the path; INVALID_PARAMETER for a request that
// contradicts itself; OBJECT_NAME_NOT_FOUND, OBJECT_PATH_NOT_FOUND, OBJECT_NAME_COLLISION,
// FILE_IS_A_DIRECTORY, NOT_A_DIRECTORY; SHARING_VIOLATION, FILE_NOT_AVAILABLE, DELETE_PENDING;
// ACCESS_DENIED if the rights of the user on the share, the file or the operating system forbid the
// access, for a path that leads out of the share, and for a special file;
// CANNOT_DELETE, DIRECTORY_NOT_EMPTY for delete on close;
// TOO_MANY_OPENED_FILES; FILE_CLOSED after FS.Close. A [LeaseWait] for an open that has to wait until the
// holder of a lease acknowledges its break.
//
// Source: [MS-FSA 2.1.5.1] [MS-SMB2 3.3.5.9] [OP-57]
func (f *FS) Open(req OpenRequest) (*Open, Action, error) {
	o, action, err := f.open(&req)
	if err != nil {
		return nil, 0, fail("open", req.Share, req.Path, err)
	}
	return o, action, nil
}

func (f *FS) open(req *OpenRequest) (*Open, Action, error) {
	s := f.shares[foldShare(req.Share)]
	if s == nil {
		return nil, 0, ntstatus.BadNetworkName
	}
	path, wantDir, err := parsePath(req.Path)
	if err != nil {
		return nil, 0, err
	}
	if wantDir {
		if req.Options&NonDirectoryFile != 0 {
			return nil, 0, because(ntstatus.ObjectNameInvalid, "a file's name ends in a slash")
		}
		req.Options |= DirectoryFile
	}
	rights := s.rightsOf(req.User)
	if err := req.check(rights); err != nil {
		return nil, 0, err
	}
	if !f.opens.Take(req.User, 1, account.Last) {
		return nil, 0, ntstatus.TooManyOpenedFiles
	}
	c := creation{fs: f, share: s, path: path, req: req, rights: rights, want: req.Access.specific()}
	o, action, err := c.run()
	c.leases.notices.send()
	if err != nil {
		if !c.withdrawn {
			f.opens.Give(req.User, 1, account.Last)
		}
		return nil, 0, err
	}
	return o, action, nil
}

// check returns an error for a request that contradicts itself, and for a request beyond the rights
// of its user.
//
// Source: [MS-FSA 2.1.5.1] [MS-SMB2 3.3.5.9]
func (r *OpenRequest) check(rights Rights) error {
	want, opts := r.Access.specific(), r.Options
	switch {
	case rights == NoAccess:
		return errNoRights
	case r.Access == 0 || r.Access&undefinedBit != 0:
		return because(ntstatus.AccessDenied, "no access asked for, or one that does not exist")
	case want&AccessSystemSecurity != 0:
		return ntstatus.PrivilegeNotHeld
	case opts&OpenByFileID != 0:
		return because(ntstatus.NotSupported, "open by file id")
	case r.Disposition > OverwriteIf, r.ShareMode&^ShareAll != 0, r.Attributes&^attrKnown != 0:
		return because(ntstatus.InvalidParameter, "disposition, share mode or attributes out of range")
	case opts&DirectoryFile != 0 && opts&NonDirectoryFile != 0:
		return because(ntstatus.InvalidParameter, "both a directory and not a directory")
	case opts&DirectoryFile != 0 && (r.Disposition.empties() || r.Attributes&AttrTemporary != 0):
		return because(ntstatus.InvalidParameter, "not possible for a directory")
	case opts&DeleteOnClose != 0 && want&(Delete|MaximumAllowed) == 0:
		return because(ntstatus.InvalidParameter, "delete on close without delete access")
	case r.Owner != nil && !reflect.ValueOf(r.Owner).Comparable():
		return because(ntstatus.InvalidParameter, "owner cannot be compared")
	case rights < ReadWrite && (want&anyWrite != 0 || r.Disposition == Supersede || r.Disposition == Overwrite):
		return errReadOnly
	}
	return nil
}

// creation is an open in progress.
type creation struct {
	fs        *FS
	share     *share
	path      string
	req       *OpenRequest
	rights    Rights // of the user when the open began
	want      Access // without generic rights
	leases    leaseDemand
	withdrawn bool // another goroutine closes the open and ends its count
}

func (c *creation) run() (*Open, Action, error) {
	c.share.ns.RLock()
	defer c.share.ns.RUnlock()
	stripe := c.share.stripe(c.path)
	stripe.Lock()
	defer stripe.Unlock()
	for range maxRaces {
		o, action, err := c.try()
		if !errors.Is(err, errRaced) {
			return o, action, err
		}
	}
	return nil, 0, because(ntstatus.AccessDenied, "the name is a link that leads nowhere, or changes all the time")
}

// try makes one attempt; errRaced asks for another one.
func (c *creation) try() (*Open, Action, error) {
	if c.share.pendingDirs.above(c.path) {
		return nil, 0, ntstatus.DeletePending
	}
	info, err := c.share.Backend.Stat(c.path)
	switch {
	case err == nil:
		return c.existing(info)
	case ntstatus.Of(err) != ntstatus.ObjectNameNotFound:
		return nil, 0, err
	case c.req.Disposition == OpenExisting || c.req.Disposition == Overwrite:
		return nil, 0, c.missing(err)
	}
	return c.create()
}

// missing returns err, the error of a name that does not exist. If the directory of the name does not
// exist, it returns OBJECT_PATH_NOT_FOUND.
func (c *creation) missing(err error) error {
	parent, _ := split(c.path)
	if info, e := c.share.Backend.Stat(parent); e != nil || !info.Dir {
		return because(ntstatus.ObjectPathNotFound, err.Error())
	}
	return err
}

// create makes the file or directory. The open gets all the requested access; the permissions of the
// new file do not restrict it.
func (c *creation) create() (*Open, Action, error) {
	readOnly := c.req.Attributes&AttrReadOnly != 0
	isDir := c.req.Options&DirectoryFile != 0
	switch {
	case c.rights < ReadWrite:
		return nil, 0, errReadOnly
	case readOnly && !isDir && c.req.Options&DeleteOnClose != 0:
		return nil, 0, because(ntstatus.CannotDelete, "file is read-only")
	}
	if err := c.demand(FileInfo{}).mayOpen(&c.fs.table, NodeID{}, nil); err != nil {
		return nil, 0, err
	}
	o := c.newOpen()
	o.granted = c.want &^ MaximumAllowed
	if c.want&MaximumAllowed != 0 {
		o.granted |= fileAllAccess
	}
	var err error
	if isDir {
		if err = c.share.Backend.Mkdir(c.path); err == nil {
			o.handle, err = c.share.Backend.Open(c.path, HandleMode{Dir: true})
		}
	} else {
		how := HandleMode{Read: true, Write: true, Append: appendOnly(o.granted)}
		if c.req.Creating != nil {
			c.req.Creating(recordOf(o, nil))
		}
		o.handle, err = c.share.Backend.Create(c.path, how, readOnly)
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil, 0, errRaced
	case err != nil && ntstatus.Of(err) == ntstatus.ObjectNameNotFound:
		return nil, 0, because(ntstatus.ObjectPathNotFound, err.Error())
	case err != nil:
		return nil, 0, err
	}
	c.leases.notices = append(c.leases.notices, c.share.changed(o.changes.parent, change{nameKind(isDir), NameAdded, c.path})...)
	if err := c.admit(o, FileInfo{Dir: isDir}); err != nil {
		return nil, 0, err
	}
	return o, Created, nil
}

// existing opens an existing file or directory.
func (c *creation) existing(info FileInfo) (*Open, Action, error) {
	if err := c.mayOpen(info); err != nil {
		return nil, 0, err
	}
	o := c.newOpen()
	empties := c.req.Disposition.empties()
	var err error
	if info.Dir {
		err = c.openDir(o)
	} else {
		err = c.openFile(o, info.ReadOnly(), empties)
	}
	if err != nil {
		return nil, 0, err
	}
	if err := c.admit(o, info); err != nil {
		return nil, 0, err
	}
	if !empties {
		return o, Opened, nil
	}
	err = c.empty(o)
	c.leases.contend(o.caching.file, o.caching.lease, useOverwrite) // a lease that was granted meanwhile
	if err != nil {
		c.withdraw(o)
		return nil, 0, err
	}
	c.leases.notices = append(c.leases.notices, o.changes.modified(ChangedSize|ChangedLastWrite|ChangedAttributes)...)
	if c.req.Disposition == Supersede {
		return o, Superseded, nil
	}
	return o, Overwritten, nil
}

// mayOpen checks the rules that need no descriptor.
func (c *creation) mayOpen(info FileInfo) error {
	d, opts := c.req.Disposition, c.req.Options
	busy := c.fs.table.admit(info.Node(), c.want|c.emptying(info), c.req.ShareMode)
	locked := info.ReadOnly() && !info.Dir
	switch {
	case errors.Is(busy, ntstatus.DeletePending):
		return busy
	case d == Create:
		return ntstatus.ObjectNameCollision
	case info.Special:
		return because(ntstatus.AccessDenied, "neither a file nor a directory")
	case info.Dir && (opts&NonDirectoryFile != 0 || d.empties()):
		return ntstatus.FileIsADirectory
	case !info.Dir && opts&DirectoryFile != 0:
		return ntstatus.NotADirectory
	case d.empties() && c.rights < ReadWrite:
		return errReadOnly
	case locked && (c.want&dataWrite != 0 || d.empties()):
		return because(ntstatus.AccessDenied, "file is read-only")
	case locked && opts&DeleteOnClose != 0:
		return because(ntstatus.CannotDelete, "file is read-only")
	case c.path == "" && opts&DeleteOnClose != 0:
		return because(ntstatus.CannotDelete, "root of the share")
	}
	return c.demand(info).mayOpen(&c.fs.table, info.Node(), busy)
}

// admit adds o to the table, unless the file is not the described one, or another open conflicts.
// After an error the handle of o is closed.
func (c *creation) admit(o *Open, looked FileInfo) error {
	info, err := o.handle.Stat()
	switch {
	case err != nil:
	case looked.ID != 0 && info.Node() != looked.Node(), looked.Links != 0 && info.Links == 0, info.Dir != looked.Dir:
		err = errRaced
	case info.Special:
		err = because(ntstatus.AccessDenied, "neither a file nor a directory")
	case info.Dir && o.entry.deleteOnClose && !c.share.Backend.IsLink(c.path):
		err = checkEmpty(o.handle)
	}
	if err == nil {
		o.nodeID = info.Node()
		if info.Dir {
			o.dir = &directory{refs: &o.refs, handle: o.handle, backend: c.share.Backend, table: &c.fs.table}
		}
		err = c.fs.table.register(o, o.granted|c.emptying(looked), c.demand(looked))
	}
	if err != nil {
		return discard(o.handle, err)
	}
	// FS.Reauthorize closes the opens that are in the table. A change of the rights before it,
	// which the check at the beginning missed, is found here.
	if c.share.rightsOf(c.req.User) < c.rights {
		c.withdraw(o)
		return because(ntstatus.AccessDenied, "rights were withdrawn")
	}
	return nil
}

// emptying is the access with which an open that empties a file takes part in sharing, beyond
// the granted access.
func (c *creation) emptying(looked FileInfo) Access {
	if c.req.Disposition.empties() && looked.ID != 0 {
		return WriteData
	}
	return 0
}

// empty truncates the file of an open whose disposition empties it.
func (c *creation) empty(o *Open) error {
	w := o.beginChange(nil, 0, math.MaxInt64)
	defer o.EndWrite(w)
	c.fs.beginsChange()
	if err := o.handle.Truncate(0); err != nil {
		return err
	}
	if c.req.Attributes&AttrReadOnly != 0 {
		return o.handle.SetReadOnly(true)
	}
	return nil
}

// withdraw removes a failed open from the table.
func (c *creation) withdraw(o *Open) {
	if !c.fs.table.beginClose(o) {
		c.withdrawn = true // FS.Close or FS.CloseOwner closes it meanwhile
		return
	}
	o.entry.deleteOnClose = false
	n := o.entry.node
	if c.fs.table.unregister(o) != nil {
		c.fs.table.drop(n)
	}
	o.handle.Close()
	close(o.done)
}
