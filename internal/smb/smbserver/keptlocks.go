package smbserver

import (
	"encoding/binary"
	"iter"
	"sync"
	"time"

	"lwio/internal/shrink"
	"lwio/internal/smb/smbwire"
	"lwio/internal/statefile"
	"lwio/vfs"
)

// keptLocks are the held locks of a durable open, with the items of their records. The zero value has
// none. Its memory follows the number of locks.
type keptLocks struct {
	items shrink.Map[vfs.Lock, []uint64] // none of them empty
}

// add adds a lock. An open can have a shared lock several times.
func (k *keptLocks) add(l vfs.Lock, item uint64) {
	items, _ := k.items.Get(l)
	k.items.Set(l, append(items, item))
}

// take removes a lock with exactly that range, an exclusive one first, as vfs.Open.Unlock does.
func (k *keptLocks) take(r vfs.Range) (l vfs.Lock, item uint64, ok bool) {
	for _, exclusive := range []bool{true, false} {
		l = vfs.Lock{Range: r, Exclusive: exclusive}
		items, ok := k.items.Get(l)
		if !ok {
			continue
		}
		last := len(items) - 1
		if item = items[last]; last == 0 {
			k.items.Delete(l)
		} else {
			k.items.Set(l, shrink.Slice(items[:last]))
		}
		return l, item, true
	}
	return vfs.Lock{}, 0, false
}

// all returns the items.
func (k *keptLocks) all() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for _, items := range k.items.All() {
			for _, item := range items {
				if !yield(item) {
					return
				}
			}
		}
	}
}

// changes is the memory in which the changes of the records of an open are encoded. An open that is not
// being changed has none: the locks of one request take more than 100 KiB.
type changes struct {
	batch statefile.Batch
	value []byte
}

var changesPool = sync.Pool{New: func() any { return new(changes) }}

// newChanges returns empty changes. The caller frees them.
func newChanges() *changes {
	c := changesPool.Get().(*changes)
	c.batch.Reset()
	return c
}

func (c *changes) free() { changesPool.Put(c) }

// putRecord sets the record of an open.
func (c *changes) putRecord(open uint64, r *openRecord) {
	c.value = r.appendTo(c.value[:0])
	c.batch.Put(statefile.Key{Group: open, Item: openItem}, c.value)
}

// putCreating sets the time at which the creation of the file of an open began.
func (c *changes) putCreating(open uint64, begun time.Time) {
	c.value = binary.LittleEndian.AppendUint64(c.value[:0], uint64(begun.UnixNano()))
	c.batch.Put(statefile.Key{Group: open, Item: creatingItem}, c.value)
}

// putLock adds the record of a lock.
func (c *changes) putLock(open, item uint64, l vfs.Lock) {
	c.value = appendLock(c.value[:0], l)
	c.batch.Put(statefile.Key{Group: open, Item: item}, c.value)
}

// deleteLock removes the record of a lock.
func (c *changes) deleteLock(open, item uint64) {
	c.batch.Delete(statefile.Key{Group: open, Item: item})
}

// putSequence sets the sequence of a request, if it has one. It returns the bit of its bucket.
func (c *changes) putSequence(open uint64, q *smbwire.LockRequest) (bit uint64) {
	bucket, bit := bucketOf(q)
	if bit != 0 {
		_, number := q.Bucket()
		c.value = append(c.value[:0], number)
		c.batch.Put(statefile.Key{Group: open, Item: bucket}, c.value)
	}
	return bit
}

// bucketOf returns the bucket of a request, which is the item of its record too, and the bit of the bucket. The bit is 0 if the
// request has no sequence.
func bucketOf(q *smbwire.LockRequest) (bucket, bit uint64) {
	b, _ := q.Bucket()
	if b == 0 || b > smbwire.LockBuckets {
		return 0, 0
	}
	return uint64(b), 1 << (b - 1)
}
