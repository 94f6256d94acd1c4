package vfs

import (
	"errors"
	"sync"

	"lwio/internal/ntstatus"
)

// table holds the open files of all shares, and the opens of each file. mu guards all of it. mu is
// never held over I/O.
type table struct {
	mu     sync.Mutex
	closed bool
	nodes  map[NodeID]*node
	byKey  map[[24]byte]*Open
	owners map[Owner]map[*Open]struct{}
	leases *leaseTable
}

func (t *table) init(leases *leaseTable) {
	t.leases = leases
	t.nodes = make(map[NodeID]*node)
	t.byKey = make(map[[24]byte]*Open)
	t.owners = make(map[Owner]map[*Open]struct{})
}

// tableEntry is the part of an open that the table changes. table.mu guards it.
type tableEntry struct {
	node    *node
	at      int // index in node.opens
	path    string
	closing bool
	counted bool // in a shareCounts of node
	// returning reports that the open was restored, and its client has not taken it over.
	returning bool
	// deleteOnClose is the option DeleteOnClose, until it is cleared. It is read without the lock before
	// another goroutine knows the open.
	deleteOnClose bool
	// deletes reports that the open is being closed, and is counted in node.deleting.
	deletes bool
}

// endReturnLocked ends the part of the open in the grace period of its file.
// Precondition: table.mu is held.
func (e *tableEntry) endReturnLocked() {
	if e.returning {
		e.returning = false
		e.node.returning--
	}
}

// node is a file that is open. table.mu guards all fields but locks, leases and writes.
type node struct {
	id      NodeID
	locks   lockTable
	leases  fileLeases
	writes  writesInProgress
	opens   []*Open     // in no order
	counts  shareCounts // of the opens that are no orphans
	orphans shareCounts
	// returning counts the restored opens that their clients have not taken over. While there are
	// any, the file is in its grace period.
	returning int
	// deleting counts the opens with the option DeleteOnClose that are being closed.
	deleting int
	// deletion is the name that is removed with the last open, or nil.
	deletion *deletion
}

// add adds an open. Precondition: table.mu is held.
func (n *node) add(o *Open) {
	o.entry.at = len(n.opens)
	n.opens = append(n.opens, o)
}

// remove removes an open, in the same time for any number of opens; the last open takes its place.
// Precondition: table.mu is held.
func (n *node) remove(o *Open) {
	end := len(n.opens) - 1
	n.opens[o.entry.at] = n.opens[end]
	n.opens[o.entry.at].entry.at = o.entry.at
	n.opens[end] = nil
	n.opens = n.opens[:end]
}

// sharing returns the counts that an open belongs to. Precondition: table.mu is held.
func (n *node) sharing(o *Open) *shareCounts {
	if o.ownership.orphan {
		return &n.orphans
	}
	return &n.counts
}

// fileLeases returns the leases of the file; nil for no file.
func (n *node) fileLeases() *fileLeases {
	if n == nil {
		return nil
	}
	return &n.leases
}

// deletion is a delete that is pending.
type deletion struct {
	share *share
	path  string
	dir   bool
	// parent is the lease of the directory that the open has named which made the delete pending, or nil.
	parent *LeaseKey
}

// admitLocked returns an error if a new open of the file id conflicts. access can include rights that
// the open needs only for a moment.
func (t *table) admitLocked(id NodeID, access Access, mode ShareMode) error {
	n := t.nodes[id]
	switch {
	case n == nil:
		return nil
	case n.deletion != nil:
		return ntstatus.DeletePending
	case n.counts.conflicts(access, mode):
		return ntstatus.SharingViolation
	case n.orphans.conflicts(access, mode):
		return because(ntstatus.FileNotAvailable, "an open of a client that has lost its connection")
	case n.returning > 0:
		return errGrace
	}
	return nil
}

// admit is admitLocked.
func (t *table) admit(id NodeID, access Access, mode ShareMode) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.admitLocked(id, access, mode)
}

// register adds o and its node to the table, unless a new open with that access conflicts. It breaks the
// leases that the open breaks; the caller sends the notices of the demand.
func (t *table) register(o *Open, access Access, d *leaseDemand) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return ntstatus.FileClosed
	}
	n := t.nodes[o.nodeID]
	own, err := t.leases.own(n.fileLeases(), d.request)
	if err != nil {
		return err
	}
	if err := t.admitLocked(o.nodeID, access, o.shareMode); err != nil && (!o.entry.returning || !errors.Is(err, errGrace)) {
		return d.shareLocked(n, own, err)
	}
	if n == nil {
		n = &node{id: o.nodeID, leases: fileLeases{table: t.leases, id: o.nodeID, dir: o.IsDir()}}
		t.nodes[o.nodeID] = n
	} else if err := d.contendLocked(n, o, own); err != nil {
		return err
	}
	o.caching.file = &n.leases
	d.grantLocked(n, o, own)
	o.entry.node = n
	o.locks = openLocks{table: &n.locks, quota: &o.fs.locks, user: o.user}
	o.writes = &n.writes
	if appendOnly(o.granted) {
		o.locks.appends = o.handle
	}
	n.add(o)
	n.sharing(o).add(o.granted, o.shareMode, 1)
	o.entry.counted = true
	if o.entry.returning {
		n.returning++
	}
	t.byKey[o.key] = o
	t.ownLocked(o)
	return nil
}

