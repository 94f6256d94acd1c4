package vfs

import "sync"

// Close ends the open: it refuses new references, ends waits for locks, runs the revoke
// hooks, waits for the references that are held, gives back the locks, and deletes the file if
// that is pending and this was its last open. If I/O has not ended within the time limit, the
// stall hooks run; if it has not ended within the limit after that either, Close goes on, and
// the last Release closes the descriptor.
//
// Close is idempotent: every call returns when the first is over, with its result.
// Errors: those of a failed delete; the open is closed all the same.
//
// Source: [OP-58b] [MS-SMB2 3.3.5.10]
func (o *Open) Close() error {
	o.fs.CloseAll(o)
	return o.closeErr
}

// CloseAll closes opens of the table together, each as Open.Close does. It waits no longer
// than one of them would, and an open whose I/O does not end delays no other: neither its
// locks, nor its share mode, nor its delete.
func (f *FS) CloseAll(opens ...*Open) {
	var first []*Open
	for _, o := range opens {
		if f.table.beginClose(o) {
			first = append(first, o)
		}
	}
	for _, o := range first {
		o.locks.refuse()
		o.revoke.run()
	}
	var held sync.WaitGroup
	for _, o := range first {
		if o.refs.held() {
			held.Go(o.endClose)
		} else {
			o.endClose()
		}
	}
	held.Wait()
	for _, o := range opens {
		<-o.done
	}
}

// endClose waits for the I/O in flight and finishes the close.
func (o *Open) endClose() {
	if !o.refs.wait(o.fs.timeout) {
		o.fs.log.Warn("vfs: I/O in flight delays a close", "open", o.id, "file", o.share.Name+"/"+o.Path())
		o.stall.run()
		o.refs.wait(o.fs.timeout)
	}
	o.locks.release()
	o.closeErr = o.leave()
	o.fs.opens.give(o.user, 1)
	o.fs.orphans.Add(1)
	if o.refs.abandon() {
		o.closeOrphan()
	}
	close(o.done)
}

// leave removes the open from the table, and deletes the file if it is to be deleted.
func (o *Open) leave() error {
	f := o.fs
	o.share.ns.RLock()
	defer o.share.ns.RUnlock()
	stripe := o.share.stripe(o.Path()) // only a rename changes the path, and none is in progress
	stripe.Lock()
	defer stripe.Unlock()

	n := o.node // fixed while the open is in the table
	d := f.table.unregister(o)
	if d == nil {
		return nil
	}
	err := fail("delete", d.share.Name, d.path, d.share.Backend.Remove(d.path, n.id, d.dir))
	if err != nil {
		f.log.Warn("vfs: delete on close", "err", err)
	}
	f.table.drop(n)
	return err
}

// closeOrphan closes the descriptor of an open that no I/O uses any more.
func (o *Open) closeOrphan() {
	o.fs.orphans.Add(-1)
	if err := o.handle.Close(); err != nil {
		o.fs.log.Warn("vfs: close of a file", "open", o.id, "err", err)
	}
}
