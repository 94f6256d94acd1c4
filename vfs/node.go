package vfs

import "lwio/internal/ntstatus"

// node is a file that is open. FS.mu guards all fields but locks.
type node struct {
	id     NodeID
	locks  lockTable
	opens  []*Open
	counts shareCounts
	// doom is the name that goes when the last open does, or nil.
	doom *doom
}

// doom is a delete that is pending.
type doom struct {
	share *share
	path  string
	dir   bool
}

// shareCounts sums up the opens of a file that read, write or delete; the
// others take no part in sharing.
//
// Source: [MS-FSA 2.1.5.1.2.2]
type shareCounts struct {
	opens, readers, writers, deleters     int
	sharedRead, sharedWrite, sharedDelete int
}

// conflicts reports whether an open with that access and mode must be refused.
func (c *shareCounts) conflicts(a Access, m ShareMode) bool {
	if !takesPart(a) {
		return false
	}
	return a&dataRead != 0 && c.sharedRead < c.opens ||
		a&dataWrite != 0 && c.sharedWrite < c.opens ||
		a&Delete != 0 && c.sharedDelete < c.opens ||
		c.readers > 0 && m&ShareRead == 0 ||
		c.writers > 0 && m&ShareWrite == 0 ||
		c.deleters > 0 && m&ShareDelete == 0
}

// add counts an open in (d = 1) or out (d = -1).
func (c *shareCounts) add(a Access, m ShareMode, d int) {
	if !takesPart(a) {
		return
	}
	c.opens += d
	for _, f := range [...]struct {
		yes bool
		n   *int
	}{
		{a&dataRead != 0, &c.readers},
		{a&dataWrite != 0, &c.writers},
		{a&Delete != 0, &c.deleters},
		{m&ShareRead != 0, &c.sharedRead},
		{m&ShareWrite != 0, &c.sharedWrite},
		{m&ShareDelete != 0, &c.sharedDelete},
	} {
		if f.yes {
			*f.n += d
		}
	}
}

func takesPart(a Access) bool { return a&(dataRead|dataWrite|Delete) != 0 }

// admitLocked says whether an open of the file id may come into being. access
// may hold more than what will be granted.
func (f *FS) admitLocked(id NodeID, access Access, mode ShareMode) error {
	n := f.nodes[id]
	switch {
	case n == nil:
		return nil
	case n.doom != nil:
		return ntstatus.DeletePending
	case n.counts.conflicts(access, mode):
		return ntstatus.SharingViolation
	}
	return nil
}

// registerLocked puts o into the table.
func (f *FS) registerLocked(o *Open) {
	n := f.nodes[o.nodeID]
	if n == nil {
		n = &node{id: o.nodeID}
		f.nodes[o.nodeID] = n
	}
	o.node, o.locks = n, &n.locks
	n.opens = append(n.opens, o)
	n.counts.add(o.granted, o.shareMode, 1)
	f.byKey[o.key] = o
	if f.owners[o.owner] == nil {
		f.owners[o.owner] = make(map[*Open]struct{})
	}
	f.owners[o.owner][o] = struct{}{}
}

// unregisterLocked takes o out of the table. If that was the last open of a
// file that is to be deleted, the node stays, so that nobody opens the file
// meanwhile, and its doom is returned; the caller deletes, then drops the node.
func (f *FS) unregisterLocked(o *Open) *doom {
	n := o.node
	for i, other := range n.opens {
		if other == o {
			n.opens = append(n.opens[:i], n.opens[i+1:]...)
			break
		}
	}
	n.counts.add(o.granted, o.shareMode, -1)
	delete(f.byKey, o.key)
	delete(f.owners[o.owner], o)
	if len(f.owners[o.owner]) == 0 {
		delete(f.owners, o.owner)
	}
	if o.deleteOnClose && n.doom == nil {
		f.doomLocked(o)
	}
	if len(n.opens) > 0 {
		return nil
	}
	if n.doom == nil {
		f.dropLocked(n)
	}
	return n.doom
}

// doomLocked makes the delete of what o opened pending.
func (f *FS) doomLocked(o *Open) {
	o.node.doom = &doom{share: o.share, path: o.path, dir: o.dir}
	if o.dir {
		o.share.doomed[o.path] = struct{}{}
	}
}

// spareLocked takes a pending delete back.
func (f *FS) spareLocked(n *node) {
	if n.doom != nil && n.doom.dir {
		delete(n.doom.share.doomed, n.doom.path)
	}
	n.doom = nil
}

// dropLocked removes a node without opens.
func (f *FS) dropLocked(n *node) {
	f.spareLocked(n)
	delete(f.nodes, n.id)
}
