package vfs

// SetOrphan says whether the open is an orphan: its client has lost the connection, and may take the
// open over. The share mode and the locks of an orphan apply, and its I/O goes on. A new open that
// conflicts with the share mode of orphans only is refused with FILE_NOT_AVAILABLE, because that
// conflict is over when the client returns, or its time has passed.
//
// Source: [OP-56] [MS-SMB2 3.3.5.9]
func (o *Open) SetOrphan(on bool) {
	t := &o.fs.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if o.orphan == on {
		return
	}
	if o.counted {
		o.node.sharing(o).add(o.granted, o.shareMode, -1)
	}
	o.orphan = on
	if o.counted {
		o.node.sharing(o).add(o.granted, o.shareMode, 1)
		o.returnedLocked()
	}
}

// SetOwner gives the open to another owner. Functions of OnOwnerChange run before it returns.
//
// Source: [OP-56]
func (o *Open) SetOwner(owner Owner) {
	o.fs.table.setOwner(o, owner)
	o.moved.flush()
}

// Owner returns the owner of the open.
func (o *Open) Owner() Owner {
	o.fs.table.mu.Lock()
	defer o.fs.table.mu.Unlock()
	return o.owner
}

// OnOwnerChange registers f, which runs at the next change of the owner. stop unregisters f; it does
// not wait for a running f. A second call does nothing. The open is not closed by that, and f must not
// close it.
func (o *Open) OnOwnerChange(f func()) (stop func()) { return o.moved.add(f) }
