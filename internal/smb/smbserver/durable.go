package smbserver

import (
	"time"

	"lwio/vfs"
)

// durable is the part of an open that outlives its connection: a persistent handle. It is behind an open
// in the handle table of a session, or an orphan.
//
// Source: [MS-SMB2 3.3.1.10]
type durable struct {
	key     durableKey
	app     instance
	timeout time.Duration // as an orphan

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

// orphaned reports whether the open is an orphan. Precondition: lineages.mu is held.
func (d *durable) orphaned() bool { return d.file != nil && d.session == nil && !d.over }
