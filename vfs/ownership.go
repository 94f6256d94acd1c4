package vfs

// Ownership says which client has an open, and whether the client is there. Safe for concurrent use.
type Ownership struct {
	open  *Open
	moved hooks // when the owner changes

	// Guarded by table.mu.
	owner  Owner
	orphan bool
}

// Ownership returns the ownership of the open.
func (o *Open) Ownership() *Ownership { return &o.ownership }

// Owner returns the owner of the open.
func (w *Ownership) Owner() Owner {
	t := &w.open.fs.table
	t.mu.Lock()
	defer t.mu.Unlock()
	return w.owner
}

// Transfer gives the open to another owner. Functions of OnTransfer run before it returns.
//
// Source: [OP-56]
func (w *Ownership) Transfer(to Owner) {
	w.open.fs.table.setOwner(w.open, to)
	w.moved.flush()
}

// OnTransfer registers f, which runs at the next change of the owner. stop unregisters f; it does not
// wait for a running f. A second call does nothing. The open is not closed by that, and f must not close
// it.
func (w *Ownership) OnTransfer(f func()) (stop func()) { return w.moved.add(f) }

// SetOrphan says whether the open is an orphan: its client has lost the connection, and may take the
// open over. The share mode and the locks of an orphan apply, and its I/O goes on. A new open that
// conflicts with the share mode of orphans only is refused with FILE_NOT_AVAILABLE, because that
// conflict is over when the client returns, or its time has passed. SetOrphan(false) ends Abandon too.
//
// Source: [OP-56] [MS-SMB2 3.3.5.9]
func (w *Ownership) SetOrphan(on bool) {
	o := w.open
	t := &o.fs.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if !on {
		o.caching.keep(o)
	}
	w.setLocked(on)
}

// setLocked is SetOrphan. Precondition: table.mu is held.
func (w *Ownership) setLocked(on bool) {
	o := w.open
	if w.orphan == on {
		return
	}
	if o.entry.counted {
		o.entry.node.sharing(o).add(o.granted, o.shareMode, -1)
	}
	w.orphan = on
	if o.entry.counted {
		o.entry.node.sharing(o).add(o.granted, o.shareMode, 1)
		o.entry.endReturnLocked()
	}
}

// Abandon makes the open an orphan that keeps the file from no other open: it lasts as long as its lease has
// LeaseHandle. When the lease loses that, or a break of the lease reaches no client, lost is called once.
// It must not wait, nor use the FS, because locks of it may be held. It causes the close of the open by another
// goroutine; operations that wait for the break go on after that. Abandon reports false, and does nothing, if the lease has no LeaseHandle or is being
// broken.
//
// Source: [MS-SMB2 3.3.7.1], [MS-SMB2 3.3.4.6], [MS-SMB2 3.3.4.7]
func (w *Ownership) Abandon(lost func()) bool {
	o := w.open
	t := &o.fs.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if !o.caching.abandon(o, lost) {
		return false
	}
	w.setLocked(true)
	return true
}

// Return ends the time of an orphan whose client takes the open over. It reports false, and does nothing, if the
// function of Abandon has been called: the open is about to be closed.
func (w *Ownership) Return() bool {
	o := w.open
	t := &o.fs.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if !o.caching.keep(o) {
		return false
	}
	w.setLocked(false)
	return true
}
