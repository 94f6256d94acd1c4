package smbserver

import (
	"time"

	"lwio/vfs"
)

// durable is the part of an open that outlives its connection. It is behind an open in the handle table of a
// session, or an orphan. The orphan of a persistent handle keeps its file from others. Any other orphan lasts as
// long as its batch oplock, or its lease with LeaseHandle: it makes way for the open or the change of another
// client.
//
// Source: [MS-SMB2 3.3.1.10]
type durable struct {
	key     durableKey
	app     instance
	timeout time.Duration // as an orphan
	// persistent: a persistent handle. first: of version 1, which has no GUID.
	persistent, first bool
	// lasting: the open outlives its connection. Otherwise only the GUID of its CREATE is remembered. Fixed by
	// lineages.grant.
	lasting bool

	// Fixed by lineages.grant.
	id     uint64 // the persistent part of the FileId
	file   *vfs.Open
	action vfs.Action

	requests inFlight
	locks    lockSequences
	lease    *openLease // nil if the CREATE asked for none
	kept     keptOpen

	syncFailed syncError

	// lineages.mu guards the rest.
	lineage *Lineage
	session *Session // nil for an orphan
	handle  *open    // of session
	expiry  *time.Timer
	until   time.Time // of an orphan
	// position is open.position of an orphan.
	position uint64
	// earlier and later are the neighbours in the list of the durable opens of the same file.
	earlier, later *durable
	over           bool // not in the table any more
}

// durableKey names a durable open among those of all clients.
//
// Source: [MS-SMB2 3.3.5.9.10]
type durableKey struct {
	client, guid [16]byte
	user         string
}

// remembers sets lasting for an open that has just been made, and reports whether the server remembers the open as
// d, which is nil if the client does not ask for that. With a GUID it remembers an open that does not outlive its
// connection too: for a CREATE that the client repeats. A directory is never remembered.
//
// Source: [MS-SMB2 3.3.5.9.6], [MS-SMB2 3.3.5.9.10]
func (d *durable) remembers(file *vfs.Open) bool {
	if d == nil || file.IsDir() {
		return false
	}
	now := file.Lease()
	d.lasting = d.persistent || now.State&vfs.LeaseHandle != 0 && !now.Breaking
	return d.lasting || !d.first
}

// orphaned reports whether the open is an orphan. Precondition: lineages.mu is held.
func (d *durable) orphaned() bool { return d.file != nil && d.session == nil && !d.over }
