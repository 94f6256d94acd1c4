package smbshare

import (
	"slices"
	"sync"

	"lwio/internal/smb/smbwire"
)

// lockSequences numbers the LOCK requests of a persistent open, so that a repeated one is done once. A
// bucket has one request at a time. The zero value is ready. Safe for concurrent use.
//
// Source: [MS-SMB2 3.2.4.19]
type lockSequences struct {
	mu     sync.Mutex
	busy   [smbwire.LockBuckets]bool
	number [smbwire.LockBuckets]uint8
	doubts []*doubt
}

// doubt is a LOCK request that was given up while its outcome was unknown. It keeps its bucket.
type doubt struct {
	bucket    uint32
	sequence  uint32
	r         Range
	unlock    bool
	exclusive bool
	on        *link // the link on which the response may still arrive; nil if it is lost
	over      bool  // the response has arrived
}

// take returns a free bucket, counted from 1, and the sequence of its next request. It returns zeros
// if all buckets are busy.
func (q *lockSequences) take() (bucket, sequence uint32) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.takeLocked()
}

// takeLocked is take. Precondition: mu is held.
func (q *lockSequences) takeLocked() (bucket, sequence uint32) {
	i := slices.Index(q.busy[:], false)
	if i < 0 {
		return 0, 0
	}
	q.busy[i] = true
	q.number[i]++
	bucket = uint32(i) + 1
	return bucket, smbwire.LockSequence(bucket, q.number[i])
}

// free frees a bucket. 0 is allowed.
func (q *lockSequences) free(bucket uint32) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.freeLocked(bucket)
}

// freeLocked is free. Precondition: mu is held.
func (q *lockSequences) freeLocked(bucket uint32) {
	if bucket > 0 {
		q.busy[bucket-1] = false
	}
}

// add adds a doubt, unless the response has arrived meanwhile.
func (q *lockSequences) add(d *doubt) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !d.over {
		q.doubts = append(q.doubts, d)
	}
}

// drop removes a doubt and frees its bucket.
func (q *lockSequences) drop(d *doubt) {
	q.mu.Lock()
	defer q.mu.Unlock()
	d.over = true
	q.doubts = slices.DeleteFunc(q.doubts, func(x *doubt) bool { return x == d })
	q.freeLocked(d.bucket)
}

// granted makes the doubt about a lock that was granted too late one about the end of that lock.
func (q *lockSequences) granted(d *doubt) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.freeLocked(d.bucket)
	d.unlock = true
	d.bucket, d.sequence = q.takeLocked()
}

// open returns the doubts whose outcome can be asked for on l.
func (q *lockSequences) open(l *link) []*doubt {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(q.doubts), func(d *doubt) bool { return d.on == l })
}
