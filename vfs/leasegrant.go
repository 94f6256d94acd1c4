package vfs

import (
	"errors"
	"slices"

	"lwio/internal/ntstatus"
)

// leaseDemand is the demand of an open that is being made on the leases of its file.
type leaseDemand struct {
	request *LeaseRequest // nil: no lease is asked for
	empties bool
	deletes bool // at its close
	again   bool // the open has waited before
	notices leaseNotices
}

// demand notes the demand of the open on a file.
func (c *creation) demand(looked FileInfo) *leaseDemand {
	d := &c.leases
	d.request, d.again = c.req.Lease, c.req.Again
	d.empties, d.deletes = c.emptying(looked) != 0, c.req.Options&DeleteOnClose != 0
	return d
}

// statAccess is the access of opens that use no data: they break no lease.
//
// Source: [MS-SMB2 3.3.5.9], [MS-FSA 2.1.4.12]
const (
	statAccess      = ReadAttributes | WriteAttributes | Synchronize
	leaseStatAccess = statAccess | ReadControl
)

// contendLocked breaks the leases that the new open o of a file breaks. Precondition: table.mu is held, and the
// share modes allow the open.
func (d *leaseDemand) contendLocked(n *node, o *Open, own *lease) error {
	if n.leases.now.Load() == nil {
		return nil
	}
	var uses []leaseUse
	switch {
	case o.IsDir(): // it changes no entry
	case d.empties:
		uses = append(uses, useOverwrite)
	case o.granted&^statAccess == 0, o.granted&^leaseStatAccess == 0 && !n.leases.oplocks():
	default:
		uses = append(uses, useOpen)
	}
	if d.deletes {
		uses = append(uses, useName)
	}
	var first error
	for _, use := range uses {
		if wait := d.contend(&n.leases, own, use); wait != nil && first == nil {
			first = wait
		}
	}
	return first
}

// shareLocked breaks the leases of a file that delay its close, because its opens conflict with a new one.
// conflict is the error without such leases. Precondition: table.mu is held.
//
// Source: [MS-FSA 2.1.5.1.2.2]
func (d *leaseDemand) shareLocked(n *node, own *lease, conflict error) error {
	if n == nil || n.leases.now.Load() == nil || errors.Is(conflict, ntstatus.DeletePending) || errors.Is(conflict, errGrace) {
		return conflict
	}
	if wait := d.contend(&n.leases, own, useShare); wait != nil {
		return wait
	}
	return conflict
}

// mayOpen returns an error for a key of another file, and breaks leases if the share modes of a file forbid
// an open: conflict is their error, or nil. The file id is zero for one that does not exist.
func (d *leaseDemand) mayOpen(t *table, id NodeID, conflict error) error {
	t.mu.Lock()
	n := t.nodes[id]
	own, err := t.leases.own(n.fileLeases(), d.request)
	if err == nil && conflict != nil {
		err = d.shareLocked(n, own, conflict)
	}
	t.mu.Unlock()
	return err
}

// contend is leaseTable.contend, and keeps the notices.
func (d *leaseDemand) contend(f *fileLeases, own *lease, use leaseUse) *LeaseWait {
	wait, notices := f.table.contend(f, own, use, d.again)
	d.notices = append(d.notices, notices...)
	return wait
}

// oplocks reports whether a holder has an oplock.
func (f *fileLeases) oplocks() bool {
	f.table.mu.Lock()
	defer f.table.mu.Unlock()
	return slices.ContainsFunc(f.list, func(l *lease) bool { return l.oplock && l.state != 0 })
}

// grantLocked gives the new open o of a file the lease that it asks for, or the part that others allow. The
// open is not in the table yet. Precondition: table.mu is held.
//
// Source: [MS-FSA 2.1.5.18], [MS-SMB2 3.3.5.9.8], [MS-SMB2 3.3.5.9.11]
func (d *leaseDemand) grantLocked(n *node, o *Open, own *lease) {
	q := d.request
	if q == nil || o.IsDir() && !q.ofDirectories() {
		return
	}
	t := n.leases.table
	t.mu.Lock()
	defer t.mu.Unlock()
	asked := q.State
	if o.IsDir() {
		asked &^= LeaseWrite
	}
	state := d.grantableLocked(n, own, asked)
	if own == nil {
		if q.Oplock && state == 0 {
			return
		}
		own = &lease{
			file: &n.leases, oplock: q.Oplock, v2: q.V2, key: q.Key,
			holders: make(map[*Open]func(LeaseBreak) LeaseReach), state: state, epoch: q.Epoch,
		}
		if state != 0 {
			own.epoch++
		}
		n.leases.list = append(n.leases.list, own)
		t.count++
		if n.leases.dir {
			t.directories.Add(1)
		}
		if !q.Oplock {
			t.byKey[q.Key] = own
		}
	} else if asked&own.state == own.state && state == asked && state != own.state && !own.breaking {
		own.state = state
		own.epoch++
	}
	own.holders[o] = q.Broken
	o.caching.lease = own
	n.leases.updateLocked()
}

// ofDirectories reports whether the request may be for a directory.
//
// Source: [MS-SMB2 3.3.5.9.8], [MS-SMB2 3.3.5.9.11]
func (q *LeaseRequest) ofDirectories() bool { return q.Directories && q.V2 && !q.Oplock }

// grantableLocked returns the part of a state that the file and the other opens allow.
// Precondition: both mutexes are held.
func (d *leaseDemand) grantableLocked(n *node, own *lease, state LeaseState) LeaseState {
	q := d.request
	if n.locks.any() && !d.empties {
		state &^= LeaseRead | LeaseHandle
	}
	for _, l := range n.leases.list {
		switch {
		case l == own:
		case l.state&LeaseWrite != 0: // o uses no data, and has broken nothing
			return 0
		case q.Oplock && l.state&LeaseHandle != 0:
			return 0
		case !q.Oplock && l.oplock && l.state != 0:
			state &^= LeaseHandle
		}
	}
	if state&LeaseWrite != 0 && slices.ContainsFunc(n.opens, func(o *Open) bool { return o.forbidsWriteLease(own) }) {
		state &^= LeaseWrite
	}
	switch {
	case state&LeaseRead == 0:
		return 0
	case q.Oplock && state&LeaseWrite == 0:
		return LeaseRead
	}
	return state
}

// forbidsWriteLease reports whether the open stops others than the lease own from LeaseWrite: it has a lease
// or may have had one, or may use the data. Precondition: both mutexes are held.
func (o *Open) forbidsWriteLease(own *lease) bool {
	l := o.caching.lease
	switch {
	case l != nil && l == own:
		return false
	case l != nil && (!l.oplock || l.state != 0):
		return true
	}
	return o.granted&^statAccess != 0
}

// leave ends the part of an open in its lease, whose rights end with its last open.
func (c *openLease) leave(o *Open) {
	l := c.lease
	if l == nil {
		return
	}
	t := c.file.table
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(l.holders, o)
	l.leftLocked(o)
	if len(l.holders) > 0 {
		return
	}
	t.count--
	if c.file.dir {
		t.directories.Add(-1)
	}
	if !l.oplock {
		delete(t.byKey, l.key)
	}
	l.state, l.breaking = 0, false
	c.file.list = slices.DeleteFunc(c.file.list, func(x *lease) bool { return x == l })
	c.file.updateLocked()
}