// ownLocked adds o to the opens of its owner. Precondition: mu is held.
func (t *table) ownLocked(o *Open) {
	if t.owners[o.ownership.owner] == nil {
		t.owners[o.ownership.owner] = make(map[*Open]struct{})
	}
	t.owners[o.ownership.owner][o] = struct{}{}
}

// disownLocked removes o from the opens of its owner. Precondition: mu is held.
func (t *table) disownLocked(o *Open) {
	delete(t.owners[o.ownership.owner], o)
	if len(t.owners[o.ownership.owner]) == 0 {
		delete(t.owners, o.ownership.owner)
	}
}

// setOwner changes the owner of o.
func (t *table) setOwner(o *Open, owner Owner) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !o.entry.counted {
		o.ownership.owner = owner // not in the table any more
		return
	}
	t.disownLocked(o)
	o.ownership.owner = owner
	t.ownLocked(o)
}

// unregister removes o from the table. If o was the last open of the file and a delete is pending, it
// returns the deletion: the caller removes the name, then calls drop. Until then the node stays, so
// the file cannot be opened.
func (t *table) unregister(o *Open) *deletion {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := o.entry.node
	n.remove(o)
	n.sharing(o).add(o.granted, o.shareMode, -1)
	o.entry.counted = false
	o.entry.endReturnLocked()
	delete(t.byKey, o.key)
	t.disownLocked(o)
	o.caching.leave(o)
	if o.entry.deletes {
		n.deleting--
	}
	if o.entry.deleteOnClose {
		_ = t.setDeletionLocked(o) // while another name of the file is being deleted, this one stays
	}
	if len(n.opens) > 0 {
		return nil
	}
	if n.deletion == nil {
		t.dropLocked(n)
	}
	return n.deletion
}

// drop removes a node without opens.
func (t *table) drop(n *node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dropLocked(n)
}

func (t *table) dropLocked(n *node) {
	t.clearDeletionLocked(n)
	delete(t.nodes, n.id)
}

// setDeletion makes the delete of the file of o pending. A node has one pending delete: while another name of the file
// is being deleted, it reports DELETE_PENDING.
func (t *table) setDeletion(o *Open) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.setDeletionLocked(o)
}

func (t *table) setDeletionLocked(o *Open) error {
	if d := o.entry.node.deletion; d != nil {
		if !d.of(o) {
			return ntstatus.DeletePending
		}
		return nil
	}
	o.entry.node.deletion = &deletion{share: o.share, path: o.entry.path, dir: o.IsDir(), parent: o.changes.parent}
	if !o.IsDir() {
		return nil
	}
	o.share.pendingDirs.add(o.entry.path)
	for _, other := range o.entry.node.opens {
		other.share.watches.deleted(other, other.entry.path)
	}
	return nil
}

// of reports whether the name of o is deleted.
func (d *deletion) of(o *Open) bool { return d.share == o.share && d.path == o.entry.path }

// clearDeletion cancels the pending delete of the name of o.
func (t *table) clearDeletion(o *Open) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if d := o.entry.node.deletion; d != nil && d.of(o) {
		t.clearDeletionLocked(o.entry.node)
	}
}

func (t *table) clearDeletionLocked(n *node) {
	if n.deletion != nil && n.deletion.dir {
		n.deletion.share.pendingDirs.remove(n.deletion.path)
	}
	n.deletion = nil
}

// deletePending reports whether a delete of the file id is pending.
func (t *table) deletePending(id NodeID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.nodes[id]
	return n != nil && n.deletion != nil
}

// deleting reports whether a delete of the file id is pending, or becomes pending by a close that has begun.
func (t *table) deleting(id NodeID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.nodes[id]
	return n != nil && (n.deletion != nil || n.deleting > 0)
}

// beginClose removes the resume key of o and refuses new references. It reports whether it was the
// first call for o.
func (t *table) beginClose(o *Open) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if o.entry.closing {
		return false
	}
	o.entry.closing = true
	if o.entry.deleteOnClose {
		o.entry.deletes = true
		o.entry.node.deleting++
	}
	delete(t.byKey, o.key)
	o.refs.refuse()
	return true
}

// close refuses new opens and returns the present ones. It reports whether it was the first call.
func (t *table) close() (opens []*Open, first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	first = !t.closed
	t.closed = true
	return t.allLocked(), first
}

// all returns the present opens.
func (t *table) all() []*Open {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.allLocked()
}

// allLocked is all. Precondition: mu is held.
func (t *table) allLocked() (opens []*Open) {
	for _, n := range t.nodes {
		opens = append(opens, n.opens...)
	}
	return opens
}

// ownedBy returns the opens of an owner.
func (t *table) ownedBy(owner Owner) []*Open {
	t.mu.Lock()
	defer t.mu.Unlock()
	opens := make([]*Open, 0, len(t.owners[owner]))
	for o := range t.owners[owner] {
		opens = append(opens, o)
	}
	return opens
}

// find returns the open of a resume key if it has that owner, or nil.
func (t *table) find(key [24]byte, owner Owner) *Open {
	t.mu.Lock()
	defer t.mu.Unlock()
	if o := t.byKey[key]; o != nil && owner != nil && o.ownership.owner == owner {
		return o
	}
	return nil
}
