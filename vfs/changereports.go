package vfs

import "sync/atomic"

// changeReports reports the changes by one open to the watches of its share. Safe for concurrent use.
type changeReports struct {
	to   *watches
	path func() string // of the open
	// unsettled reports that the watches have seen the first write only.
	unsettled atomic.Bool
}

// modified reports a change of the file of the open.
func (r *changeReports) modified(kind ChangeFilter) {
	if r.to.any() {
		r.to.report(change{kind, NameModified, r.path()})
	}
}

// wrote reports the first write since the beginning, or since settle. Further writes cost no lock.
func (r *changeReports) wrote() {
	if r.to.any() && !r.unsettled.Load() {
		r.unsettled.Store(true)
		r.modified(ChangedLastWrite)
	}
}

// settle reports the writes since the first that wrote has reported.
func (r *changeReports) settle() {
	if r.unsettled.Load() && r.unsettled.Swap(false) {
		r.modified(ChangedLastWrite | ChangedSize)
	}
}
