package vfs

import "lwio/internal/ntstatus"

// Rights are the rights of a user on a share. Each includes the ones before it.
type Rights uint8

// The rights of a user on a share.
const (
	// NoAccess refuses the share.
	NoAccess Rights = iota
	// ReadOnly allows to connect to the share, to list directories and to read files.
	ReadOnly
	// ReadWrite allows changes too.
	ReadWrite
)

// String returns the rights in words.
func (r Rights) String() string {
	switch r {
	case NoAccess:
		return "no access"
	case ReadOnly:
		return "read-only"
	default:
		return "read and write"
	}
}

// Refusals because of the rights of a user.
var (
	errNoRights  = because(ntstatus.AccessDenied, "the user has no rights on the share")
	errWithdrawn = because(ntstatus.AccessDenied, "the user has lost the rights for the open")
	errReadOnly  = because(ntstatus.AccessDenied, "the share is read-only, or read-only for the user")
)

// Reauthorize closes the opens that the present rights of their users do not allow: all opens of a
// user without rights, and opens for a change of a user that may only read. It closes them together,
// each as Open.Close does, and returns their number when that is done. A read in flight that waits for
// the disk fails. An open that begins meanwhile has the new rights. A caller changes the results of
// Share.Rights first.
func (f *FS) Reauthorize() (closed int) {
	var denied []*Open
	for _, o := range f.table.all() {
		if !o.share.rightsOf(o.user).allow(o.granted) {
			o.withdrawn.Store(true)
			denied = append(denied, o)
		}
	}
	f.CloseAll(denied...)
	return len(denied)
}

// allow reports whether r allow all that an open with the granted access can do.
func (r Rights) allow(granted Access) bool {
	switch r {
	case NoAccess:
		return false
	case ReadOnly:
		return granted&anyWrite == 0
	default:
		return true
	}
}
