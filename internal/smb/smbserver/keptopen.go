package smbserver

import (
	"sync"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
	"lwio/internal/statefile"
	"lwio/vfs"
)

// Items of the records of a durable open; the group is its persistent id. Items from 1 to
// smbwire.LockBuckets are lock sequences, and items above firstLockItem are locks.
const (
	openItem      = 0
	creatingItem  = 1 << 9           // the time at which the creation of the file began: the record has no identity
	staleItem     = creatingItem + 1 // the status for which the open could not be restored: there is no other item but the record
	firstLockItem = 1 << 10
)

// keptOpen writes a durable open into the state of the server, so that the next process can restore it.
// A record is written before the client gets the answer to the request that changes it. A lock is
// written after the open has it, and removed before the open loses it: so a restored open has each lock
// that its client knows of, and no two opens have conflicting locks. The zero value writes nothing.
// Safe for concurrent use.
type keptOpen struct {
	log *statefile.Log // nil if the server has no state
	id  uint64

	mu     sync.Mutex
	record openRecord
	locks  keptLocks
	last   uint64 // item of the last lock
	// sequences has a bit for each bucket with a record.
	sequences uint64
	// over reports that no more is written: the open is closed, or the server stops.
	over bool
	// announced reports that the state has the record of a file that is being made.
	announced bool
}

// announce writes the record of an open whose file is about to be made.
func (k *keptOpen) announce(log *statefile.Log, id uint64, r openRecord) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.id, k.record = id, r
	c := newChanges()
	defer c.free()
	c.putRecord(id, &k.record)
	c.putCreating(id, time.Now())
	err := log.Apply(&c.batch)
	k.announced = err == nil
	return err
}

// dismiss removes the record of announce, if the open was not made.
func (k *keptOpen) dismiss(log *statefile.Log) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.announced {
		_ = log.Drop(k.id) // a failed removal is repeated by the log
		k.announced = false
	}
}

// begin writes the record of an open, which has been made or restored. update brings the record up to date. Changes that
// begin later come by change, which waits.
func (k *keptOpen) begin(log *statefile.Log, id uint64, r openRecord, update func(*openRecord)) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	update(&r)
	k.id, k.record, k.last = id, r, firstLockItem
	if log == nil {
		return nil
	}
	if err := k.writeRecordLocked(log); err != nil {
		return err
	}
	k.log = log
	return nil
}

// resume takes over the records of a restored open.
func (k *keptOpen) resume(log *statefile.Log, id uint64, r openRecord, locks map[uint64]vfs.Lock, sequences [smbwire.LockBuckets]uint8) {
	for i, number := range sequences {
		if number > 0 {
			k.sequences |= 1 << i
		}
	}
	k.log, k.id, k.record, k.last = log, id, r, firstLockItem
	for item, l := range locks {
		k.locks.add(l, item)
		k.last = max(k.last, item)
	}
}

func (k *keptOpen) writeRecordLocked(log *statefile.Log) error {
	c := newChanges()
	defer c.free()
	c.putRecord(k.id, &k.record)
	if k.announced {
		c.batch.Delete(statefile.Key{Group: k.id, Item: creatingItem})
	}
	err := log.Apply(&c.batch)
	if err == nil {
		k.announced = false
	}
	return err
}

// change changes the record of the open by f. If the record cannot be written it stays as it was.
func (k *keptOpen) change(f func(*openRecord)) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.log == nil || k.over {
		return nil
	}
	old := k.record
	if f(&k.record); k.record.equal(&old) {
		return nil
	}
	err := k.writeRecordLocked(k.log)
	if err != nil {
		k.record = old
	}
	return err
}

// lock writes locks that the open has got, with the sequence of the request. After an error the caller
// takes the locks back.
func (k *keptOpen) lock(locks []vfs.Lock, q *smbwire.LockRequest) error {
	if k.log == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.over {
		return ntstatus.FileClosed
	}
	k.log.TimeBound().Cover() // the client takes the content as it is now for that under the lock
	c := newChanges()
	defer c.free()
	for i, l := range locks {
		c.putLock(k.id, k.last+uint64(i)+1, l)
	}
	kept := c.putSequence(k.id, q)
	if err := k.log.Apply(&c.batch); err != nil {
		return err
	}
	k.sequences |= kept
	for _, l := range locks {
		k.last++
		k.locks.add(l, k.last)
	}
	return nil
}

// failed removes the record of the bucket of a request that has failed. Precondition: the request did not have the number of the
// record. Otherwise the next process would take a later request with that number for a repetition.
func (k *keptOpen) failed(q *smbwire.LockRequest) error {
	bucket, bit := bucketOf(q)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.log == nil || k.over || k.sequences&bit == 0 {
		return nil
	}
	c := newChanges()
	defer c.free()
	c.batch.Delete(statefile.Key{Group: k.id, Item: bucket})
	err := k.log.Apply(&c.batch)
	if err == nil {
		k.sequences &^= bit
	}
	return err
}

// unlock removes the locks of ranges, with the sequence of the request, and calls release for the ranges.
//
// Errors: the error of release; the errors of the log, with which no lock is released.
func (k *keptOpen) unlock(ranges []vfs.Range, q *smbwire.LockRequest, release func(...vfs.Range) error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.removeLocked(ranges, q); err != nil {
		return err
	}
	return release(ranges...)
}

// removeLocked removes the records of the locks of ranges, up to the first range without a lock. If all
// have one, it writes the sequence too.
func (k *keptOpen) removeLocked(ranges []vfs.Range, q *smbwire.LockRequest) error {
	if k.log == nil {
		return nil
	}
	if k.over {
		return ntstatus.FileClosed
	}
	c := newChanges()
	defer c.free()
	var taken []vfs.Lock
	var items []uint64
	for _, r := range ranges {
		l, item, ok := k.locks.take(r)
		if !ok {
			break
		}
		taken, items = append(taken, l), append(items, item)
		c.deleteLock(k.id, item)
	}
	var kept uint64
	if len(taken) == len(ranges) {
		kept = c.putSequence(k.id, q)
	}
	err := k.log.Apply(&c.batch)
	if err != nil {
		for i, l := range taken {
			k.locks.add(l, items[i])
		}
		return err
	}
	k.sequences |= kept
	return nil
}

// end removes the records of the open, which is being closed. A failed removal is repeated by the log. If the
// close may delete the file (deletes, or the record says so), the record of the open stays without locks, as that of
// a closed one, and late is true: if this process dies before the delete, the next one makes the close again. The caller
// then drops the records when the open is closed.
func (k *keptOpen) end(deletes bool) (late bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.log == nil || k.over {
		return false, nil
	}
	locks := k.locks
	k.over, k.locks = true, keptLocks{}
	if deletes || k.record.deleting {
		c := newChanges()
		defer c.free()
		for item := range locks.all() {
			c.deleteLock(k.id, item)
		}
		k.record.closed = true
		c.putRecord(k.id, &k.record)
		if err := k.log.Apply(&c.batch); err == nil {
			return true, nil
		}
	}
	return false, k.log.Drop(k.id)
}

// leave keeps the records of the open for the next process. Later changes fail. It reports false if
// there are none.
func (k *keptOpen) leave() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.log == nil || k.over {
		return false
	}
	k.over = true
	return true
}

// left reports whether no more is written.
func (k *keptOpen) left() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.over
}
