package vfs

import "sync/atomic"

// changeReports reports the changes by one open to the watches of its share, and to the leases of the directory of its
// file. Safe for concurrent use.
type changeReports struct {
	share *share
	path  func() string // of the open
	// parent is the lease of the directory that the open has named, or nil.
	parent *LeaseKey
	// unsettled reports that the watches have seen the first write only, and written that the leases have seen no
	// write.
	unsettled, written atomic.Bool
}

// any reports whether there is a watch, or a lease of a directory.
func (r *changeReports) any() bool {
	return r.share.watches.any() || r.share.table.leases.directories.Load() != 0
}

// modified reports a change of the file of the open. The caller sends the notices when it holds no mutex.
func (r *changeReports) modified(kind ChangeFilter) leaseNotices {
	if !r.any() {
		return nil
	}
	return r.share.changed(r.parent, change{kind, NameModified, r.path()})
}

// wrote reports the first write since the beginning, or since settle, to the watches. Further writes cost no lock.
func (r *changeReports) wrote() {
	if !r.written.Load() {
		r.written.Store(true)
	}
	if watches := &r.share.watches; watches.any() && !r.unsettled.Load() {
		r.unsettled.Store(true)
		watches.report(change{ChangedLastWrite, NameModified, r.path()})
	}
}

// settle reports the writes since the first to the watches, and all of them to the leases: an entry may have the old
// size until the file is flushed or closed. The caller sends the notices when it holds no mutex.
func (r *changeReports) settle() (notices leaseNotices) {
	written := r.written.Load() && r.written.Swap(false)
	unsettled := r.unsettled.Load() && r.unsettled.Swap(false)
	if !written && !unsettled || !r.any() {
		return nil
	}
	c := change{ChangedLastWrite | ChangedSize, NameModified, r.path()}
	if unsettled {
		r.share.watches.report(c)
	}
	if written {
		notices = r.share.breakParents(r.parent, c)
	}
	return notices
}
