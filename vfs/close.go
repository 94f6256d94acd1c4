package vfs

import (
	"sync"
	"time"
)

// Close ends the open: it refuses new references, ends waits for locks, runs the revoke
// hooks, waits for the references that are held, unlocks what is locked, and deletes the
// file if that is pending and this was the last open of it. I/O that has not come back
// after the time limit is announced to the stall hooks; if that does not help either,
// Close goes on, and the last Release closes the descriptor.
//
// Close is idempotent: every call returns when the first is over, with its
// result. Errors: those of a delete that failed; the open is closed all the same.
//
// Source: [OP-58b] [MS-SMB2 3.3.5.10]
func (o *Open) Close() error {
	o.fs.CloseAll(o)
	return o.closeErr
}

// CloseAll closes opens of the table together, as Open.Close does each. It waits no
// longer than one of them would, and one whose I/O does not come back holds up no other:
// neither its locks, nor its share mode, nor its delete.
func (f *FS) CloseAll(opens ...*Open) {
	var mine []*Open
	for _, o := range opens {
		if o.beginClose() {
			mine = append(mine, o)
		}
	}
	for _, o := range mine {
		o.locks.dropWaits(o)
		o.runHooks(&o.revoke)
	}
	var held sync.WaitGroup
	for _, o := range mine {
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

// beginClose refuses new references and reports whether it was the first.
func (o *Open) beginClose() bool {
	o.fs.mu.Lock()
	defer o.fs.mu.Unlock()
	if o.closing {
		return false
	}
	o.closing = true
	delete(o.fs.byKey, o.key)
	o.drained = make(chan struct{})
	if o.refs.add(refsClosing) {
		o.drain.Do(func() { close(o.drained) })
	}
	return true
}

// endClose waits until nothing is in flight, as long as that is waited for, and finishes.
func (o *Open) endClose() {
	if !o.drains() {
		o.fs.log.Warn("vfs: I/O in flight holds up a close", "open", o.id, "file", o.share.Name+"/"+o.Path())
		o.runHooks(&o.stall)
		o.drains()
	}
	o.closeErr = o.finish()
	close(o.done)
}

// drains reports whether nothing is in flight before the time limit is over.
func (o *Open) drains() bool {
	if !o.refs.held() {
		return true
	}
	timeout := time.NewTimer(o.fs.timeout)
	defer timeout.Stop()
	select {
	case <-o.drained:
		return true
	case <-timeout.C:
		return false
	}
}

// finish lets go of what the open has locked, takes it out of the table, deletes what is
// to be deleted, and closes the descriptor, or leaves that to the I/O that has not come
// back.
func (o *Open) finish() error {
	o.locks.dropLocks(o)
	err := o.leave()
	o.fs.opens.give(o.user, 1)
	o.fs.orphans.Add(1)
	if o.refs.add(refsOrphan) {
		o.closeOrphan()
	}
	return err
}

func (o *Open) leave() error {
	f := o.fs
	o.share.ns.RLock()
	defer o.share.ns.RUnlock()
	path := o.Path() // only a rename changes it, and none is under way
	stripe := o.share.stripe(path)
	stripe.Lock()
	defer stripe.Unlock()

	f.mu.Lock()
	n := o.node
	d := f.unregisterLocked(o)
	f.mu.Unlock()
	var err error
	if d != nil {
		err = fail("delete", d.share.Name, d.path, d.share.Backend.Remove(d.path, n.id, d.dir))
		if err != nil {
			f.log.Warn("vfs: delete on close", "err", err)
		}
		f.mu.Lock()
		f.dropLocked(n)
		f.mu.Unlock()
	}
	return err
}
