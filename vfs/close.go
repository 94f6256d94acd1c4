package vfs

import (
	"time"
)

// Close ends the open: it refuses new references, ends waits for locks, runs the revoke
// hooks, waits for the references that are held, unlocks what is locked, and deletes the file if that is pending and
// this was the last open of it. I/O that has not come back after the time limit
// is announced to the stall hooks; if that does not help either, Close goes on,
// and the last Release closes the descriptor.
//
// Close is idempotent: every call returns when the first is over, with its
// result. Errors: those of a delete that failed; the open is closed all the same.
//
// Source: [OP-58b] [MS-SMB2 3.3.5.10]
func (o *Open) Close() error {
	o.fs.closeAll([]*Open{o})
	return o.closeErr
}

// CloseAll closes opens of the table together, as Open.Close does each, so that one that
// stalls does not hold up the others.
func (f *FS) CloseAll(opens ...*Open) { f.closeAll(opens) }

func (f *FS) closeAll(opens []*Open) {
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
	if late := f.await(mine); len(late) > 0 {
		for _, o := range late {
			f.log.Warn("vfs: I/O in flight holds up a close", "open", o.id, "file", o.share.Name+"/"+o.Path())
			o.runHooks(&o.stall)
		}
		f.await(late)
	}
	for _, o := range mine {
		o.closeErr = o.finish()
		close(o.done)
	}
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

// await waits, not longer than the time limit, until nothing is in flight, and
// returns the opens where that did not come about.
func (f *FS) await(opens []*Open) (late []*Open) {
	var timeout <-chan time.Time
	for _, o := range opens {
		if timeout == nil && o.refs.held() {
			t := time.NewTimer(f.timeout)
			defer t.Stop()
			timeout = t.C
		}
		if !waitFor(o.drained, timeout) {
			late = append(late, o)
			// The time is up for the rest as well.
			over := make(chan time.Time)
			close(over)
			timeout = over
		}
	}
	return late
}

// finish lets go of what the open has locked, takes it out of the table, deletes what is to be deleted, and
// closes the descriptor, or leaves that to the I/O that has not come back.
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
